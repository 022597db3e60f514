"""Starting rules: which of the pending jobs, taken in an order, start now.

A policy is a rule with an order and, apart from it, an allocator; each can be exchanged alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from parley_client.durations import Duration, microseconds
from parley_client.errors import WrongUsage
from parley_client.orders import Fifo, Order, OrderLike, in_order, order_of
from parley_client.slots import FreeSlots, SlotKinds
from parley_client.waiting import Heads, Lanes, Line

if TYPE_CHECKING:
    from parley_client.job import Job, RunningJob
    from parley_client.view import View

Ask: TypeAlias = Literal["always", "actionable"]


class Policy(Protocol):
    """The only method to write for a new policy.

    A policy may have more attributes: `name`; `ask`, which is `"actionable"` if the policy does
    nothing at instants at which no pending job could start (it is then asked at fewer of them),
    else `"always"`, the default; and `counts_slots = True` if it takes for granted that a job
    fits wherever enough of its chunks do, which not every allocator can promise.
    """

    def decide(self, view: View) -> None:
        """Start, reject or kill jobs by way of the view."""
        ...


class Rule:
    """What all rules share: an order, a rhythm, and following the view of one session.

    Args:
        order: In which order jobs are taken.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Look at no more than so many jobs at a time, from the first; None is all.
    """

    name = "rule"
    ask: Ask = "actionable"
    counts_slots = False

    def __init__(
        self,
        *,
        order: OrderLike = "fifo",
        interval: Duration | None = None,
        examine: int | None = None,
    ) -> None:
        self.order: Order = order_of(order)
        self.examine = None if examine is None else at_least(1, examine, "examine")
        self.interval_us = None if interval is None else microseconds(interval, "interval")
        if self.interval_us is not None:
            self.ask = "always"
        self._view: View | None = None
        self._tick = -1
        self._nodes_changed = False

    def decide(self, view: View) -> None:
        """Decide, if it is time to."""
        if self._view is not view:
            self._view = view
            self._tick = -1
            self._begin(view)
            view.watch(self)
        self._nodes_changed |= view.changed
        if self.interval_us is None:
            self._act(view)
        elif not self._is_time(view.now_us, self.interval_us):
            self._come_back(view, self.interval_us)
        else:
            running = len(view.running)
            waiting = len(view.queue)
            self._act(view)
            # More may start without any event: jobs not looked at yet, or those that gain rank.
            restless = not self.order.timeless and running
            if len(view.queue) < waiting or restless:
                self._come_back(view, self.interval_us)

    def joined(self, job: Job) -> None:
        """A job is pending from now on."""

    def left(self, job: Job) -> None:
        """A job is pending no more, and will not start."""

    def started(self, running: RunningJob) -> None:
        """A job that was pending runs."""

    def ended(self, running: RunningJob) -> None:
        """A job runs no more."""

    def reloaded(self) -> None:
        """Everything known was replaced: begin anew."""
        self._view = None

    def _begin(self, view: View) -> None:
        """Take in a view that is new."""

    def _act(self, view: View) -> None:
        """Start what may start now: each rule has its own way."""
        raise NotImplementedError

    def _listed(self, view: View) -> list[Job]:
        """Return the jobs to look at, in order; O(jobs log jobs)."""
        return in_order(view.queue, self.order, view.now_us)[: self.examine]

    @property
    def _indexed(self) -> bool:
        """Whether an index of the queue is of use."""
        return self.order.timeless and self.examine is None

    def _is_time(self, now_us: int, interval_us: int) -> bool:
        """Whether this is a multiple of the interval, or one was missed; a timer for it is over.

        Where decisions take time, the timer may fire while the last ones are on their way; it is
        told of when they have arrived.
        """
        woken = 0 <= self._tick <= now_us
        if woken:
            self._tick = -1
        return woken or now_us % interval_us == 0

    def _come_back(self, view: View, interval_us: int) -> None:
        """See to it that the next multiple of the interval is decided at.

        That is the next after this wish takes effect: before, it would be refused as past.
        """
        if len(view.queue) and self._tick < 0:
            self._tick = ((view.now_us + view.latency_us) // interval_us + 1) * interval_us
            view.wake(self._tick)


class Strict(Rule):
    """Start jobs in order; stop at the first that does not fit.

    A job that does not fit holds up all behind it, so that none starves.

    Args:
        order: In which order jobs are taken.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Look at no more than so many jobs at a time, from the first; None is all.

    Cost: O(starts * log queue) a pass; O(queue * log queue) if the order hangs on the instant.

    Source: first come, first served with any priority; FCFS in Feitelson and Weil, IPPS 1998.
    """

    name = "strict"

    def _begin(self, view: View) -> None:
        self._heads: Heads | Line | None = None
        if self._indexed:
            plain = isinstance(self.order, Fifo)
            self._heads = Line(view.queue) if plain else Heads(self.order, view.queue)

    def joined(self, job: Job) -> None:
        """Put a job in its place."""
        if self._heads is not None:
            self._heads.add(job)

    def _act(self, view: View) -> None:
        if self._heads is not None:
            self._heads.offer(view.start, refusals=1)
        else:
            for job in self._listed(view):
                if not view.start(job):
                    break


class Aggressive(Rule):
    """Start every job that fits, in order; no reservations, so that large jobs may starve.

    Args:
        order: In which order jobs are taken.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Look at no more than so many jobs at a time, from the first; None is all.

    Cost: O(sizes that fit + starts * log queue) a pass where nodes are slots, else O(queue).

    Source: the aggressive scan of PReMAS, Bunde and Leung.
    """

    name = "aggressive"

    def _begin(self, view: View) -> None:
        self._kinds = kinds_of(view)
        self._lanes = None
        if self._indexed and view.fits_by_count:
            self._lanes = Lanes(self.order)
            for job in view.queue:
                self._lanes.add(job)

    def joined(self, job: Job) -> None:
        """Put a job in its place."""
        self._kinds.add(job)
        if self._lanes is not None:
            self._lanes.add(job)

    def left(self, job: Job) -> None:
        """Forget a job."""
        self._kinds.remove(job)
        if self._lanes is not None:
            self._lanes.remove(job)

    def started(self, running: RunningJob) -> None:
        """Take a job out of the queue's index."""
        if self._lanes is not None:
            self._lanes.remove(running.job)

    def ended(self, running: RunningJob) -> None:
        """Forget a job."""
        self._kinds.remove(running.job)

    def _act(self, view: View) -> None:
        job = view.queue.first()
        if job is None:
            return
        if self._lanes is None or not self._kinds.uniform():
            for job in self._listed(view):
                view.start(job)
            return
        room = FreeSlots(view.cluster.available(job.shape))

        def take(job: Job) -> None:
            view.start(job)
            room.take(job.chunks, 0)

        self._lanes.start(room, take)


class RejectAll(Rule):
    """Reject every job as soon as it is submitted: what remains is the simulator's own cost.

    Cost: O(arrivals) a pass.

    Source: the rejecting dispatcher of Galleguillos et al., AccaSim, Cluster Computing 23, 2020.
    """

    name = "reject"
    ask: Ask = "always"

    def __init__(self) -> None:
        super().__init__()

    def _act(self, view: View) -> None:
        for job in view.queue:
            view.reject(job)


def kinds_of(view: View) -> SlotKinds:
    """Return the kinds of slots of all jobs that a view knows."""
    kinds = SlotKinds(view.cluster)
    for job in (*view.queue, *(running.job for running in view.running.values())):
        kinds.add(job)
    return kinds


def at_least(least: int, value: Any, name: str) -> int:
    """Return a whole number that was given for a parameter.

    Raises:
        WrongUsage: It is none, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise WrongUsage(f"{name} is a whole number, at least {least}, not {value!r}")
    return value
