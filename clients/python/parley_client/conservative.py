"""Conservative backfilling: every job has a reservation, and none starts later than its first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Literal, TypeAlias

from parley_client.errors import WrongUsage
from parley_client.estimates import FOREVER, NEVER, SECOND_US, planned_end, planned_length
from parley_client.orders import Fifo, Order, OrderLike, in_order
from parley_client.plan import NodePlan, Reservation, SlotPlan
from parley_client.rules import Ask, Rule, at_least, kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley_client.durations import Duration
    from parley_client.job import Job, RunningJob
    from parley_client.slots import Kind
    from parley_client.view import View

Plan: TypeAlias = SlotPlan | NodePlan

_AS_THEY_COME = Fifo()


class _Conservative(Rule):
    """What all variants share; they differ in how reservations move up when a job ends early.

    At each decision, in this order: what ended early gives back the rest of its place, and
    reservations move up (`_move_up`); jobs that arrived get the earliest place there is, in order
    (`_take_in`); jobs whose time has come start, by submission, then number. Where that will be
    due at an instant without an event, a timer is set.

    A running job that is overdue keeps its nodes until one second from now. A reservation that
    stood in its way, or that for any other reason did not come true, moves to the earliest place
    not before its own; these are the only ones that ever move back, unless nodes go out of service.
    """

    ask: Ask = "always"
    counts_slots = True

    @property
    def _arrival_order(self) -> Order:
        """In which order jobs that arrive at one instant get their reservations."""
        return self.order

    def reservations(self) -> dict[int, int]:
        """Return when each pending job that has a reservation is to start, by its number."""
        return {number: place.start_us for number, place in self._places.items()}

    # ------------------------------------------------------------------ following the view

    def _begin(self, view: View) -> None:
        self._kinds = kinds_of(view)
        self._kind = self._kind_now()
        self._places: dict[int, Reservation] = {}
        self._held: dict[int, Reservation] = {}
        self._ends: list[tuple[int, int]] = []
        self._gone: list[Reservation] = []
        self._arrived: list[Job] = list(view.queue)
        self._timers: set[int] = set()
        for number, running in view.running.items():
            end = planned_end(running, view.now_us)
            end = FOREVER if end == NEVER else end
            self._held[number] = Reservation(running.job, running.start_us, end, running.spans)
            self._ends.append((end, number))
        heapify(self._ends)
        self._plan = self._new_plan(view)

    def joined(self, job: Job) -> None:
        """Remember to find a place for a job."""
        self._kinds.add(job)
        self._arrived.append(job)

    def left(self, job: Job) -> None:
        """Give up a job's place."""
        self._kinds.remove(job)
        self._forget(job)

    def started(self, running: RunningJob) -> None:
        """Take a job's place for what it now holds."""
        now = running.start_us
        self._forget(running.job)
        end = min(now + planned_length(running.job), FOREVER)
        place = Reservation(running.job, now, end, running.spans)
        self._plan.put(place)
        self._held[running.job.number] = place
        heappush(self._ends, (end, running.job.number))

    def ended(self, running: RunningJob) -> None:
        """Remember to give back what a job held."""
        self._kinds.remove(running.job)
        self._gone.append(self._held.pop(running.job.number))

    def _forget(self, job: Job) -> None:
        place = self._places.pop(job.number, None)
        if place is not None:
            self._plan.lift(place)
        elif job in self._arrived:
            self._arrived.remove(job)

    # ------------------------------------------------------------------ deciding

    def _act(self, view: View) -> None:
        now = view.now_us
        early = self._give_back(now)
        self._choose_plan(view)
        self._plan.turn_to(now)
        overdue = self._mend(now)
        if self._nodes_changed:
            self._nodes_changed = False
            self._plan_again(view)
        if early:
            self._move_up(view)
            lost = [place for place in self._in_plan_order() if place.start_us == FOREVER]
            self._place_anew(lost, after=now)
        room = None if self.examine is None else max(0, self.examine - len(self._places))
        arriving = in_order(self._arrived, self._arrival_order, now)
        self._arrived = [] if room is None else arriving[room:]
        for job in arriving[:room]:
            self._take_in(job, view)
        self._before_starting(view)
        self._start_due(view)
        self._set_timer(view, overdue=overdue)

    def _move_up(self, view: View) -> None:
        """Let reservations move up after a job ended early."""

    def _take_in(self, job: Job, view: View) -> None:
        """Give a job that arrived a reservation."""
        self._put(self._plan.find(job, view.now_us))

    def _before_starting(self, view: View) -> None:
        """Do what a variant does at every decision."""

    def _pull(self, place: Reservation, now: int, *, until: int = FOREVER) -> bool:
        """Move a reservation to its earliest place, if that is sooner and no later than *until*."""
        self._plan.lift(place)
        found = self._plan.find(place.job, now)
        moves = found.start_us < place.start_us and found.start_us <= until
        self._put(found if moves else place)
        return moves

    def _put(self, place: Reservation) -> None:
        self._plan.put(place)
        self._places[place.job.number] = place

    def _in_plan_order(self) -> list[Reservation]:
        """Return reservations by start; ties: the shorter first, then by number."""
        return sorted(
            self._places.values(),
            key=lambda place: (place.start_us, planned_length(place.job), place.job.number),
        )

    # ------------------------------------------------------------------ keeping the plan true

    def _give_back(self, now: int) -> bool:
        """Take out of the plan what ended; whether any of it ended early."""
        early = False
        for place in self._gone:
            if place.end_us > now:
                early = True
            self._plan.lift(place, since=now)
        self._gone.clear()
        return early

    def _mend(self, now: int) -> bool:
        """Let overdue jobs keep their nodes, and move what that breaks; whether there are any."""
        overdue = []
        while self._ends and self._ends[0][0] <= now:
            end, number = heappop(self._ends)
            place = self._held.get(number)
            if place is not None and place.end_us == end:
                overdue.append(place)
        for place in overdue:
            longer = Reservation(place.job, now, now + SECOND_US, place.spans)
            self._plan.lift(place, since=now)
            self._plan.put(longer)
            self._held[place.job.number] = longer
            heappush(self._ends, (longer.end_us, place.job.number))
        if overdue or any(place.start_us < now for place in self._places.values()):
            self._place_anew(self._in_plan_order(), after=now)
        return bool(overdue)

    def _place_anew(self, places: Sequence[Reservation], *, after: int) -> None:
        """Find places again, in their order, for each not before its own nor *after*."""
        for place in places:
            self._plan.lift(place)
        for place in places:
            earliest = after if place.start_us == FOREVER else max(place.start_us, after)
            self._put(self._plan.find(place.job, earliest))

    def _plan_again(self, view: View) -> None:
        """Plan with the nodes there are now; what cannot keep its place goes back."""
        places = self._in_plan_order()
        self._places.clear()
        self._plan = self._new_plan(view)
        for place in places:
            after = view.now_us if place.start_us == FOREVER else place.start_us
            self._put(self._plan.find(place.job, after))

    def _choose_plan(self, view: View) -> None:
        """Count slots as long as that is exact; else plan nodes."""
        kind = self._kind_now()
        if not self._held and not self._places:
            if kind != self._kind or isinstance(self._plan, NodePlan):
                self._plan = self._new_plan(view)
        elif kind != self._kind and isinstance(self._plan, SlotPlan):
            self._bind(view)
        self._kind = kind

    def _kind_now(self) -> Kind | Literal["none", "several"]:
        """Return the kind of slots that all jobs ask for."""
        if not self._kinds.uniform():
            return "several"
        return self._kinds.only or "none"

    def _new_plan(self, view: View) -> Plan:
        """Return a plan with what is running in it."""
        known = next((place.job for place in self._held.values()), view.queue.head)
        plan: Plan
        if self._kinds.uniform():
            free = view.cluster.available(known.shape) if known else 0
            held = sum(place.job.chunks for place in self._held.values())
            plan = SlotPlan(view.now_us, free + held)
        else:
            plan = NodePlan(view.cluster)
        for place in self._held.values():
            plan.put(place)
        return plan

    def _bind(self, view: View) -> None:
        """Go over from slots to nodes: every reservation keeps its time and gets its nodes.

        Taken by start, each finds as many slots free as were counted, and what is free then is
        free from then on: of the places given so far none begins later.
        """
        self._plan = NodePlan(view.cluster)
        for place in self._held.values():
            self._plan.put(place)
        for place in self._in_plan_order():
            self._put(self._plan.find(place.job, place.start_us))

    # ------------------------------------------------------------------ starting

    def _start_due(self, view: View) -> None:
        now = view.now_us
        due = [place for place in self._places.values() if place.start_us == now]
        due.sort(key=lambda place: (place.job.submit_us, place.job.number))
        for place in due:
            if place.spans is None:
                view.start(place.job)
            else:
                self._start_on_nodes(place, view)

    def _start_on_nodes(self, place: Reservation, view: View) -> None:
        """Start a job where the allocator wants it, or as planned if others are to be there."""
        self._plan.lift(place)
        wanted = view.place(place.job)
        free = (
            isinstance(self._plan, NodePlan)
            and wanted is not None
            and self._plan.holds(place.job.shape, wanted, place.start_us, place.end_us)
        )
        self._plan.put(place)
        view.start(place.job, wanted if free else place.spans)

    def _set_timer(self, view: View, *, overdue: bool) -> None:
        """Be asked when the next reservation begins.

        Not if that is when an overdue job is taken to end: it does not end by being waited for,
        and when it does, that is an event.
        """
        now = view.now_us
        self._timers = {at for at in self._timers if at > now}
        later = now + SECOND_US if overdue else now
        starts = (place.start_us for place in self._places.values())
        at = min((start for start in starts if start > later), default=FOREVER)
        if at < FOREVER and at not in self._timers:
            self._timers.add(at)
            view.wake(at)


