"""Statistics of a finished run, from its `jobs.csv`, in memory that does not grow with it."""

from __future__ import annotations

import csv
import math
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import OutputError
from parley_server.quantities import parse_seconds
from parley_server.results.columns import JOB_COLUMNS
from parley_server.results.metrics import bounded_slowdown, slowdown, turnaround
from parley_server.results.selection import percentile
from parley_server.results.spill import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Metric = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

_SUBMIT = JOB_COLUMNS.index("submission_time")
_WAIT = JOB_COLUMNS.index("waiting_time")
_FINISH = JOB_COLUMNS.index("finish_time")
_LAST = JOB_COLUMNS.index("last")

METRICS: dict[str, Metric] = {
    "wait": lambda wait, runtime: wait,  # noqa: ARG005 - one signature for all
    "turnaround": turnaround,
    "slowdown": slowdown,
    "bounded_slowdown": bounded_slowdown,
}
"""Seconds, seconds, dimensionless, dimensionless."""


def job_statistics(jobs_csv: Path) -> dict[str, Any]:
    """Return mean, median, 95th percentile and maximum of each metric, and the makespan.

    Args:
        jobs_csv: A file of whole rows as a run writes it.

    Returns:
        For each of `METRICS` a table of count, mean, median, p95 and max (None where there is no
        job); `makespan_us`, last end minus first submission, or None.

    Raises:
        OutputError: The file cannot be read, or there is no room for a scratch file.
    """
    try:
        with Spill(jobs_csv.parent) as spill:
            _read(jobs_csv, spill)
            return described(spill)
    except OSError as error:
        raise OutputError(f"{jobs_csv}: no statistics: {error.strerror or error}") from None


def described(spill: Spill) -> dict[str, Any]:
    """Return the same of what a run has noted as it went on.

    Raises:
        OSError: There was no room for it.
    """
    result = {name: _describe(spill, metric) for name, metric in METRICS.items()}
    result["slowdown"]["undefined"] = spill.count - result["slowdown"]["count"]
    return {**result, "makespan_us": spill.makespan}


def _read(jobs_csv: Path, spill: Spill) -> None:
    """Note every job of a file that ran to its end."""
    with jobs_csv.open(encoding="utf-8", newline="") as lines:
        spill.note(map(_times, _rows(islice(lines, 1, None))))


def _times(row: list[str]) -> tuple[int, int | None, int | None]:
    """Return submission, and start and end of a job that ran to its end."""
    submit = parse_seconds(row[_SUBMIT])
    if not row[_FINISH] or row[_LAST] != "1":
        return submit, None, None
    return submit, submit + parse_seconds(row[_WAIT]), parse_seconds(row[_FINISH])


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """Split rows; the general and slower way only from the first quoted one on."""
    for line in lines:
        if '"' in line:
            yield from csv.reader(chain((line,), lines))
            return
        yield line.split(",")


def _describe(spill: Spill, metric: Metric) -> dict[str, Any]:
    def blocks() -> Iterator[NDArray[np.float64]]:
        for data in spill.blocks():
            pairs = np.frombuffer(data, dtype=np.float64).reshape(-1, 2)
            yield metric(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))

    count = sum(len(block) for block in blocks())
    if not count:
        return {"count": 0, "mean": None, "median": None, "p95": None, "max": None}
    # The sum is rounded once, so that it does not hang on the size of the blocks.
    total = math.fsum(chain.from_iterable(block.tolist() for block in blocks()))
    return {
        "count": count,
        "mean": total / count,
        "median": percentile(blocks, count, 0.5),
        "p95": percentile(blocks, count, 0.95),
        "max": max(float(block.max()) for block in blocks() if len(block)),
    }
