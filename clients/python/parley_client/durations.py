"""Spans of time as users write them: `90`, `90s`, `5m`, `4h`, `2d`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

from parley_client.errors import WrongUsage

Duration: TypeAlias = int | float | str
"""Seconds, or text such as `90s`, `5m`, `4h`, `2d`."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd]?)")


def microseconds(duration: Duration, name: str) -> int:
    """Return a span of time that is longer than zero, in whole microseconds.

    Raises:
        WrongUsage: It is none; the text names the parameter.
    """
    found = _FORM.fullmatch(str(duration))
    value = int(Decimal(found[1]) * _UNITS[found[2]] * 1_000_000) if found else 0
    if not 0 < value < 2**53:
        raise WrongUsage(f"{name} is a time longer than zero, such as 30s or 5m, not {duration!r}")
    return value
