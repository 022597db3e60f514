"""How a trace is read: each choice has a name, and is written into the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from parley_server.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RequestMode(Enum):
    """What one requested processor means."""

    NODES = "nodes"
    PROCESSORS = "processors"


class Select(Enum):
    """Which lines become jobs."""

    ALL = "all"
    ARCHIVE = "archive"


class EstimateMissing(Enum):
    """The walltime of a job whose line asks for none."""

    RUNTIME = "runtime"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where walltimes come from: the trace, or a multiple of the runtime.

    Attributes:
        factor: Walltime is this times the runtime; None leaves the trace's.
        name: As it is written in scenarios: `trace`, `exact` or `factor:F`.
    """

    name: str = "trace"
    factor: Fraction | None = None


def parse_estimate(text: str) -> Estimate:
    """Return the estimate rule for `trace`, `exact` or `factor:F`.

    Raises:
        UsageError: The text is none of them.
    """
    if text == "trace":
        return Estimate()
    if text == "exact":
        return Estimate("exact", Fraction(1))
    kind, _, number = text.partition(":")
    if kind == "factor":
        factor = _factor(number)
        if factor > 0:
            return Estimate(f"factor:{_spelling(factor)}", factor)
    raise UsageError(f"{text!r} is no estimate; write trace, exact or factor:2")


def _factor(text: str) -> Fraction:
    """Return a positive number of a sane size as `2`, `2.5` or `5/2`, or else 0."""
    if len(text) > 100 or text != text.strip() or "e" in text.lower():
        return Fraction(0)
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def _spelling(factor: Fraction) -> str:
    """Return the one spelling of a factor: with a point where that is exact."""
    decimal = format(Decimal(factor.numerator) / Decimal(factor.denominator), "f")
    return decimal if Fraction(decimal) == factor else str(factor)


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Everything that decides which jobs a trace gives.

    Attributes:
        per_processor: What one chunk asks of its node, in mode PROCESSORS.
        per_node: What every node has at least; a job in mode NODES is shown as asking for it.
        cut_at_walltime: Jobs are killed at their walltime, so that a runtime beyond it is cut
            before estimates are made from it.
    """

    request: RequestMode = RequestMode.NODES
    select: Select = Select.ALL
    estimate: Estimate = field(default_factory=Estimate)
    estimate_missing: EstimateMissing = EstimateMissing.RUNTIME
    per_processor: Mapping[str, int] = field(default_factory=lambda: {"core": 1})
    per_node: Mapping[str, int] = field(default_factory=lambda: {"core": 1})
    cut_at_walltime: bool = False
    limit: int | None = None
    strict: bool = False
