"""Runs beside one another, job by job: who gained, who lost, and whether that can be said at all.

Means of two runs may be apart by chance; jobs are the same in both, so their differences are
looked at one by one. What makes runs incomparable (another workload, other rules, another machine,
jobs that only one of them has) is told before any number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import UsageError
from parley_server.results.metrics import job_metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from parley_server.results.run_directory import RunDirectory
    from parley_server.results.sample import Sample

    Reals = NDArray[np.float64]
    Whole = NDArray[np.int64]

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Paired:
    """A metric of the jobs that ended in two runs, job by job.

    Attributes:
        job_id: Of each job, in the first run's order, shape (jobs,).
        first, second: The metric in each run, shape (jobs,); none is NaN.
        left_out: Jobs of either run that the other has no value for.
    """

    job_id: NDArray[np.bytes_]
    first: Reals
    second: Reals
    left_out: int

    @property
    def differences(self) -> Reals:
        """Second minus first, shape (jobs,)."""
        return self.second - self.first


def paired(first: Sample, second: Sample, name: str) -> Paired:
    """Return a metric of the jobs that two runs share.

    Args:
        first: A run.
        second: Another.
        name: A metric of jobs, by name or path.

    Raises:
        UsageError: It is unknown.
    """
    metric = job_metric(name)
    values, others = metric.values(first.jobs), metric.values(second.jobs)
    here, there = np.isfinite(values), np.isfinite(others)
    shared, one, two = np.intersect1d(
        first.jobs.job_id[here], second.jobs.job_id[there], return_indices=True
    )
    order = np.argsort(one)
    left_out = int(here.sum() + there.sum() - 2 * len(shared))
    return Paired(shared[order], values[here][one[order]], others[there][two[order]], left_out)


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with what chance leaves open of it.

    Attributes:
        value: Of the jobs at hand.
        low, high: Ends of the confidence interval; equal to the value if there is one job.
    """

    value: float
    low: float
    high: float

    @property
    def apart_from_zero(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.low > 0 or self.high < 0


def bootstrap_mean(
    values: Reals,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    blocks: int = 500,
) -> Interval:
    """Return the mean of values that follow one another in time, with a confidence interval.

    Waits of jobs that stand in the queue together are alike: drawn one by one they would promise
    too much. So the jobs are parted into equal stretches of consecutive ones, and whole stretches
    are drawn, with a percentile interval of the means.

    Args:
        values: In order of submission, shape (jobs,).
        seed: Of the draw; the same gives the same.
        resamples: How often is drawn.
        confidence: Between 0 and 1.
        blocks: Stretches at most; never shorter than a job. With fewer than 50 jobs in each, a
            fiftieth of the jobs or more is one stretch.

    Returns:
        The mean and the interval; NaN if there is no value.

    Raises:
        ValueError: *confidence* or *resamples* makes no sense.

    Source: Efron, Annals of Statistics 1979; blocks: Carlstein, Annals of Statistics 1986.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError("a confidence lies between 0 and 1, and one draw is the least")
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    count = max(1, min(blocks, len(values) if len(values) < 2500 else len(values) // 50))
    edges = np.linspace(0, len(values), count + 1).astype(np.int64)
    sums = np.add.reduceat(values, edges[:-1])
    sizes = np.diff(edges)
    draw = np.random.default_rng(seed).integers(0, count, size=(resamples, count))
    means = sums[draw].sum(axis=1) / sizes[draw].sum(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(values.mean()), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one job in two runs."""

    job: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """A metric in two runs.

    Attributes:
        jobs: How many have it in both.
        left_out: How many have it in one only.
        first, second: Its means over the jobs of both.
        difference: Mean of second minus first.
        median: Median of second minus first.
        lower, equal, higher: Jobs for which the second run has less, the same, more.
        gained: The jobs that gained most, by their difference.
        lost: Those that lost most.
    """

    metric: str
    jobs: int
    left_out: int
    first: float
    second: float
    difference: Interval
    median: float
    lower: int
    equal: int
    higher: int
    gained: tuple[Change, ...]
    lost: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against the first.

    Attributes:
        first, second: Their labels.
        warnings: What speaks against comparing them, most serious first.
        metrics: The metrics, in the order asked for.
    """

    first: str
    second: str
    warnings: tuple[str, ...]
    metrics: tuple[MetricComparison, ...]


COMPARED = ("wait", "turnaround", "slowdown", "bounded_slowdown")


def compare(
    first: Sample,
    second: Sample,
    *,
    metrics: Sequence[str] = COMPARED,
    seed: int = 0,
    most: int = 10,
) -> Comparison:
    """Compare a run with another, job by job.

    Args:
        first: What is compared with.
        second: What is compared.
        metrics: Of jobs, by name or path.
        seed: Of the bootstrap.
        most: How many of the jobs that gained or lost most are named.

    Raises:
        InputError: The runs' files cannot be read.
        UsageError: A metric is unknown, or the runs have no job in common.
    """
    found = tuple(
        _compared(paired(first, second, name), job_metric(name).name, seed, most)
        for name in metrics
    )
    if found and not any(each.jobs for each in found):
        raise UsageError(
            f"{first.run.path} and {second.run.path} have no job in common: nothing to compare"
        )
    return Comparison(first.run.label, second.run.label, tuple(_warnings(first, second)), found)


def _compared(pair: Paired, name: str, seed: int, most: int) -> MetricComparison:
    differences = pair.differences
    order = np.argsort(differences, kind="stable")
    changes = [
        [
            Change(pair.job_id[row].decode("utf-8", "backslashreplace"), first, second)
            for row in rows
            for first, second in [(float(pair.first[row]), float(pair.second[row]))]
        ]
        for rows in (
            [row for row in order[:most] if differences[row] < 0],
            [row for row in order[::-1][:most] if differences[row] > 0],
        )
    ]
    empty = not len(differences)
    return MetricComparison(
        metric=name,
        jobs=len(differences),
        left_out=pair.left_out,
        first=float("nan") if empty else float(pair.first.mean()),
        second=float("nan") if empty else float(pair.second.mean()),
        difference=bootstrap_mean(differences, seed=seed),
        median=float("nan") if empty else float(np.median(differences)),
        lower=int((differences < 0).sum()),
        equal=int((differences == 0).sum()),
        higher=int((differences > 0).sum()),
        gained=tuple(changes[0]),
        lost=tuple(changes[1]),
    )


# ---------------------------------------------------------------------- what speaks against it


def _warnings(first: Sample, second: Sample) -> Iterator[str]:
    yield from incomparable(first.run, second.run)
    if first.run.jobs.last.sum() != second.run.jobs.last.sum():
        yield (
            f"the runs hold {first.run.jobs.last.sum():,} and {second.run.jobs.last.sum():,} jobs"
        )
    if (first.begin, first.end) != (second.begin, second.end) and not first.window.whole:
        yield "what is cut off is not the same stretch of time in both"


def incomparable(first: RunDirectory, second: RunDirectory) -> list[str]:
    """Return what makes it doubtful to compare two runs; nothing if it is not."""
    found: list[str] = []
    one, two = _inputs(first), _inputs(second)
    if one != two:
        found.append("not the same workload: " + _unlike(one, two))
    machines = (first.summary.get("platform"), second.summary.get("platform"))
    if first.scenario.get("platform") != second.scenario.get("platform"):
        counts = [f"{(machine or {}).get('capacity')}" for machine in machines]
        found.append(f"not the same machine: {counts[0]} and {counts[1]}")
    rules, others = first.summary.get("rules", {}), second.summary.get("rules", {})
    differ = [
        f"{key} is {rules.get(key)!r} and {others.get(key)!r}"
        for key in sorted(rules.keys() | others.keys())
        if rules.get(key) != others.get(key)
    ]
    if differ:
        found.append("not the same rules: " + "; ".join(differ))
    for run in (first, second):
        if not run.complete:
            reason = run.summary.get("end", {}).get("reason", "still going on")
            found.append(f"{run.label} is not complete ({reason}): its last jobs are missing")
    return found


def _inputs(run: RunDirectory) -> list[tuple[str, str]]:
    """Return the files that a workload came from, by name and digest."""
    return [
        (str(entry.get("path", "")).rpartition("/")[2], str(entry.get("sha256", "")))
        for entry in run.summary.get("inputs", [])
        if entry.get("role") != "platform"
    ]


def _unlike(one: Sequence[tuple[str, str]], two: Sequence[tuple[str, str]]) -> str:
    names = [", ".join(name for name, _ in files) or "nothing named" for files in (one, two)]
    if names[0] == names[1]:
        return f"two files {names[0]} of different content"
    return f"{names[0]} and {names[1]}"


def comparison_table(found: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values, for JSON."""
    from dataclasses import asdict  # noqa: PLC0415 - only here

    from parley_server.results.measures import plain  # noqa: PLC0415 - only here

    table: dict[str, Any] = plain(asdict(found))
    return table
