"""Cleaning rules: conditions on a line's fields, in the words of the archive's own headers.

`user=60 and (job>=254200 and job<=271542)` drops the lines for which it holds; `keep ...` drops
the others; `window FROM TO` keeps what was submitted in [FROM, TO); `sample 0.1` keeps a tenth.

Source of the words: the `-cln` files of the Parallel Workloads Archive, whose headers say by
which filters they came about, such as `submit<=2012-02-03 00:00:00 (272392 jobs removed)`.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from parley_server.errors import InputError, UsageError, did_you_mean
from parley_server.quantities import MICROSECONDS, parse_duration
from parley_server.workload.rules import drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from parley_server.workload.entry import Entry

Value: TypeAlias = int | Fraction | str | None
Condition: TypeAlias = "Callable[[Entry], bool]"


def _number(name: str | None) -> Value:
    """Return who or what a line names, as a number where it is one."""
    return int(name) if name is not None and name.isascii() and name.isdigit() else name


def _kept(raw: bytes) -> Fraction | None:
    try:
        return Fraction(raw.decode())
    except (ValueError, ZeroDivisionError):
        return None


_FIELDS: Mapping[str, Callable[[Entry], Value]] = {
    "job": lambda entry: entry.name,
    "submit": lambda entry: entry.submit,
    "wait": lambda entry: _kept(entry.wait),
    "runtime": lambda entry: entry.runtime,
    "proc": lambda entry: entry.size,
    "allocated": lambda entry: entry.allocated,
    "requested": lambda entry: entry.requested,
    "walltime": lambda entry: entry.walltime,
    "memory": lambda entry: entry.memory,
    "status": lambda entry: entry.status,
    "user": lambda entry: _number(entry.user),
    "group": lambda entry: _number(entry.group),
    "app": lambda entry: _number(entry.application),
    "queue": lambda entry: _number(entry.queue),
    "partition": lambda entry: _number(entry.partition),
}
_ALIASES = {"run": "runtime", "procs": "proc", "size": "proc", "application": "app", "id": "job"}
_TIMES = frozenset({"submit", "runtime", "walltime"})
_TEXTS = frozenset({"job", "user", "group", "app", "queue", "partition"})
"""Fields that may hold names; who is missing there is -1, as in SWF."""

FIELD_NAMES = tuple(_FIELDS)

_COMPARE: Mapping[str, Callable[..., bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<mark>[(),]) | (?P<compare><=|>=|!=|==|=|<|>) |
    (?P<date>\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?) |
    (?P<number>-?\d{1,30}(?:\.\d{1,12})?)(?P<unit>(?:us|ms|s|m|h|d)(?![\w-]))?(?![\w.-]) |
    "(?P<quoted>[^"]*)" |
    (?P<word>[A-Za-z_][\w.@/+-]*)
    )""",
    re.VERBOSE | re.ASCII,
)
_COUNTED = re.compile(r"\s*\((\d+)\s+jobs?\s+removed\)\s*$")
_MOST_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Clock:
    """How dates in rules become instants of a trace.

    Attributes:
        unix_start: Unix time of the trace's time 0, if that is known.
        zone: Where the trace's dates are local.
    """

    unix_start: int | None = None
    zone: str = "UTC"

    @classmethod
    def of(cls, header: Mapping[str, str], *, unix_start: int | None = None) -> Clock:
        """Return the clock that a trace's header tells of."""
        start = header.get("UnixStartTime", "").strip()
        if start.isascii() and start.isdigit() and len(start) < 15:
            unix_start = int(start)
        return cls(unix_start, header.get("TimeZoneString", "").strip() or "UTC")

    def instant(self, date: str) -> int:
        """Return microseconds since the trace's time 0.

        Raises:
            UsageError: There is no such date, or nobody knows when time 0 was.
        """
        try:
            moment = datetime.fromisoformat(date)
        except ValueError:
            raise UsageError(f"{date!r} is no date") from None
        if self.unix_start is None:
            raise UsageError(
                f"{date!r}: the trace does not say when its time 0 was (UnixStartTime); "
                "write seconds since then"
            )
        zone = UTC if self.zone == "UTC" else _zone(self.zone)
        seconds = moment.replace(tzinfo=zone).timestamp()
        return (int(seconds) - self.unix_start) * MICROSECONDS


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise UsageError(f"the header's time zone {name[:64]!r} is not known here") from None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"rule {text!r}: {text[at:].strip()[:20]!r} makes no sense here")
        kind = next(
            name
            for name in ("mark", "compare", "date", "number", "quoted", "word")
            if match[name] is not None
        )
        value = match[kind] + (match["unit"] or "") if kind == "number" else match[kind]
        yield _Token(kind, value, match.end())
        at = match.end()


