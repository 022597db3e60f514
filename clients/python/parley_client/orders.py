"""In which order jobs are considered: a key for each job, the least first.

Every order is stable: jobs of equal keys are taken by submission, then reading order. A key that
does not hang on the present instant is kept in an index; one that does is computed anew for the
whole queue whenever it is asked for.

Times in keys and scores are seconds; a job without limit lasts infinitely long, an estimate of
zero is one second (`estimates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from parley_client.errors import UnknownName, WrongUsage
from parley_client.estimates import FOREVER, planned_length
from parley_client.sources import is_path, load_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley_client.job import Job

Score: TypeAlias = Callable[["Job", int], Any]


class Order(Protocol):
    """Which of two jobs comes first.

    Attributes:
        name: What it is called on a command line.
        timeless: The key of a job never changes; it is then asked for once.
    """

    name: str
    timeless: bool

    def key(self, job: Job, now_us: int) -> Any:
        """Return what jobs are compared by, the least first; ties are broken for it."""
        ...


OrderLike: TypeAlias = Order | Score | str
"""An order, a function `score(job, now_us)`, a name, or the path of either: `./mine.py:score`."""


class Fifo:
    """By submission.

    Source: every batch system's manual; FCFS in Feitelson and Weil, IPPS 1998.
    """

    name = "fifo"
    timeless = True

    def key(self, job: Job, now_us: int) -> int:  # noqa: ARG002 - an order's signature
        """Return the same for all: what is left is the tie rule."""
        return 0


class ShortestFirst:
    """By estimated length, the shortest first.

    Source: SJF in AccaSim, Galleguillos et al., Cluster Computing 23, 2020; on estimates.
    """

    name = "sjf"
    timeless = True

    def key(self, job: Job, now_us: int) -> int:  # noqa: ARG002
        """Return the estimate."""
        return _walltime(job)


class LongestFirst:
    """By estimated length, the longest first.

    Source: LJF in AccaSim, Galleguillos et al., Cluster Computing 23, 2020; on estimates.
    """

    name = "ljf"
    timeless = True

    def key(self, job: Job, now_us: int) -> int:  # noqa: ARG002
        """Return the estimate, negated."""
        return -_walltime(job)


class SmallestFirst:
    """By chunks asked for, the fewest first.

    Source: smallfirst in PReMAS and the scheduler of SST.
    """

    name = "smallest"
    timeless = True

    def key(self, job: Job, now_us: int) -> int:  # noqa: ARG002
        """Return the number of chunks."""
        return job.chunks


class LargestFirst:
    """By chunks asked for, the most first ("widest job first").

    Source: largefirst in PReMAS and the scheduler of SST.
    """

    name = "largest"
    timeless = True

    def key(self, job: Job, now_us: int) -> int:  # noqa: ARG002
        """Return the number of chunks, negated."""
        return -job.chunks


class BetterFit:
    """By chunks, the most first; among equals by estimated length, the longest first.

    Source: betterfit in the scheduler of SST, the port of PReMAS by its authors.
    """

    name = "better-fit"
    timeless = True

    def key(self, job: Job, now_us: int) -> tuple[int, int]:  # noqa: ARG002
        """Return chunks and estimate, negated."""
        return -job.chunks, -_walltime(job)


class Wfp3:
    """By -(wait / estimate)^3 * chunks: long waits count more for short jobs and large ones.

    Source: Tang, Lan, Desai and Buettner, Cluster 2009; as stated in RLScheduler, SC'20.
    """

    name = "wfp3"
    timeless = False

    def key(self, job: Job, now_us: int) -> float:
        """Return the score."""
        return -((_wait(job, now_us) / _length(job)) ** 3) * job.chunks


class Unicef:
    """By -wait / (log2(chunks) * estimate): small short jobs first; log2(1) counts as 1e-15.

    Source: Tang, Lan, Desai and Buettner, Cluster 2009; as stated in RLScheduler, SC'20.
    """

    name = "unicef"
    timeless = False

    def key(self, job: Job, now_us: int) -> float:
        """Return the score."""
        return -_wait(job, now_us) / ((math.log2(job.chunks) or 1e-15) * _length(job))


class F1:
    """By log10(estimate) * chunks + 870 * log10(submission); a submission at 0 counts as 0.1 s.

    The score hangs on where the trace's time 0 lies. Source: Carastan-Santos and de Camargo,
    SC'17.
    """

    name = "f1"
    timeless = True

    def key(self, job: Job, now_us: int) -> float:  # noqa: ARG002
        """Return the score."""
        return math.log10(_length(job)) * job.chunks + 870 * math.log10(_submission(job) or 0.1)


class F2:
    """By sqrt(estimate) * chunks + 25600 * log10(submission); jobs submitted at 0 come first.

    The score hangs on where the trace's time 0 lies. Source: Carastan-Santos and de Camargo,
    SC'17.
    """

    name = "f2"
    timeless = True

    def key(self, job: Job, now_us: int) -> float:  # noqa: ARG002
        """Return the score."""
        return _from_submission(job, 25_600, math.sqrt(_length(job)) * job.chunks)


class F3:
    """By estimate * chunks + 6860000 * log10(submission); jobs submitted at 0 come first.

    The score hangs on where the trace's time 0 lies. Source: Carastan-Santos and de Camargo,
    SC'17.
    """

    name = "f3"
    timeless = True

    def key(self, job: Job, now_us: int) -> float:  # noqa: ARG002
        """Return the score."""
        return _from_submission(job, 6_860_000, _length(job) * job.chunks)


class F4:
    """By estimate * sqrt(chunks) + 530000 * log10(submission); jobs submitted at 0 come first.

    The score hangs on where the trace's time 0 lies. Source: Carastan-Santos and de Camargo,
    SC'17.
    """

    name = "f4"
    timeless = True

    def key(self, job: Job, now_us: int) -> float:  # noqa: ARG002
        """Return the score."""
        return _from_submission(job, 530_000, _length(job) * math.sqrt(job.chunks))


class Scored:
    """By a function `score(job, now_us)`, the least first.

    It is computed anew at every decision, unless the function has an attribute `timeless = True`.
    """

    def __init__(self, score: Score) -> None:
        self.key = score
        self.name = str(getattr(score, "__name__", type(score).__name__))
        self.timeless = bool(getattr(score, "timeless", False))


ORDERS: Mapping[str, type[Order]] = {
    order.name: order
    for order in (
        *(Fifo, ShortestFirst, LongestFirst, SmallestFirst, LargestFirst, BetterFit),
        *(Wfp3, Unicef, F1, F2, F3, F4),
    )
}


def order_of(order: OrderLike) -> Order:
    """Return an order from whatever stands for one.

    Raises:
        WrongUsage: It stands for none; the text says which there are.
    """
    if isinstance(order, str):
        if is_path(order):
            order = load_object(order, "order")
        elif order in ORDERS:
            return ORDERS[order]()
        else:
            raise UnknownName("order", order, ORDERS)
    if isinstance(order, type):
        order = order()
    if hasattr(order, "key"):
        return order  # type: ignore[return-value]
    if callable(order):
        return Scored(order)
    raise WrongUsage(f"{order!r} is no order: it is no function score(job, now_us)")


def in_order(jobs: Iterable[Job], order: Order, now_us: int) -> list[Job]:
    """Return jobs as an order has them at an instant; O(jobs log jobs)."""
    key = order.key
    return sorted(jobs, key=lambda job: (key(job, now_us), job.submit_us, job.number))


def _walltime(job: Job) -> int:
    return FOREVER if job.walltime_us is None else job.walltime_us


def _length(job: Job) -> float:
    length = planned_length(job)
    return math.inf if length == FOREVER else length / 1e6


def _wait(job: Job, now_us: int) -> float:
    return (now_us - job.submit_us) / 1e6


def _submission(job: Job) -> float:
    return job.submit_us / 1e6


def _from_submission(job: Job, weight: float, size: float) -> float:
    # Told apart first: what is infinitely long and submitted at 0 would have no score at all.
    return size + weight * math.log10(_submission(job)) if job.submit_us else -math.inf
