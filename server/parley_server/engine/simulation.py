"""The simulation: `advance` to the next question, `apply` the answer.

while (point := simulation.advance()) is not None:
    simulation.apply(decide(point))
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from parley_server.engine.decisions import (
    Annotate,
    CancelWake,
    Decision,
    Hold,
    Kill,
    Outcome,
    Refuse,
    Reject,
    Release,
    Requeue,
    Start,
    Stop,
    Submit,
    Wake,
)
from parley_server.engine.errors import DecisionError, RolledBack, RunStopped
from parley_server.engine.events import (
    EVENT_KINDS,
    Event,
    NodeChange,
    SessionStart,
    WorkloadExhausted,
)
from parley_server.engine.job import Instant, Job, JobState
from parley_server.engine.world import OnNodeDown, OnOverrun, World

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from parley_server.engine.cluster import NodeGroup
    from parley_server.engine.execution import ExecutionModel
    from parley_server.engine.job import Duration
    from parley_server.engine.source import Source

_APPLIED: Final = tuple(Outcome(number) for number in range(64))
"""What is said of the first decisions of an answer when there is nothing to say of them."""

_COLLECTIONS = (
    *("pending", "holds", "timers", "outcomes"),
    *("_expected", "_news", "_records", "_instants", "_held"),
    *("_attempts", "_brought", "_names"),
)
"""Attributes of a simulation that are plain collections of things that do not change."""


class EndReason(Enum):
    """Why there is nothing more to decide."""

    COMPLETED = "completed"
    STALLED = "stalled"
    STOPPED = "stopped"


class Paused(Enum):
    """`advance` came back early, as it was told to; nothing is to be decided yet."""

    PAUSED = "paused"


PAUSED: Final = Paused.PAUSED


@dataclass(slots=True)
class DecisionPoint:
    """An instant at which the dispatcher is asked.

    Attributes:
        events: What happened since it was asked last, in order.
        outcomes: What became of its last decisions.
        version: Counts events and applied decisions: the state this point shows.
        opening: The first of the run; the dispatcher has seen nothing yet.
    """

    now: Instant
    events: Sequence[Event]
    outcomes: Sequence[Outcome]
    version: int
    opening: bool


class _Deferred(NamedTuple):
    """Decisions on their way: they take effect later than they were asked for."""

    at: Instant
    decisions: Sequence[Decision]


class Simulation(World):
    """A world that jobs are submitted to, and a dispatcher is asked about.

    Args:
        groups: The nodes.
        source: The jobs, by ascending submission, then reading order.
        ask_always: Ask at every instant at which something wanted happened; otherwise only when
            a timer fired, a decision was rejected, or something could possibly start.
        wants: Events that the dispatcher wants to be told; others are none for it.
        on_overrun: Whether a job may run on beyond its walltime.
        changes: When nodes go out of service and come back.
        on_node_down: What becomes of the jobs that ran there.
        atomic: Carry out all decisions of an answer, or none.
        execution: How fast jobs get on.

    Attributes:
        outcomes: What became of the last decisions that took effect.
        refused: Whether any of them was refused.
        end: Why there is nothing more to decide, once that is so.
    """

    __slots__ = (
        *("_all_refused", "_ask_always", "_asked", "_asked_again", "_atomic", "_deferred"),
        *("_opened", "_source", "_stopped", "_took_effect", "_upcoming", "end", "outcomes"),
        "refused",
    )

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        source: Source,
        *,
        ask_always: bool = True,
        wants: Collection[type[Event]] = EVENT_KINDS,
        on_overrun: OnOverrun = OnOverrun.RUN,
        changes: Sequence[NodeChange] = (),
        on_node_down: OnNodeDown = OnNodeDown.KILL,
        atomic: bool = False,
        execution: ExecutionModel | None = None,
    ) -> None:
        super().__init__(
            groups,
            wants=wants,
            on_overrun=on_overrun,
            changes=changes,
            on_node_down=on_node_down,
            execution=execution,
            weighs=not ask_always,
        )
        self.end: EndReason | None = None
        self.outcomes: list[Outcome] = []
        self._source = source
        self._upcoming: Job | None = source.next()
        self._ask_always = ask_always
        self._atomic = atomic
        self._deferred: _Deferred | None = None
        self._took_effect = False
        self._stopped = False
        self._opened = False
        self._asked = False
        self.refused = False
        self._all_refused = False
        self._asked_again = False

    # ------------------------------------------------------------------ driving

    def advance(self, budget: int | None = None) -> DecisionPoint | Paused | None:
        """Run to the next instant at which the dispatcher is to be asked.

        Args:
            budget: Come back with `PAUSED` after about so many events; None is without limit.

        Returns:
            What to decide about, or None when the run is over and `end` says why.

        Raises:
            RuntimeError: The last decision point has not been answered.
        """
        if self._asked:
            raise RuntimeError("apply() the answer to the last decision point first")
        if self.end is not None:
            return None
        if not self._opened:
            self._opened = True
            self._news.append(SessionStart(self.now))
            if self._upcoming is None:
                self._tell(WorkloadExhausted(self.now))
            return self._ask(opening=True)
        if self._stopped:
            self._finish(EndReason.STOPPED)
            return None
        while (at := self._next_instant()) is not None:
            if self._took_effect and at > self.now and self._tell_at_once():
                return self._ask()
            if at > self.now:
                self._turn_to(at)
            instant = self._instant
            before = instant.events
            wanted = self._happen(at)
            deferred = self._deferred
            if deferred is not None:
                if deferred.at == at:
                    self._take_effect(deferred)
                    return PAUSED
            elif wanted and (self._ask_always or self._worth_asking()):
                return self._ask()
            if budget is not None:
                budget -= instant.events - before
                if budget <= 0:
                    return PAUSED
        if (self._took_effect and self._tell_at_once()) or (
            self.pending and self._must_be_asked_again()
        ):
            return self._ask()
        self._finish(EndReason.STALLED if self.pending else EndReason.COMPLETED)
        return None

    def apply(self, decisions: Iterable[Decision], *, latency: Duration = 0) -> Sequence[Outcome]:
        """Carry out decisions in their order and tell what became of each.

        Args:
            decisions: Each is carried out by itself, unless the simulation is atomic.
            latency: How much later than now they take effect. The world goes on meanwhile;
                `advance` comes back once, paused, when they have, and `outcomes` tells of them.

        Raises:
            RuntimeError: Nothing was asked.
        """
        if not self._asked:
            raise RuntimeError("nothing was asked; advance() first")
        self._asked = False
        self._progress = False
        if latency:
            self.outcomes = []
            self.refused = self._all_refused = False
            self._deferred = _Deferred(self.now + latency, list(decisions))
        else:
            self._carry_out_all(decisions)
        return self.outcomes

    def ask_again(self) -> DecisionPoint:
        """Ask about this instant once more, because of what was refused of the answer.

        Raises:
            RuntimeError: The last answer is still due, or takes effect later.
        """
        if self._asked or self._deferred is not None:
            raise RuntimeError("apply() the answer to the last decision point first")
        self._took_effect = False
        return self._ask()

    def fork(self) -> Simulation:
        """Return a copy whose future is that of the original, whatever becomes of either."""
        twin = self._copied()
        twin._source = self._source.reopen(self._source.position())
        return twin

    def _copied(self) -> Simulation:
        """Return a copy that shares the source and nothing else that changes."""
        twin = copy.copy(self)
        twin.cluster = self.cluster.fork()
        twin._execution = self._execution.fork()
        twin._demand = None if self._demand is None else self._demand.fork()
        twin._agenda = self._agenda.fork()
        twin.running = {number: copy.copy(job) for number, job in self.running.items()}
        twin.counts = copy.copy(self.counts)
        twin._instant = copy.copy(self._instant)
        for name in _COLLECTIONS:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def stopped(self) -> bool:
        """Whether a decision has ended the run."""
        return self._stopped

    @property
    def exhausted(self) -> bool:
        """Whether the workload holds no further job."""
        return self._upcoming is None

    # ------------------------------------------------------------------ time

    def _next_instant(self) -> Instant | None:
        """Return when something happens next, or None if no job can ever feel it."""
        upcoming = self._upcoming
        if upcoming is None and not (
            self.pending or self.running or self._brought or self._deferred
        ):
            return None
        agenda = self._agenda
        at: Instant | None
        if agenda.void:
            at = agenda.next_instant(self.running)
        else:
            at = agenda.entries[0][0] if agenda.entries else None
        if upcoming is not None and (at is None or upcoming.submit < at):
            at = upcoming.submit
        deferred = self._deferred
        if deferred is not None and (at is None or deferred.at < at):
            at = deferred.at
        return at

    def _happen(self, at: Instant) -> bool:
        """Let everything of this instant happen; whether any of it is wanted."""
        told, instant = len(self._news), self._instant
        happened = instant.events
        agenda, running = self._agenda, self.running
        while (entries := agenda.entries) and entries[0][0] == at:
            job = agenda.pop_end(at, running)
            if job is None:
                break
            self._on_completion(job)
        if entries and entries[0][0] == at:
            while (index := agenda.pop_change(at)) is not None:
                self._on_node_change(self._changes[index])
        submitted = self._upcoming
        while submitted is not None and submitted.submit == at:
            if submitted.number > self._latest:
                self._latest = submitted.number
            upcoming = self._upcoming = self._source.next()
            self._on_submission(submitted)
            if upcoming is None:
                self._tell(WorkloadExhausted(at))
            submitted = upcoming
        # What stands there now are jobs that were brought in, and timers.
        if (entries := agenda.entries) and entries[0][0] == at:
            while (number := agenda.pop_submission(at)) is not None:
                self._on_submission(self._brought.pop(number))
            while (timer := agenda.pop_timer(at)) is not None:
                self._on_timer(timer)
        if not happened:
            instant.queue_length = len(self.pending)
            instant.running = len(running)
        return len(self._news) > told

    # ------------------------------------------------------------------ asking

    def _worth_asking(self) -> bool:
        if self._demand is not None and self._demand.within(self.cluster.free):
            return True
        return self._ask_always or self._timer_fired or self.refused

    def _tell_at_once(self) -> bool:
        """Whether what happened while decisions were on their way is to be told now."""
        self._took_effect = False
        return bool(self._news) and self._worth_asking()

    def _must_be_asked_again(self) -> bool:
        """Whether a quiet simulation with pending jobs is not stalled yet."""
        if self._unseen or self._progress:
            self._asked_again = False
            return True
        if self._all_refused and not self._asked_again:
            self._asked_again = True
            return True
        return False

    def _ask(self, *, opening: bool = False) -> DecisionPoint:
        self._asked = True
        self._timer_fired = False
        if self._unseen:
            self._unseen = self._asked_again = False
        self._instant.requests += 1
        news, self._news = self._news, []
        return DecisionPoint(self.now, news, self.outcomes, self.version, opening)

    def _finish(self, end: EndReason) -> None:
        self.end = end
        self._instants.append(self._instant)

    # ------------------------------------------------------------------ decisions

    def _take_effect(self, deferred: _Deferred) -> None:
        self._deferred = None
        self._took_effect = True
        self._carry_out_all(deferred.decisions)
        self.outcomes = [outcome._replace(at=self.now) for outcome in self.outcomes]

    def _carry_out_all(self, decisions: Iterable[Decision]) -> None:
        if self._atomic:
            self._carry_out_or_none(list(decisions))
        else:
            decide = self._decide
            self.outcomes = [decide(decision) for decision in decisions]
        outcomes = self.outcomes
        rejected = 0
        for outcome in outcomes:
            if outcome[1] is not None:
                rejected += 1
        instant = self._instant
        instant.decisions += len(outcomes)
        if rejected:
            instant.rejected += rejected
            self.refused, self._all_refused = True, rejected == len(outcomes)
        else:
            self.refused = self._all_refused = False

    def _carry_out_or_none(self, decisions: Sequence[Decision]) -> None:
        """Carry out all, or go back to where the first that fails was met; O(state)."""
        before = self._copied() if len(decisions) > 1 else self
        outcomes: list[Outcome] = []
        for decision in decisions:
            outcomes.append(self._decide(decision))
            if not outcomes[-1].applied:
                break
        else:
            self.outcomes = outcomes
            return
        failed = outcomes[-1]
        error = RolledBack(failed.id)
        for name in (*World.__slots__, *Simulation.__slots__):
            setattr(self, name, getattr(before, name))
        self.outcomes = [
            failed if index == len(outcomes) - 1 else Outcome(other.id, error.code, str(error))
            for index, other in enumerate(decisions)
        ]

    def _decide(self, decision: Decision) -> Outcome:
        try:
            if self._stopped:
                raise RunStopped
            # Nearly all are of two kinds; matching costs as much as all the rest of this.
            if type(decision) is Start:
                which, number, allocation = decision
                placed = self._start(
                    self.pending.get(number) or self._pending_job(number), allocation
                )
                if placed is not None:
                    self.version += 1
                    return Outcome(which, None, None, placed)
            elif type(decision) is Reject:
                which, number = decision
                self._reject(self.pending.get(number) or self._pending_job(number))
            else:
                outcome = self._carry_out(decision)
                if outcome.code is None:
                    self.version += 1
                return outcome
        except DecisionError as error:
            return Outcome(decision.id, error.code, str(error))
        self.version += 1
        return _APPLIED[which] if 0 <= which < len(_APPLIED) else Outcome(which)

    def _carry_out(self, decision: Decision) -> Outcome:
        """Carry out one decision.

        Raises:
            DecisionError: It cannot be; nothing has changed.
        """
        match decision:
            case Start() | Reject():
                raise TypeError("these are carried out without this")
            case Kill(_, number):
                self._end_now(number, JobState.KILLED)
            case Requeue(_, number):
                self._end_now(number, JobState.REQUEUED)
            case Hold(_, number):
                self._hold(self._pending_job(number))
            case Release(_, number):
                self._release(self._pending_job(number))
            case Wake(_, timer, at):
                self._wake(timer, at)
            case CancelWake(_, timer):
                self._cancel_wake(timer)
            case Annotate(_, number, expected_start):
                self._annotate(self._pending_job(number), expected_start)
            case Submit(id, job, at):
                return Outcome(id, job=self._submit(job, self.now if at is None else at))
            case Stop():
                self._stopped = True
            case Refuse(id, code, message):
                return Outcome(id, code, message)
            case _:
                assert_never(decision)
        return Outcome(decision.id)