class _Parser:
    """Reads one condition: comparisons, `and`, `or`, `not`, parentheses."""

    def __init__(self, text: str, clock: Clock) -> None:
        self._text = text
        self._clock = clock
        self._tokens = list(_tokens(text))
        self._at = 0

    def condition(self) -> Condition:
        """Return the whole text's condition.

        Raises:
            UsageError: It is none.
        """
        condition = self._any(0)
        if self._at < len(self._tokens):
            raise self._wrong("and, or, or the end")
        return condition

    def _peek(self) -> _Token:
        if self._at < len(self._tokens):
            return self._tokens[self._at]
        return _Token("end", "", len(self._text))

    def _take(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _word(self, word: str) -> bool:
        token = self._peek()
        if token.kind == "word" and token.text.lower() == word:
            self._at += 1
            return True
        return False

    def _wrong(self, expected: str) -> UsageError:
        token = self._peek()
        found = "it ends" if token.kind == "end" else f"{token.text!r} stands there"
        return UsageError(f"rule {self._text!r}: expected {expected}, {found}")

    def _any(self, depth: int) -> Condition:
        parts = [self._all(depth)]
        while self._word("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else lambda entry: any(part(entry) for part in parts)

    def _all(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._word("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else lambda entry: all(part(entry) for part in parts)

    def _one(self, depth: int) -> Condition:
        if depth > _MOST_DEPTH:
            raise UsageError(f"rule {self._text[:40]!r}...: nested too deeply")
        if self._word("not"):
            inner = self._one(depth + 1)
            return lambda entry: not inner(entry)
        if self._peek().text == "(" and self._peek().kind == "mark":
            self._take()
            inner = self._any(depth + 1)
            if self._peek().text != ")":
                raise self._wrong("a closing parenthesis")
            self._take()
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        token = self._peek()
        name = _ALIASES.get(token.text.lower(), token.text.lower())
        if token.kind != "word" or name not in _FIELDS:
            hint = did_you_mean(token.text, FIELD_NAMES) if token.kind == "word" else ""
            raise self._wrong(f"a field ({', '.join(FIELD_NAMES)}){hint}")
        self._take()
        if self._peek().kind != "compare":
            raise self._wrong("one of = != < <= > >=")
        compare = self._take().text
        values = [self._value(name)]
        while compare in ("=", "==", "!=") and self._peek().text == ",":
            self._take()
            values.append(self._value(name))
        return _compared(name, compare, values)

    def _value(self, name: str) -> Value:
        token = self._peek()
        match token.kind:
            case "date" if name == "submit":
                self._take()
                return self._clock.instant(token.text)
            case "number":
                self._take()
                return self._amount(name, token.text)
            case "word" | "quoted" if name in _TEXTS:
                self._take()
                return _number(token.text)
        raise self._wrong(f"a value for {name}")

    def _amount(self, name: str, text: str) -> Value:
        plain = text.lstrip("-")
        if name in _TIMES:
            sign = -1 if text.startswith("-") else 1
            return sign * parse_duration(plain)
        if plain[-1].isalpha():
            raise UsageError(f"rule {self._text!r}: {name} is no time, {text!r} is one")
        value = Fraction(text)
        return int(value) if value.denominator == 1 else value


def _compared(name: str, compare: str, values: Sequence[Value]) -> Condition:
    get, test = _FIELDS[name], _COMPARE[compare]
    wanted = frozenset(values)
    missing: Value = -1 if name in _TEXTS else None
    if compare in ("=", "==", "!="):
        inside = compare != "!="

        def among(entry: Entry) -> bool:
            value = get(entry)
            return ((missing if value is None else value) in wanted) is inside

        return among
    (limit,) = values

    def ordered(entry: Entry) -> bool:
        value = get(entry)
        if value is None or isinstance(value, str) is not isinstance(limit, str):
            return False
        return test(value, limit)

    return ordered


@dataclass(frozen=True, slots=True)
class CleaningRule:
    """One rule: its name, and for which lines it holds.

    Attributes:
        name: The rule as it was written, in one spelling of spaces; what it drops is counted
            under it.
        drops: Whether it drops a line.
    """

    name: str
    drops: Condition


def parse_rule(text: str, clock: Clock | None = None, *, seed: int = 0) -> CleaningRule:
    """Return the rule that a text describes.

    Args:
        text: As above; a count as headers have it, `(24025 jobs removed)`, may stand behind it.
        clock: How dates become instants.
        seed: For samples.

    Raises:
        UsageError: The text is no rule.
    """
    name = " ".join(_COUNTED.sub("", text).split())
    clock = clock or Clock()
    if not name:
        raise UsageError("an empty text is no cleaning rule; write one such as user=3 and proc=1")
    if len(name) > 10_000:
        raise UsageError(f"rule {name[:40]!r}...: longer than 10,000 characters")
    kind, _, rest = name.partition(" ")
    match kind.lower():
        case "keep":
            wanted = _Parser(rest, clock).condition()
            return CleaningRule(name, lambda entry: not wanted(entry))
        case "drop":
            return CleaningRule(rest, _Parser(rest, clock).condition())
        case "window":
            return CleaningRule(name, _window(name, rest, clock))
        case "sample":
            return CleaningRule(name, _sample(name, rest, seed))
    return CleaningRule(name, _Parser(name, clock).condition())


def _window(name: str, rest: str, clock: Clock) -> Condition:
    bounds = [token for token in _tokens(rest) if token.kind in ("date", "number")]
    if len(bounds) != 2 or " ".join(token.text for token in bounds) != " ".join(rest.split()):
        raise UsageError(f"rule {name!r}: a window has two ends, such as window 10d 20d")
    first, last = (
        clock.instant(token.text) if token.kind == "date" else parse_duration(token.text)
        for token in bounds
    )
    if last <= first:
        raise UsageError(f"rule {name!r}: the window ends before it begins")
    return lambda entry: not first <= entry.submit < last


def _sample(name: str, rest: str, seed: int) -> Condition:
    match = re.fullmatch(r"(0(?:\.\d{1,12})?|1(?:\.0*)?)(?: seed (\d{1,15}))?", rest, re.ASCII)
    if match is None or not float(match[1]):
        raise UsageError(f"rule {name!r}: a sample is a share such as sample 0.1 or 0.1 seed 7")
    share = Fraction(match[1])
    chosen = int(match[2]) if match[2] else seed
    return lambda entry: drawn(chosen, str(entry.name)) >= share


class Cleaner:
    """Tries rules in order; the first that holds drops a line.

    Args:
        texts: The rules.
        header: The trace's, for its clock.
        unix_start: Unix time of time 0 where the header does not say it.
        seed: For samples.

    Raises:
        UsageError: A text is no rule.
    """

    def __init__(
        self,
        texts: Sequence[str],
        header: Mapping[str, str],
        *,
        unix_start: int | None = None,
        seed: int = 0,
    ) -> None:
        clock = Clock.of(header, unix_start=unix_start)
        self.rules = [parse_rule(text, clock, seed=seed) for text in texts]

    def rule_against(self, entry: Entry) -> str | None:
        """Return the name of the rule that drops a line, if there is one."""
        for rule in self.rules:
            if rule.drops(entry):
                return rule.name
        return None


def filters_in(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Return the filters of a `-cln` header as they stand there, with their counts."""
    # A time of day has colons of its own.
    texts = (value if key in ("", "Note") else f"{key}:{value}" for key, value in notes)
    return [text for text in texts if _COUNTED.search(text)]


def header_filters(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Return the filters of a `-cln` header, as rules, from all its lines.

    Raises:
        InputError: Nothing in it looks like one.
    """
    filters = [" ".join(_COUNTED.sub("", text).split()) for text in filters_in(notes)]
    if not filters:
        raise InputError("the header names no filters such as user=3 (24025 jobs removed)")
    return filters
