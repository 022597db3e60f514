"""One job from named values: what JSON Lines, tables and readers of one's own have in common.

Times are seconds, or text: a duration such as `90s` or `1-02:03:04`, an instant such as
`2024-05-01T12:00:00` (UTC where it says no zone; then time 0 is Unix time's). What is known only
afterwards (`runtime`, `wait`, `allocated`, `cpu_time`, `used_memory`, `status`) never travels.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from parley_server.engine import ChunkGroup, Shape
from parley_server.markers import spelling
from parley_server.quantities import MICROSECONDS
from parley_server.workload.entry import (
    MOST_CHUNKS,
    MOST_SECONDS,
    NOTHING_MORE,
    Entry,
    Malformed,
    More,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEYS = (
    "id",
    "submit",
    "runtime",
    "processors",
    "walltime",
    "memory",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "request",
    "constraints",
    "attributes",
    "preceding",
    "think_time",
    "wait",
    "allocated",
    "cpu_time",
    "used_memory",
    "status",
)
"""What a job may say of itself; `id`, `submit` and `runtime` it must, and its size."""

AFTERWARDS = frozenset({"runtime", "wait", "allocated", "cpu_time", "used_memory", "status"})
"""What is known only when a job is over."""

_MOST_TEXT = 1024
_MOST_ATTRIBUTES = 200
_MOST_MEMORY = 2**62
_MOST_AMOUNT = 2**40
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2})(\.\d{1,9})?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,19}(?:\.\d{1,19})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_UNITS = {"us": 1, "ms": 1000, "s": MICROSECONDS, "m": 60 * MICROSECONDS}
_UNITS |= {"h": 60 * _UNITS["m"], "d": 24 * 60 * _UNITS["m"]}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(us|ms|s|m|h|d)", re.ASCII)


def entry_of(values: Mapping[str, Any], *, key: Callable[[str], str] = str) -> Entry:
    """Return the entry that named values describe; None and empty text are missing ones.

    Args:
        values: By the names of `KEYS`; another name is malformed.
        key: What a name is called where the values stand, for messages.

    Raises:
        Malformed: A value is wrong or missing.
    """
    given = _Given(values, key)
    request = given.request()
    requested = given.whole("processors", most=MOST_CHUNKS)
    allocated = given.whole("allocated", most=MOST_CHUNKS)
    constraints, attributes = given.texts("constraints"), given.attributes()
    more = NOTHING_MORE
    if request is not None or constraints or attributes:
        more = More(request, constraints, attributes)
    submit = given.instant("submit")
    if submit is None:
        raise given.missing("submit", "an instant")
    if submit < 0:
        raise Malformed(f"field {key('submit')!r} is negative: expected seconds from time 0 on")
    if request is not None and requested < 0:
        requested = request[0].chunks
    return Entry(
        given.name(),
        submit,
        given.time("runtime"),
        allocated,
        requested,
        given.time("walltime"),
        given.whole("memory", most=_MOST_MEMORY),
        given.whole("status", most=2**31),
        given.text("user"),
        given.text("group"),
        given.text("application"),
        given.text("queue"),
        given.text("partition"),
        given.whole("preceding", most=2**62),
        given.time("think_time") // MICROSECONDS if values.get("think_time") is not None else -1,
        given.raw("wait"),
        given.raw("cpu_time"),
        given.raw("used_memory"),
        more,
    )


class _Given:
    """The values of one job, each taken as what it should be."""

    def __init__(self, values: Mapping[str, Any], key: Callable[[str], str]) -> None:
        self._values = values
        self._key = key

    def get(self, name: str) -> Any:
        value = self._values.get(name)
        if isinstance(value, str):
            value = value.strip()
        return None if value == "" else value

    def wrong(self, name: str, expected: str) -> Malformed:
        shown = repr(self._values.get(name))[:48]
        return Malformed(f"field {self._key(name)!r} is {shown}: expected {expected}")

    def missing(self, name: str, expected: str) -> Malformed:
        return Malformed(f"field {self._key(name)!r} is missing: expected {expected}")

    def name(self) -> int | str:
        value = self.get("id")
        if value is None:
            raise self.missing("id", "the job's name")
        if isinstance(value, bool) or not isinstance(value, (int, str, float, Decimal)):
            raise self.wrong("id", "a name or a number")
        if isinstance(value, (float, Decimal)):
            if not _finite(value) or value != int(value):
                raise self.wrong("id", "a name or a whole number")
            value = int(value)
        if isinstance(value, int):
            if not 0 <= value < 2**63:
                raise self.wrong("id", "a number from 0 on")
            return value
        name = self._text("id", value)
        plain = name.isdigit() and name.isascii() and str(int(name[:19])) == name
        return int(name) if plain else name

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is None or (isinstance(value, (int, float)) and value == -1):
            return None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self.wrong(name, "a name or a number")
        return self._text(name, str(value) if isinstance(value, str) else _digits(value))

    def _text(self, name: str, value: str) -> str:
        if len(value) > _MOST_TEXT:
            raise self.wrong(name, f"at most {_MOST_TEXT} characters")
        if not _sayable(value):
            raise self.wrong(name, "text")
        return value

    def whole(self, name: str, *, most: int) -> int:
        """Return a count, negative if it is missing."""
        value = self._number(name, "a whole number")
        if value is None:
            return -1
        if value != int(value):
            raise self.wrong(name, "a whole number")
        if value > most:
            raise self.wrong(name, f"at most {most}")
        return max(int(value), -1)

    def time(self, name: str) -> int:
        """Return a duration in microseconds, negative if it is missing."""
        value = self.get(name)
        if isinstance(value, timedelta):
            value = Decimal(value // timedelta(microseconds=1)) / MICROSECONDS
        elif isinstance(value, str) and not _NUMBER.fullmatch(value):
            spelt = duration(value)
            if spelt is None:
                raise self.wrong(name, "seconds, or a duration such as 90s or 1-02:03:04")
            value = Decimal(spelt) / MICROSECONDS
        number = self._decimal(name, value, "seconds")
        if number is None or number < 0:
            return -MICROSECONDS
        if number > MOST_SECONDS:
            raise self.wrong(name, f"at most {MOST_SECONDS} s")
        return int(number * MICROSECONDS)

    def instant(self, name: str) -> int | None:
        """Return microseconds since time 0."""
        value = self.get(name)
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            value = instant(value)
            if value is None:
                raise self.wrong(name, "seconds, or an instant such as 2024-05-01T12:00:00")
        elif isinstance(value, date):
            value = _unix(value)
        number = self._decimal(name, value, "seconds")
        if number is None:
            return None
        if number > MOST_SECONDS:
            raise self.wrong(name, f"at most {MOST_SECONDS} s")
        return int(number * MICROSECONDS)

    def raw(self, name: str) -> bytes:
        """Return a number that decides nothing, as it stands in SWF."""
        value = self._number(name, "a number")
        return b"-1" if value is None or value < 0 else format(value.normalize(), "f").encode()

    def _number(self, name: str, expected: str) -> Decimal | None:
        value = self.get(name)
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            raise self.wrong(name, expected)
        return self._decimal(name, value, expected)

    def _decimal(self, name: str, value: Any, expected: str) -> Decimal | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
            raise self.wrong(name, expected)
        number = Decimal(str(value)) if isinstance(value, (float, str)) else Decimal(value)
        if not number.is_finite() or abs(number) >= 2**63:
            raise self.wrong(name, expected)
        return number

    def texts(self, name: str) -> dict[str, str]:
        """Return what attributes must be, by name."""
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or len(value) > _MOST_ATTRIBUTES:
            raise self.wrong(name, 'attributes and their values, such as {"model": "epyc"}')
        found = {}
        for attribute, wanted in value.items():
            if not isinstance(wanted, (str, bool, int)):
                raise self.wrong(name, "text, a whole number or true as an attribute's value")
            found[self._text(name, str(attribute))] = self._text(name, spelling(wanted))
        return found

    def attributes(self) -> Mapping[str, object]:
        value = self.get("attributes")
        if value is None:
            return {}
        if not isinstance(value, dict) or len(value) > _MOST_ATTRIBUTES:
            raise self.wrong("attributes", f"at most {_MOST_ATTRIBUTES} values by name")
        told = {}
        for name, item in value.items():
            if name in AFTERWARDS:
                raise Malformed(f"attribute {name!r} is known only afterwards and never travels")
            told[self._text("attributes", str(name))] = self._told(item, 0)
        return told

    def _told(self, value: Any, depth: int) -> Any:
        """Return what the wire can say."""
        match value:
            case None | bool():
                return value
            case int() if abs(value) < 2**53:
                return value
            case float() if _finite(value):
                return value
            case Decimal() if value.is_finite() and abs(value) < 2**53:
                return int(value) if value == int(value) else float(value)
            case str() if len(value) <= _MOST_TEXT and _sayable(value):
                return value
            case list() if len(value) <= _MOST_ATTRIBUTES and depth < 8:
                return [self._told(item, depth + 1) for item in value]
            case dict() if len(value) <= _MOST_ATTRIBUTES and depth < 8:
                return {str(name): self._told(item, depth + 1) for name, item in value.items()}
            case date():
                return value.isoformat()
        raise Malformed(f"attribute {str(value)[:48]!r} cannot be told to a dispatcher")

    def request(self) -> tuple[ChunkGroup, ...] | None:
        value = self.get("request")
        if value is None:
            return None
        expected = 'one group such as [{"chunks": 2, "per_chunk": {"core": 4}}]'
        if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
            raise self.wrong("request", expected)
        return (_chunks(value[0], lambda: self.wrong("request", expected)),)


def _chunks(group: Mapping[str, Any], wrong: Callable[[], Malformed]) -> ChunkGroup:
    chunks: Any = group.get("chunks")
    per_chunk: Any = group.get("per_chunk", {})
    exclusive = group.get("exclusive", False)
    amounts: dict[str, Any] = per_chunk if isinstance(per_chunk, dict) else {"": 0}
    if (
        group.keys() - {"chunks", "per_chunk", "exclusive"}
        or not _count(chunks, MOST_CHUNKS)
        or not isinstance(exclusive, bool)
        or not all(isinstance(name, str) and name and _sayable(name) for name in amounts)
        or not all(_count(amount, _MOST_AMOUNT) for amount in amounts.values())
        or not (amounts or exclusive)
    ):
        raise wrong()
    return ChunkGroup(chunks, Shape.of(amounts, exclusive=exclusive))


def _count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def _sayable(text: str) -> bool:
    return not any("\ud800" <= mark <= "\udfff" for mark in text)


def _finite(value: float | Decimal) -> bool:
    number = Decimal(value)
    return number.is_finite() and abs(number) < 2**63


def _digits(value: int) -> str:
    return str(value) if abs(value) < 2**63 else ""


def duration(text: str) -> int | None:
    """Return the microseconds of `90s`, `5m`, `02:03`, `1:02:03` or `1-02:03:04`, or None."""
    match = _CLOCK.fullmatch(text)
    if match:
        days, hours, minutes, seconds, rest = match.groups()
        whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + int(seconds)
        return whole * MICROSECONDS + int(Decimal(rest or 0) * MICROSECONDS)
    match = _DURATION.fullmatch(text)
    return int(Decimal(match[1]) * _UNITS[match[2]]) if match else None


def instant(text: str) -> Decimal | None:
    """Return the Unix time of an ISO 8601 instant, or None."""
    if len(text) > 40 or len(text) < 8 or not text.isascii():
        return None
    try:
        return _unix(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def _unix(moment: date) -> Decimal:
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return Decimal(since // timedelta(microseconds=1)) / MICROSECONDS


def read_json(text: str | bytes) -> Any:
    """Return what a line of JSON says, with numbers as exact as they stand.

    Raises:
        Malformed: It is not JSON.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"not JSON: {str(error)[:80]}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
