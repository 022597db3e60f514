"""How evenly what a machine gives is shared, and how far an order is from that of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parley_server.results.run_directory import JobTable

    Ratios = NDArray[np.float64]


def jain_index(values: Ratios) -> float:
    """Return Jain's index of values that are not negative: 1 if all are equal, 1/n if one has all.

    Args:
        values: Shape (n,).

    Returns:
        In [1/n, 1]; NaN if there is none, 1 if all are 0.

    Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    if not len(values):
        return float("nan")
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0


def gini_coefficient(values: Ratios) -> float:
    """Return Gini's coefficient of values that are not negative: 0 if all are equal.

    Args:
        values: Shape (n,).

    Returns:
        In [0, 1 − 1/n]; NaN if there is none, 0 if all are 0.

    Source: Gini, Variabilità e mutabilità, 1912; the sorted form.
    """
    total = float(values.sum())
    if not len(values):
        return float("nan")
    if not total:
        return 0.0
    count = len(values)
    ranks = np.arange(1, count + 1)
    return float(2 * (ranks * np.sort(values)).sum() / (count * total) - (count + 1) / count)


def user_means(jobs: JobTable, values: Ratios) -> Ratios:
    """Return the mean of a metric for each user that has one.

    Args:
        jobs: The jobs.
        values: A metric of them, shape (jobs,); NaN is left out.

    Returns:
        Shape (users with a value,).
    """
    known = np.isfinite(values)
    codes = jobs.user.codes[known]
    counts = np.bincount(codes, minlength=len(jobs.user.names))
    sums = np.bincount(codes, values[known], minlength=len(jobs.user.names))
    return sums[counts > 0] / counts[counts > 0]


def overtaken(jobs: JobTable) -> NDArray[np.bool_]:
    """Return which jobs started after one that was submitted later, shape (jobs,)."""
    order = np.argsort(jobs.submit, kind="stable")
    starts, submits = jobs.start[order], jobs.submit[order]
    # The earliest start among those that follow; jobs of one instant do not overtake each other.
    earliest = np.append(np.minimum.accumulate(starts[::-1])[::-1], np.inf)
    later = np.searchsorted(submits, submits, side="right")
    found = np.zeros(len(order), dtype=bool)
    found[order] = earliest[later] < starts
    return found