class Conservative(_Conservative):
    """Give every job the earliest reservation on arrival; when one ends early, all move up.

    This compression takes reservations in the order of the plan (ties: the shorter first, then by
    number), each out and back in at its earliest place; none ever moves back.

    Args:
        order: In which order jobs that arrive at one instant get their reservations.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Keep reservations for no more than so many jobs at a time; None is all.

    Cost: O(steps of the plan) an arrival, O(queue * steps) when a job ends early; where nodes are
    no slots, each place looked for costs O(ends in the plan * nodes).

    Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; order of compression as in PReMAS.
    """

    name = "conservative"

    def _move_up(self, view: View) -> None:
        for place in self._in_plan_order():
            self._pull(place, view.now_us)


class ConservativeSubmitOrder(_Conservative):
    """Conservative backfilling whose reservations move up in the order of submission.

    Args:
        order: In which order jobs that arrive at one instant get their reservations.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Keep reservations for no more than so many jobs at a time; None is all.

    Cost: that of `conservative`.

    Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; order of compression as in PYSS.
    """

    name = "conservative-submit-order"

    def _move_up(self, view: View) -> None:
        places = self._places.values()
        for place in sorted(places, key=lambda place: (place.job.submit_us, place.job.number)):
            self._pull(place, view.now_us)


class ConservativeNone(_Conservative):
    """Conservative backfilling without compression: no reservation moves up when a job ends early.

    What is given back is for jobs that arrive afterwards.

    Args:
        order: In which order jobs that arrive at one instant get their reservations.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Keep reservations for no more than so many jobs at a time; None is all.

    Cost: O(steps of the plan) an arrival.

    Source: the plan of Mu'alem and Feitelson, IEEE TPDS 12(6), 2001, left as it is.
    """

    name = "conservative-none"


