"""EASY backfilling: whoever does not delay the first in line may start."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from parley_client.estimates import FOREVER, NEVER, estimated_end, planned_end, planned_length
from parley_client.orders import Fifo, OrderLike, in_order, order_of
from parley_client.plan import NodePlan, Reservation
from parley_client.releases import Releases
from parley_client.rules import Rule, at_least, kinds_of
from parley_client.slots import ManyReservations, OneReservation
from parley_client.waiting import Heads, Lanes, Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_client.cluster import Cluster
    from parley_client.durations import Duration
    from parley_client.job import Job, RunningJob
    from parley_client.spans import Span
    from parley_client.view import View

Slots: TypeAlias = OneReservation | ManyReservations


class Easy(Rule):
    """Start jobs in order; behind the first that does not fit, start what does not delay it.

    That job, the head, gets a reservation at its shadow time: the first instant at which enough
    is free if all running jobs take as long as they are estimated to. All releases of one
    instant count together. A later job starts if it fits now and is over by the shadow time,
    which is in time if it is over at that very instant, or if the head could start then beside
    it. Where all jobs ask for the same chunk that is a matter of counting (so many extra slots);
    else the shadow time's nodes are looked at one by one, resource by resource.

    Args:
        order: In which order jobs are taken.
        depth: How many jobs that do not fit get reservations.
        backfill_order: In which order jobs behind them are taken; None is that of the queue.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Look at no more than so many jobs at a time, from the first; None is all.

    Cost: O(sizes that fit + (starts + depth) * log queue) a pass where nodes are slots, and with
    more than one reservation O(running) besides; O(queue * log queue) if an order hangs on the
    instant or nodes are no slots.

    Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995; several reservations as in
    Slurm's backfill and EASY(k).
    """

    name = "easy"
    counts_slots = True

    def __init__(
        self,
        *,
        order: OrderLike = "fifo",
        depth: int = 1,
        backfill_order: OrderLike | None = None,
        interval: Duration | None = None,
        examine: int | None = None,
    ) -> None:
        super().__init__(order=order, interval=interval, examine=examine)
        self.depth = at_least(1, depth, "depth")
        self.backfill_order = self.order if backfill_order is None else order_of(backfill_order)
        # Whether the job that waits longest has the only reservation.
        self._head_alone = self.depth == 1 and isinstance(self.order, Fifo)

    @property
    def _indexed(self) -> bool:
        return super()._indexed and self.backfill_order.timeless

    def _begin(self, view: View) -> None:
        self._kinds = kinds_of(view)
        self._newest = max((job.number for job in view.queue), default=-1)
        self._releases = Releases()
        self._ends: dict[int, int] = {}
        for running in view.running.values():
            self._hold(running)
        self._heads: Heads | Line | None = None
        self._lanes: Lanes | None = None
        # Pending, and in no lane yet: a job that starts as soon as it comes never is.
        self._fresh: dict[int, Job] = {}
        # What the last pass left beside the head's reservation, until anything but time and
        # jobs behind all others comes: so long, none that could not start then can start now.
        self._standing: OneReservation | None = None
        self._passing = False
        if self._indexed:
            self._heads = Line(view.queue) if self._head_alone else Heads(self.order, view.queue)
            self._lanes = Lanes(self.backfill_order)
            self._fresh = {job.number: job for job in view.queue}

    def joined(self, job: Job) -> None:
        """Put a job in its places."""
        self._kinds.add(job)
        if self._heads is not None:
            self._heads.add(job)
            if job.number < self._newest:
                self._standing = None
            else:
                self._newest = job.number
            self._fresh[job.number] = job

    def left(self, job: Job) -> None:
        """Forget a job."""
        self._standing = None
        self._kinds.remove(job)
        self._leave_lane(job)

    def started(self, running: RunningJob) -> None:
        """Take note of when a job is to end."""
        if not self._passing:
            self._standing = None
        self._hold(running)
        self._leave_lane(running.job)

    def ended(self, running: RunningJob) -> None:
        """Forget a job."""
        self._standing = None
        self._kinds.remove(running.job)
        self._releases.remove(self._ends.pop(running.job.number), running.job.chunks)

    def _leave_lane(self, job: Job) -> None:
        if self._lanes is not None and self._fresh.pop(job.number, None) is None:
            self._lanes.remove(job)

    def _hold(self, running: RunningJob) -> None:
        # Kept: where decisions take time to take effect, the start is corrected afterwards.
        end = self._ends[running.job.number] = estimated_end(running)
        self._releases.add(end, running.job.chunks)

    def _act(self, view: View) -> None:
        job = view.queue.first()
        if job is None:
            return
        if not self._kinds.uniform():
            self._standing = None
            self._pass_on_nodes(view)
            return
        self._passing = True
        if self._nodes_changed:
            self._nodes_changed, self._standing = False, None
        if self._standing is not None and self._standing.stands_at(view.now_us):
            self._start_newcomers(view, self._standing)
        else:
            self._pass_on_slots(job, view)
        self._passing = False

    def _start_newcomers(self, view: View, room: OneReservation) -> None:
        """Start what came since the last pass and fits beside the reservation made there."""
        if not room.free or self._lanes is None:
            return
        jobs = list(self._fresh.values())
        if len(jobs) > 1:
            jobs = in_order(jobs, self.backfill_order, view.now_us)
        for job in jobs:
            if planned_length(job) <= room.longest(job.chunks):
                view.start(job)
                room.take(job.chunks, planned_length(job))
        for job in self._fresh.values():
            self._lanes.add(job)
        self._fresh.clear()

    def _pass_on_slots(self, job: Job, view: View) -> None:
        """Make a pass where counting tells what fits; *job* is one of those that wait."""
        self._standing = None
        room = self._room(view.cluster.available(job.shape), self._releases, view.now_us)
        if self._heads is None or self._lanes is None:
            self._scan_slots(view, room)
            return
        take = _taker(view, room)
        self._heads.offer(take, refusals=self.depth)
        if room.free:
            for fresh in self._fresh.values():
                self._lanes.add(fresh)
            self._fresh.clear()
            self._lanes.start(room, take)
        if self._head_alone and isinstance(room, OneReservation) and len(view.queue):
            self._standing = room

    def _room(self, free: int, releases: Releases, now: int) -> Slots:
        if self.depth == 1:
            return OneReservation(free, releases, now)
        return ManyReservations(free, releases, now)

    def _scan_slots(self, view: View, room: Slots) -> None:
        """The same without an index."""
        take = _taker(view, room)
        reserved = 0
        behind = []
        for job in self._listed(view):
            if reserved == self.depth:
                behind.append(job)
            elif not take(job):
                reserved += 1
        for job in self._as_backfilled(behind, view):
            if planned_length(job) <= room.longest(job.chunks):
                take(job)

    def _pass_on_nodes(self, view: View) -> None:
        """The same where counting does not tell what fits: every place is looked at."""
        ahead: HeadOnNodes | HeadsOnNodes
        ahead = HeadOnNodes(view) if self.depth == 1 else HeadsOnNodes(view)
        reserved = 0
        behind = []
        for job in self._listed(view):
            if reserved == self.depth:
                behind.append(job)
            elif not ahead.start(job):
                ahead.reserve(job)
                reserved += 1
        for job in self._as_backfilled(behind, view):
            ahead.start(job)

    def _as_backfilled(self, jobs: list[Job], view: View) -> list[Job]:
        if self.backfill_order is self.order:
            return jobs
        return in_order(jobs, self.backfill_order, view.now_us)


def _taker(view: View, room: Slots) -> Callable[[Job], bool]:
    """Return what starts a job if there is room for it, and else reserves some."""

    def take(job: Job) -> bool:
        length = planned_length(job)
        if length <= room.longest(job.chunks):
            view.start(job)
            room.take(job.chunks, length)
            return True
        room.reserve(job.chunks, length)
        return False

    return take


class HeadOnNodes:
    """The reservation of one job, node by node: the machine as it will be at the shadow time.

    Args:
        view: What is running where.
        end_of: When a running job is taken to end.
    """

    def __init__(
        self, view: View, *, end_of: Callable[[RunningJob, int], int] = planned_end
    ) -> None:
        self._view = view
        self._end_of = end_of
        self._head: Job | None = None
        self._shadow_us = NEVER
        self._then: Cluster | None = None

    def reserve(self, job: Job) -> None:
        """Find out when the job will fit; O(nodes + running)."""
        view = self._view
        then = view.cluster.fork()
        ends = sorted(
            (self._end_of(running, view.now_us), number, running)
            for number, running in view.running.items()
        )
        self._head, self._then = job, then
        for end, ending in groupby(ends, key=lambda entry: entry[0]):
            for _, _, running in ending:
                then.release(running.job.shape, running.spans)
            if then.fits(job.shape, job.chunks):
                self._shadow_us = end
                break

    def start(self, job: Job, length: int | None = None) -> bool:
        """Start a job if it fits and the head could start at its time nevertheless."""
        view = self._view
        spans = view.place(job)
        if spans is None:
            return False
        head, then = self._head, self._then
        if (
            head is not None
            and then is not None
            and view.now_us + (length or planned_length(job)) > self._shadow_us
        ):
            then.take(job.shape, spans)
            if not then.fits(head.shape, head.chunks):
                then.release(job.shape, spans)
                return False
        return view.start(job, spans)


class HeadsOnNodes:
    """The reservations of several jobs, each on certain nodes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._plan = NodePlan(view.cluster)
        for running in view.running.values():
            end = planned_end(running, view.now_us)
            self._plan.put(Reservation(running.job, running.start_us, end, running.spans))

    def reserve(self, job: Job) -> None:
        """Keep nodes for the job at the first instant at which there are enough."""
        self._plan.put(self._plan.find(job, self._view.now_us))

    def start(self, job: Job) -> bool:
        """Start a job if its nodes are kept for nobody as long as it takes."""
        view = self._view
        now = view.now_us
        end = min(now + planned_length(job), FOREVER)
        spans: tuple[Span, ...] | None = view.place(job)
        if spans is None or not self._plan.holds(job.shape, spans, now, end):
            return False
        self._plan.put(Reservation(job, now, end, spans))
        return view.start(job, spans)
