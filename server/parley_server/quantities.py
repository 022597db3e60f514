"""Durations, amounts and factors as users write them, and times as files show them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from parley_server.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MICROSECONDS = 1_000_000

_UNITS = {"us": 1, "ms": 1000, "s": MICROSECONDS, "m": 60 * MICROSECONDS}
_UNITS |= {"h": 60 * _UNITS["m"], "d": 24 * 60 * _UNITS["m"]}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(us|ms|s|m|h|d)?")
_AMOUNT = re.compile(r"([A-Za-z_][\w.-]*)\s*=\s*(\d{1,100})")


def parse_duration(text: str) -> int:
    """Return microseconds for `90`, `90s`, `1.5m`, `4h` or `2d`.

    Raises:
        UsageError: The text is no duration.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no duration; write 90, 90s, 5m, 4h or 2d")
    number, unit = match.groups()
    return int(Fraction(number) * _UNITS[unit or "s"])


def parse_amounts(text: str) -> dict[str, int]:
    """Return amounts by name for `core=4,gpu=1`.

    Raises:
        UsageError: The text is something else.
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        match = _AMOUNT.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part.strip()!r} is no amount; write core=4 or core=4,gpu=1")
        name, amount = match.groups()
        if name in amounts:
            raise UsageError(f"{name!r} stands twice in {text!r}")
        amounts[name] = int(amount)
    return amounts


def parse_columns(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Return columns by field for texts such as `id=job`; None if there are none.

    Raises:
        UsageError: A text is something else, or a field stands twice.
    """
    if not texts:
        return None
    columns: dict[str, str] = {}
    for text in texts:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise UsageError(f"{text!r} is no column; write FIELD=COLUMN, such as id=job")
        if name in columns:
            raise UsageError(f"field {name!r} stands twice")
        columns[name] = column
    return columns


def format_seconds(microseconds: int) -> str:
    """Return seconds with at most six decimals and no trailing zeros."""
    rest = microseconds % MICROSECONDS
    if not rest:
        return str(microseconds // MICROSECONDS)
    if microseconds < 0:
        return "-" + format_seconds(-microseconds)
    seconds = microseconds // MICROSECONDS
    return f"{seconds}.{rest:06d}".rstrip("0")


def parse_seconds(text: str) -> int:
    """Return the microseconds that `format_seconds` wrote as *text*."""
    if "." not in text:
        return int(text) * MICROSECONDS
    seconds, _, decimals = text.partition(".")
    sign = -1 if seconds.startswith("-") else 1
    return int(seconds) * MICROSECONDS + sign * int(decimals.ljust(6, "0"))