class _Prioritised(_Conservative):
    """Variants whose order is that of moving up; jobs that arrive are taken as they come."""

    @property
    def _arrival_order(self) -> Order:
        return _AS_THEY_COME

    def _prioritised(self, now: int) -> list[Reservation]:
        jobs = [place.job for place in self._places.values()]
        return [self._places[job.number] for job in in_order(jobs, self.order, now)]


class Prioritised(_Prioritised):
    """Conservative backfilling whose reservations move up in the queue's order.

    Args:
        order: In which order reservations move up.
        restart: `no`: one sweep over all. A number k: begin anew from the first as soon as one
            has moved, k times at most, then once in the order of the plan. `inf`: begin anew
            until none moves.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Keep reservations for no more than so many jobs at a time; None is all.

    Cost: that of `conservative`, times the sweeps that restarts begin.

    Source: prioritised compression, Lindsay, Galloway-Carson, Johnson, Bunde and Leung, 2013;
    the restarts as in the scheduler of SST.
    """

    name = "prioritised"

    def __init__(
        self,
        *,
        order: OrderLike = "fifo",
        restart: int | str = "no",
        interval: Duration | None = None,
        examine: int | None = None,
    ) -> None:
        super().__init__(order=order, interval=interval, examine=examine)
        if isinstance(restart, str) and restart not in {"no", "inf"}:
            raise WrongUsage(f"restart is no, inf or a whole number, not {restart!r}")
        self.restart = restart if isinstance(restart, str) else at_least(0, restart, "restart")

    def _move_up(self, view: View) -> None:
        now = view.now_us
        if self.restart == "no":
            for place in self._prioritised(now):
                self._pull(place, now)
            return
        loops = None if self.restart == "inf" else int(self.restart)
        while loops is None or loops > 0:
            if not any(self._pull(place, now) for place in self._prioritised(now)):
                return
            loops = None if loops is None else loops - 1
        for place in self._in_plan_order():
            self._pull(place, now)


class Delayed(_Prioritised):
    """Conservative backfilling that moves reservations up only where a job can start at once.

    At every decision, in the queue's order, each job that could start now does. When a job
    arrives, reservations that can move up to no later than the end of the place it would get do
    so first, in the queue's order, in which it takes its turn.

    Args:
        order: In which order reservations move up.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Keep reservations for no more than so many jobs at a time; None is all.

    Cost: O(queue * steps of the plan) a decision and an arrival.

    Source: delayed compression, Lindsay, Galloway-Carson, Johnson, Bunde and Leung, 2013; the
    details as in the scheduler of SST.
    """

    name = "delayed"

    def _move_up(self, view: View) -> None:
        self._before_starting(view)

    def _take_in(self, job: Job, view: View) -> None:
        now = view.now_us
        until = self._plan.find(job, now).end_us
        jobs = [job, *(place.job for place in self._places.values())]
        for other in in_order(jobs, self.order, now):
            if other is job:
                self._put(self._plan.find(job, now))
            else:
                self._pull(self._places[other.number], now, until=until)

    def _before_starting(self, view: View) -> None:
        now = view.now_us
        for place in self._prioritised(now):
            if place.start_us > now:
                self._pull(place, now, until=now)
