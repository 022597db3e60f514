"""The numbers of a run in tables: each metric described, by class, and flat for a database."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.results.classes import classes
from parley_server.results.metrics import JOB_METRICS, RUN_METRICS, job_metric
from parley_server.results.sample import WHOLE, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from parley_server.results.run_directory import RunDirectory
    from parley_server.results.sample import Window

    Reals = NDArray[np.float64]

_FRACTIONS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Description:
    """Values in a few numbers; all but the counts are NaN where there is no value.

    Attributes:
        count: How many values there are.
        undefined: How many jobs have none.
        deviation: Standard deviation, of a sample (n − 1).
        p5, q1, median, q3, p95, p99: Percentiles by linear interpolation (type 7 of Hyndman and
            Fan, 1996).
    """

    count: int
    undefined: int
    mean: float
    deviation: float
    min: float
    p5: float
    q1: float
    median: float
    q3: float
    p95: float
    p99: float
    max: float


STATISTICS = ("mean", "deviation", "min", "p5", "q1", "median", "q3", "p95", "p99", "max")
"""What a `Description` says besides its counts."""


def describe(values: Reals) -> Description:
    """Describe values; NaN stands for none.

    Args:
        values: Shape (jobs,).
    """
    known = values[np.isfinite(values)]
    count, undefined = len(known), len(values) - len(known)
    if not count:
        nothing = dict.fromkeys(STATISTICS, math.nan)
        return Description(count=0, undefined=undefined, **nothing)
    # Rounded once, as in summary.json, so that both say the same.
    mean = math.fsum(known.tolist()) / count
    p5, q1, median, q3, p95, p99 = np.quantile(known, _FRACTIONS).tolist()
    return Description(
        count=count,
        undefined=undefined,
        mean=mean,
        deviation=float(known.std(ddof=1)) if count > 1 else 0.0,
        min=float(known.min()),
        p5=p5,
        q1=q1,
        median=median,
        q3=q3,
        p95=p95,
        p99=p99,
        max=float(known.max()),
    )


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values lie in each of some bins.

    Attributes:
        edges: Ascending, shape (bins + 1,).
        counts: Values at or above an edge and below the next; in the last bin also those equal
            to its end; shape (bins,).
    """

    edges: Reals
    counts: NDArray[np.int64]


def histogram(values: Reals, *, bins: int = 50, logarithmic: bool = False) -> Histogram:
    """Count values in bins of equal width.

    Args:
        values: NaN stands for none.
        bins: How many.
        logarithmic: Of equal ratio instead, over the values above 0; smaller ones fall into a
            first bin that begins at 0.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return Histogram(np.array([0.0, 1.0]), np.zeros(1, np.int64))
    if logarithmic and (known > 0).any():
        low, high = known[known > 0].min(), known.max()
        edges = np.geomspace(low, high if high > low else low * 2, bins + 1)
        edges[-1] = max(edges[-1], high)
        if (known <= 0).any():
            edges = np.concatenate(([0.0], edges))
        # What rounding took from the lowest value is given back.
        edges[1 if known.min() <= 0 else 0] = low
    else:
        edges = np.histogram_bin_edges(known, bins)
    counts, edges = np.histogram(known, edges)
    return Histogram(edges, counts)


def job_measures(sample: Sample, names: Sequence[str] | None = None) -> dict[str, Description]:
    """Describe metrics of jobs.

    Args:
        sample: The part of a run that is judged.
        names: Which metrics, also `path/to/file.py:function`; None is all of the registry.

    Raises:
        UsageError: One is unknown.
    """
    chosen = JOB_METRICS if names is None else [job_metric(name) for name in names]
    return {metric.name: describe(metric.values(sample.jobs)) for metric in chosen}


def run_measures(sample: Sample) -> dict[str, float]:
    """Return the metrics of the run; NaN where one is undefined."""
    return {metric.name: metric.value(sample) for metric in RUN_METRICS}


def class_measures(
    sample: Sample, kind: str, metric: str, *, most: int | None = None
) -> dict[str, Description]:
    """Describe a metric for each class of jobs.

    Args:
        sample: The part of a run that is judged.
        kind: What jobs are told apart by, one of `parley_server.results.classes.KINDS`.
        metric: Of jobs, by name or path.
        most: Of users and the like so many; the rest are `others`.

    Raises:
        UsageError: One is unknown.
    """
    values = job_metric(metric).values(sample.jobs)
    found = classes(sample.jobs, kind, most=most)
    return {name: describe(part) for name, part in found.parts(values)}


def measures(
    run: RunDirectory, *, window: Window = WHOLE, extra: Sequence[str] = ()
) -> dict[str, float]:
    """Return every number of a run by a flat name, such as `wait.mean` or `utilisation`.

    Args:
        run: The run.
        window: What to cut off.
        extra: Metrics of a user's own, `path/to/file.py:function`.

    Raises:
        InputError: The run's files cannot be read.
        UsageError: A metric is unknown, or nothing is left.
    """
    sample = Sample(run, window)
    names = [metric.name for metric in JOB_METRICS] + list(extra)
    flat: dict[str, float] = {}
    for name, described in job_measures(sample, names).items():
        flat |= {f"{name}.{key}": value for key, value in asdict(described).items()}
    for kind in run.jobs.amounts:
        capacity = run.machine.capacity[kind]
        used = sample.used(kind).mean(sample.begin, sample.end)
        flat[f"utilisation.{kind}"] = used / capacity if capacity else math.nan
    return {**run_measures(sample), **flat}


def plain(value: Any) -> Any:
    """Return numbers as JSON can say them: NaN is null."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case Description():
            return plain(asdict(value))
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def number_text(value: float) -> str:
    """Return a number as a table has it: four decimals at most, large ones grouped."""
    if not math.isfinite(value):
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    digits = 1 if size >= 10_000 else 3 if size >= 10 else 4
    return f"{value:,.{digits}f}"
