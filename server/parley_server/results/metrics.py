"""What a run is judged by, each with its definition and where it comes from.

All of them are over the jobs that ran to an end, however it came (completed, failed, timed out,
killed), each with the last of its attempts; a job that was rejected has no times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Seconds = NDArray[np.float64]
    Ratios = NDArray[np.float64]

BOUND = 10.0
"""Seconds; the usual threshold of bounded slowdown."""


def turnaround(wait: Seconds, runtime: Seconds) -> Seconds:
    """Return the time from submission to end.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).

    Returns:
        Seconds, shape (jobs,).

    Source: Feitelson and Rudolph, Metrics and benchmarking for parallel job scheduling, JSSPP
    1998, who call it response time.
    """
    return wait + runtime


def slowdown(wait: Seconds, runtime: Seconds) -> Ratios:
    """Return how much longer each job took than on an idle machine.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).

    Returns:
        Dimensionless, at least 1, for the jobs whose runtime is not zero; for the others it is
        undefined and they are left out: shape (jobs with a runtime,).

    Source: Feitelson and Rudolph, JSSPP 1998.
    """
    ran = runtime > 0
    return (wait[ran] + runtime[ran]) / runtime[ran]


def bounded_slowdown(wait: Seconds, runtime: Seconds, *, threshold: float = BOUND) -> Ratios:
    """Return how much longer each job took than on an idle machine, short jobs bounded.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).
        threshold: Runtimes are raised to this, seconds, lest one-second jobs outweigh the rest.

    Returns:
        Dimensionless, at least 1, shape (jobs,).

    Raises:
        ValueError: *threshold* is not positive.

    Source: Feitelson, Metrics for parallel job scheduling and their convergence, JSSPP 2001.
    """
    if threshold <= 0:
        raise ValueError(f"a threshold is positive, not {threshold}")
    return np.maximum(1.0, (wait + runtime) / np.maximum(runtime, threshold))
