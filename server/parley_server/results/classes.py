"""Jobs by class: by what they ask for, by whose they are, by how they ended."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from parley_server.errors import UsageError, did_you_mean
from parley_server.results.metrics import job_metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from parley_server.results.run_directory import Category, JobTable

    Reals = NDArray[np.float64]

CORE_HOURS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0)
"""Edges of the classes of work; a class begins with its lower edge."""

RUNTIMES = (60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
"""Edges of the classes of time on the nodes, seconds."""


@dataclass(frozen=True, slots=True)
class Classes:
    """Jobs by class.

    Attributes:
        codes: For each job the place of its class in *names*, shape (jobs,).
        names: The classes that have a job, in their order.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    def parts(self, values: Reals) -> Iterator[tuple[str, Reals]]:
        """Yield each class with the values of its jobs; NaN is left out."""
        known = np.isfinite(values)
        order = np.argsort(self.codes[known], kind="stable")
        codes, values = self.codes[known][order], values[known][order]
        for place, name in enumerate(self.names):
            first, last = np.searchsorted(codes, (place, place + 1))
            yield name, values[first:last]


KINDS = {
    "size": "processors, by powers of two",
    "work": "core hours, by powers of ten",
    "runtime": "time on the nodes",
    "user": "users, those with most jobs first",
    "group": "groups, likewise",
    "queue": "queues, likewise",
    "partition": "partitions, likewise",
    "state": "how the job ended",
}
"""What jobs can be told apart by."""


def classes(jobs: JobTable, kind: str, *, most: int | None = None) -> Classes:
    """Return the class of each job.

    Args:
        jobs: The jobs.
        kind: One of `KINDS`.
        most: Of users, groups, queues and partitions so many at most; the rest are `others`.

    Raises:
        UsageError: There is no such kind.
    """
    match kind:
        case "size":
            return _by_size(job_metric("processors").values(jobs))
        case "work":
            return _by_edges(job_metric("work").values(jobs), CORE_HOURS, "core h")
        case "runtime":
            return _by_edges(jobs.execution, RUNTIMES, "s")
        case "user" | "group" | "queue" | "partition":
            return _by_count(getattr(jobs, kind), most)
        case "state":
            return _by_count(jobs.state, None)
    raise UsageError(
        f"jobs are not told apart by {kind!r}{did_you_mean(kind, KINDS)}; known: {', '.join(KINDS)}"
    )


def _by_size(processors: Reals) -> Classes:
    """Return classes 1, 2, 3-4, 5-8, ...: each up to a power of two."""
    powers = np.ceil(np.log2(np.maximum(processors, 1.0))).astype(np.int64)
    return _present(powers, [_size_name(power) for power in range(int(powers.max(initial=0)) + 1)])


def _size_name(power: int) -> str:
    first, last = 2**power // 2 + 1, 2**power
    return str(last) if power < 2 else f"{first:,}-{last:,}"


def _by_edges(values: Reals, edges: Sequence[float], unit: str) -> Classes:
    names = [
        f"< {edges[0]:,g} {unit}",
        *(f"{low:,g} - {high:,g} {unit}" for low, high in pairwise(edges)),
        f"≥ {edges[-1]:,g} {unit}",
    ]
    return _present(np.searchsorted(np.array(edges), values, side="right"), names)


def _by_count(category: Category, most: int | None) -> Classes:
    codes, words = category.codes, category.names
    counts = np.bincount(codes, minlength=len(words))
    order = np.argsort(-counts, kind="stable")
    kept = len(words) if most is None or len(words) <= most else most
    place = np.empty(len(words), dtype=np.int64)
    place[order] = np.minimum(np.arange(len(words)), kept)
    names = [words[code] or "unknown" for code in order[:kept]]
    return _present(place[codes], [*names, "others"])


def _present(codes: NDArray[np.int64], names: Sequence[str]) -> Classes:
    """Leave out the classes without a job."""
    counts = np.bincount(codes, minlength=len(names))
    place = np.cumsum(counts > 0) - 1
    return Classes(
        place[codes], tuple(name for name, count in zip(names, counts, strict=True) if count)
    )
