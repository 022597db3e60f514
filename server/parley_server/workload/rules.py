"""How a trace is read: each choice has a name, and is written into the results."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from parley_server.errors import UsageError
from parley_server.quantities import MICROSECONDS, format_seconds, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RequestMode(Enum):
    """What one requested processor means."""

    NODES = "nodes"
    PROCESSORS = "processors"


class Select(Enum):
    """Which lines become jobs."""

    ALL = "all"
    ARCHIVE = "archive"


class Size(Enum):
    """Which of a line's two counts of processors is the job's size; the other stands in for it."""

    REQUESTED = "requested"
    ALLOCATED = "allocated"


class Memory(Enum):
    """Whether jobs ask their nodes for the memory that the trace says they requested."""

    IGNORE = "ignore"
    PER_PROCESSOR = "per-processor"
    PER_JOB = "per-job"


MEMORY_UNITS: Mapping[str, Fraction] = {
    "bytes": Fraction(1, 1024),
    "kilobytes": Fraction(1),
    "megabytes": Fraction(1024),
}
"""Kilobytes (of 1024 bytes, as SWF has them) in one of each."""


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """How requested memory becomes a resource.

    Attributes:
        mode: Whether, and of what a trace's figure is the memory.
        resource: What the nodes call it.
        kilobytes: Of which one unit of that resource consists.
        unit: In what the trace counts.
    """

    mode: Memory = Memory.IGNORE
    resource: str = "memory"
    kilobytes: int = 1
    unit: str = "kilobytes"

    def amount(self, requested: int, chunks: int) -> int:
        """Return what a chunk asks for, rounded up, where a trace says *requested*."""
        total = requested * MEMORY_UNITS[self.unit] / self.kilobytes
        return -int(-total // (chunks if self.mode is Memory.PER_JOB else 1))


class EstimateMissing(Enum):
    """The walltime of a job whose line asks for none, where a word says it."""

    RUNTIME = "runtime"
    NONE = "none"
    MAXIMUM = "maximum"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Where walltimes come from: the trace, a multiple of the runtime, or a model.

    Attributes:
        name: As it is written in scenarios: `trace`, `exact`, `factor:F`, `model:F`.
        factor: Walltime is this times the runtime; None leaves the trace's.
        uniform: Of the model: a factor drawn between 1 and 1 + F for each job.
        fixed: A walltime, microseconds, for all of them.
    """

    name: str = "trace"
    factor: Fraction | None = None
    uniform: Fraction | None = None
    fixed: int | None = None

    def walltime(self, runtime: int, job: str, seed: int) -> int:
        """Return the walltime of a job, microseconds, where this is a factor or a model.

        The model's draw depends on the seed and the job's name alone.
        Source of the model: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
        """
        if self.fixed is not None:
            return self.fixed
        factor = self.factor or Fraction(1)
        if self.uniform is not None:
            factor = 1 + self.uniform * drawn(seed, job)
        return -int(-runtime * factor // 1)


def drawn(seed: int, job: str) -> Fraction:
    """Return a number in [0, 1) that hangs on the seed and the job's name alone."""
    digest = hashlib.blake2b(f"{seed}/{job}".encode(), digest_size=8).digest()
    return Fraction(int.from_bytes(digest), 2**64)


def parse_estimate(text: str) -> Estimate:
    """Return the estimate rule for `trace`, `exact`, `factor:F` or `model:F`.

    Raises:
        UsageError: The text is none of them.
    """
    if text == "trace":
        return Estimate()
    if text == "exact":
        return Estimate("exact", Fraction(1))
    estimate = _multiple(text)
    if estimate is not None:
        return estimate
    raise UsageError(f"{text!r} is no estimate; write trace, exact, factor:2 or model:4")


def parse_estimate_missing(text: str) -> EstimateMissing | Estimate:
    """Return the rule for walltimes that are missing.

    Args:
        text: `runtime`, `none`, `maximum`, `maximum:5h`, `factor:F` or `model:F`.

    Raises:
        UsageError: The text is none of them.
    """
    for member in EstimateMissing:
        if text == member.value:
            return member
    kind, _, rest = text.partition(":")
    if kind == "maximum":
        fixed = parse_duration(rest)
        if 0 < fixed < 2**53:
            return Estimate(f"maximum:{format_seconds(fixed)}s", fixed=fixed)
    estimate = _multiple(text)
    if estimate is not None:
        return estimate
    raise UsageError(
        f"{text!r} is no rule for missing estimates; "
        "write runtime, none, maximum, maximum:5h, factor:2 or model:4"
    )


def _multiple(text: str) -> Estimate | None:
    kind, _, number = text.partition(":")
    factor = _factor(number)
    if factor > 0:
        match kind:
            case "factor":
                return Estimate(f"factor:{_spelling(factor)}", factor)
            case "model":
                return Estimate(f"model:{_spelling(factor)}", uniform=factor)
    return None


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
class ZeroRuntime:
    """What becomes of a job that took no time.

    Attributes:
        name: As it is written in scenarios: `keep`, `drop`, or `raise:10s`.
        drop: It is left out.
        least: Runtimes of zero become this, microseconds; 0 keeps them.

    Source: Bunde and Leung's three options for jobs of no length.
    """

    name: str = "keep"
    drop: bool = False
    least: int = 0


def parse_zero_runtime(text: str) -> ZeroRuntime:
    """Return the rule for `keep`, `drop`, `raise` (to one second) or `raise:10s`.

    Raises:
        UsageError: The text is none of them.
    """
    kind, colon, rest = text.partition(":")
    if text == "keep":
        return ZeroRuntime()
    if text == "drop":
        return ZeroRuntime("drop", drop=True)
    if kind == "raise":
        least = parse_duration(rest) if colon else MICROSECONDS
        if 0 < least < 2**53:
            return ZeroRuntime(f"raise:{format_seconds(least)}s", least=least)
    raise UsageError(f"{text!r} is no rule for runtimes of zero; write keep, drop or raise:1s")


@dataclass(frozen=True, slots=True)
class Order:
    """What becomes of lines that stand behind a later submission.

    Attributes:
        name: As it is written in scenarios: `as-is`, `window:N` or `sort`.
        window: So many jobs are held back, so that one that comes so much later finds its place.
        sort: The whole workload is sorted first, outside memory.
    """

    name: str = "as-is"
    window: int = 0
    sort: bool = False


MOST_WINDOW = 1_000_000


def parse_order(text: str) -> Order:
    """Return the rule for `as-is`, `window:N` or `sort`.

    Raises:
        UsageError: The text is none of them.
    """
    if text == "as-is":
        return Order()
    if text == "sort":
        return Order("sort", sort=True)
    match = re.fullmatch(r"window:([0-9]{1,7})", text)
    if match and 0 < int(match[1]) <= MOST_WINDOW:
        return Order(f"window:{int(match[1])}", window=int(match[1]))
    raise UsageError(
        f"{text!r} is no order; write as-is, window:1000 (jobs, at most {MOST_WINDOW}) or sort"
    )


@dataclass(frozen=True, slots=True)
class Partitions:
    """The machine's partitions, as far as they say which nodes a job may touch.

    Attributes:
        names: All of them.
        default: That of a job which names none; None lets it go anywhere.
    """

    names: frozenset[str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Everything that decides which jobs a trace gives.

    Attributes:
        per_processor: What one chunk asks of its node, in mode PROCESSORS.
        per_node: What every node has at least; a job in mode NODES is shown as asking for it.
        processors_per_node: In mode NODES, so many processors are one node; rounded up.
        cut_at_walltime: Jobs are killed at their walltime, so that a runtime beyond it is cut
            before estimates are made from it.
        drop: Cleaning rules, as text, in the order in which they are tried.
        partitions: None if the machine has none; then a trace's partitions decide nothing.
        origin: The instant, in the trace's microseconds, that is to be time 0.
        seed: For what is drawn: samples and modelled estimates.
    """

    request: RequestMode = RequestMode.NODES
    select: Select = Select.ALL
    size: Size = Size.REQUESTED
    estimate: Estimate = field(default_factory=Estimate)
    estimate_missing: EstimateMissing | Estimate = EstimateMissing.RUNTIME
    zero_runtime: ZeroRuntime = field(default_factory=ZeroRuntime)
    per_processor: Mapping[str, int] = field(default_factory=lambda: {"core": 1})
    per_node: Mapping[str, int] = field(default_factory=lambda: {"core": 1})
    processors_per_node: int = 1
    memory: MemoryRule = field(default_factory=MemoryRule)
    partitions: Partitions | None = None
    drop: Sequence[str] = ()
    order: Order | None = None
    origin: int = 0
    cut_at_walltime: bool = False
    limit: int | None = None
    seed: int = 0
    strict: bool = False
