"""Statistics of a finished run, from its `jobs.csv`, in memory that does not grow with it."""

from __future__ import annotations

import csv
import math
import tempfile
from array import array
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import OutputError
from parley_server.quantities import MICROSECONDS, parse_seconds
from parley_server.results.columns import JOB_COLUMNS
from parley_server.results.metrics import bounded_slowdown, slowdown, turnaround
from parley_server.results.selection import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Metric = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

_BLOCK = 16_384
"""Jobs in memory at once."""

_SUBMIT = JOB_COLUMNS.index("submission_time")
_EXECUTION = JOB_COLUMNS.index("execution_time")
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
        with tempfile.TemporaryFile(dir=jobs_csv.parent) as scratch:
            span = _Span()
            count = _spill(jobs_csv, scratch, span)
            scratch.flush()
            result = {name: _describe(scratch, metric) for name, metric in METRICS.items()}
            result["slowdown"]["undefined"] = count - result["slowdown"]["count"]
            return {**result, "makespan_us": span.makespan}
    except OSError as error:
        raise OutputError(f"{jobs_csv}: no statistics: {error.strerror or error}") from None


class _Span:
    """From the first submission to the last end."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None

    @property
    def makespan(self) -> int | None:
        if self.first is None or self.last is None:
            return None
        return self.last - self.first


def _spill(jobs_csv: Path, scratch: IO[bytes], span: _Span) -> int:
    """Write wait and runtime of every job that ran to its end, as pairs; return how many."""
    count = 0
    with jobs_csv.open(encoding="utf-8", newline="") as lines:
        pairs = array("d")
        for row in _rows(islice(lines, 1, None)):
            submit = parse_seconds(row[_SUBMIT])
            if span.first is None or submit < span.first:
                span.first = submit
            if not row[_FINISH] or row[_LAST] != "1":
                continue
            finish = parse_seconds(row[_FINISH])
            if span.last is None or finish > span.last:
                span.last = finish
            pairs.append(parse_seconds(row[_WAIT]) / MICROSECONDS)
            pairs.append(parse_seconds(row[_EXECUTION]) / MICROSECONDS)
            count += 1
            if len(pairs) >= _BLOCK:
                scratch.write(pairs)
                del pairs[:]
        scratch.write(pairs)
    return count


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """Split rows; the general and slower way only from the first quoted one on."""
    for line in lines:
        if '"' in line:
            yield from csv.reader(chain((line,), lines))
            return
        yield line.split(",")


def _describe(scratch: IO[bytes], metric: Metric) -> dict[str, Any]:
    def blocks() -> Iterator[NDArray[np.float64]]:
        scratch.seek(0)
        while data := scratch.read(_BLOCK * 16):
            pairs = np.frombuffer(data, dtype=np.float64).reshape(-1, 2)
            yield metric(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))

    count = sum(len(block) for block in blocks())
    if not count:
        return {"count": 0, "mean": None, "median": None, "p95": None, "max": None}
    # The sum is rounded once, so that it does not hang on the size of the blocks.
    total = math.fsum(value for block in blocks() for value in block.tolist())
    return {
        "count": count,
        "mean": total / count,
        "median": percentile(blocks, count, 0.5),
        "p95": percentile(blocks, count, 0.95),
        "max": max(float(block.max()) for block in blocks() if len(block)),
    }
