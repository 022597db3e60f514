"""The simulation: `advance` to the next question, `apply` the answer.

while (point := simulation.advance()) is not None:
    simulation.apply(decide(point))
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from parley_server.engine.agenda import Agenda
from parley_server.engine.cluster import Cluster, merged
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
from parley_server.engine.demand import SmallestTotals
from parley_server.engine.errors import (
    DecisionError,
    IsHeld,
    NameTaken,
    NeverFits,
    NotHeld,
    NotPending,
    NotRunning,
    RolledBack,
    RunStopped,
    SubmittedInThePast,
    TimerInThePast,
    TimerIsSet,
    UnknownJob,
    UnknownTimer,
)
from parley_server.engine.events import (
    EVENT_KINDS,
    Event,
    JobEnded,
    JobSubmitted,
    NodeChange,
    NodesDown,
    NodesUp,
    SessionStart,
    TimerFired,
    WorkloadExhausted,
)
from parley_server.engine.execution import ExecutionModel, Rigid, RunningJob
from parley_server.engine.job import Instant, Job, JobState
from parley_server.engine.records import InstantRecord, JobCounts, JobRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from fractions import Fraction

    from parley_server.engine.cluster import Allocation, NodeGroup
    from parley_server.engine.events import NodeRanges
    from parley_server.engine.job import Duration
    from parley_server.engine.source import Source


_COLLECTIONS = (
    *("pending", "holds", "timers", "outcomes"),
    *("_expected", "_news", "_records", "_instants", "_held"),
    *("_attempts", "_brought", "_names"),
)
"""Attributes of a simulation that are plain collections of things that do not change."""


class OnOverrun(Enum):
    """What becomes of a job that reaches its walltime and is not done."""

    RUN = "run"
    KILL = "kill"


class OnNodeDown(Enum):
    """What becomes of the jobs on a node that goes out of service."""

    KILL = "kill"
    REQUEUE = "requeue"


class EndReason(Enum):
    """Why there is nothing more to decide."""

    COMPLETED = "completed"
    STALLED = "stalled"
    STOPPED = "stopped"


class Paused(Enum):
    """`advance` came back early, as it was told to; nothing is to be decided yet."""

    PAUSED = "paused"


PAUSED: Final = Paused.PAUSED

FIRST_SUBMITTED: Final = 2**52
"""The number of the first job that a dispatcher brings in: after all of any workload."""

_ORDERED_ENDS = frozenset({JobState.KILLED, JobState.REQUEUED})
"""Ends that a decision has brought about; the job is on its nodes no longer than this instant."""


@dataclass(frozen=True, slots=True)
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


class Simulation:
    """Jobs, nodes and time; whoever drives it asks for the next decision point.

    Everything in it is plain data, so that it can be forked. What it has finished it keeps in
    two lists until the driver takes them, `take_records` and `take_instants`; memory stays
    bounded as long as the driver does.

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
        pending: The jobs that wait, by number, in no particular order; `queue` has one.
        holds: Numbers of those that are held.
    """

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
        self.now: Instant = 0
        self.cluster = Cluster(groups)
        self.pending: dict[int, Job] = {}
        self.holds: set[int] = set()
        self.running: dict[int, RunningJob] = {}
        self.timers: dict[int, Instant] = {}
        self.counts = JobCounts()
        self.first_unfit: Job | None = None
        self.end: EndReason | None = None
        self.outcomes: list[Outcome] = []
        self.version = 0
        self._source = source
        self._upcoming: Job | None = source.next()
        self._latest = -1
        self._ask_always = ask_always
        self._wants = frozenset(wants)
        self._kills = on_overrun is OnOverrun.KILL
        self._execution: ExecutionModel = execution or Rigid()
        self._agenda = Agenda()
        self._changes = tuple(changes)
        for index, change in enumerate(self._changes):
            self._agenda.enter_change(change.at, int(isinstance(change, NodesUp)), index)
        self._lost = JobState.FAILED if on_node_down is OnNodeDown.KILL else JobState.REQUEUED
        self._atomic = atomic
        self._deferred: _Deferred | None = None
        self._took_effect = False
        self._attempts: dict[int, int] = {}
        self._brought: dict[int, Job] = {}
        self._names: set[str] = set()
        self._stopped = False
        self._demand = SmallestTotals(len(self.cluster.kinds))
        self._expected: dict[int, Instant] = {}
        self._news: list[Event] = []
        self._opened = False
        self._asked = False
        self._timer_fired = False
        self._refused = False
        self._unseen = False
        self._progress = False
        self._all_refused = False
        self._asked_again = False
        self._records: list[JobRecord] = []
        self._instants: list[InstantRecord] = []
        self._instant = InstantRecord(0)
        self._held = [0] * len(self.cluster.kinds)

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
            before = self._instant.events
            wanted = self._happen(at)
            deferred = self._deferred
            if deferred is not None:
                if deferred.at == at:
                    self._take_effect(deferred)
                    return PAUSED
            elif wanted and self._worth_asking():
                return self._ask()
            if budget is not None:
                budget -= self._instant.events - before
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
            self._refused = self._all_refused = False
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
        twin._demand = self._demand.fork()
        twin._agenda = self._agenda.fork()
        twin.running = {number: copy.copy(job) for number, job in self.running.items()}
        twin.counts = copy.copy(self.counts)
        twin._instant = copy.copy(self._instant)
        for name in _COLLECTIONS:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    # ------------------------------------------------------------------ what is left behind

    def take_records(self) -> list[JobRecord]:
        """Hand over the jobs that ended since the last call, by instant of their end."""
        records, self._records = self._records, []
        return records

    def take_instants(self) -> list[InstantRecord]:
        """Hand over the instants that are over since the last call."""
        instants, self._instants = self._instants, []
        return instants

    @property
    def held(self) -> dict[str, int]:
        """How much of each resource was held for how long: amount times microseconds, exactly."""
        return dict(zip(self.cluster.kinds, self._held, strict=True))

    @property
    def backlog(self) -> int:
        """How many records wait to be taken."""
        return len(self._records) + len(self._instants)

    def current_instant(self) -> InstantRecord:
        """Return the instant that is not over yet."""
        return self._instant

    def queue(self) -> list[Job]:
        """Return the pending jobs by submission, then reading order; O(pending), mostly."""
        return sorted(self.pending.values(), key=lambda job: (job.submit, job.number))

    @property
    def stopped(self) -> bool:
        """Whether a decision has ended the run."""
        return self._stopped

    @property
    def exhausted(self) -> bool:
        """Whether the workload holds no further job."""
        return self._upcoming is None

    def unfinished(self) -> Iterator[JobRecord]:
        """Yield records of the jobs that run or wait, by reading order."""
        for number in sorted({*self.running, *self.pending}):
            running = self.running.get(number)
            if running is not None:
                yield self._record(running, JobState.RUNNING, None)
            else:
                yield JobRecord(
                    self.pending[number],
                    JobState.PENDING,
                    None,
                    None,
                    None,
                    attempt=self._attempts.get(number, 1),
                    last=True,
                    expected_start=self._expected.get(number),
                )

    # ------------------------------------------------------------------ time

    def _next_instant(self) -> Instant | None:
        """Return when something happens next, or None if no job can ever feel it."""
        upcoming = self._upcoming
        if upcoming is None and not (
            self.pending or self.running or self._brought or self._deferred
        ):
            return None
        at = self._agenda.next_instant(self.running)
        if upcoming is not None and (at is None or upcoming.submit < at):
            at = upcoming.submit
        if self._deferred is not None and (at is None or self._deferred.at < at):
            at = self._deferred.at
        return at

    def _turn_to(self, at: Instant) -> None:
        self._instants.append(self._instant)
        cluster, passed = self.cluster, at - self.now
        for kind, free in enumerate(cluster.free):
            self._held[kind] += (cluster.in_service[kind] - free) * passed
        self.now = at
        self._instant = InstantRecord(at)

    def _happen(self, at: Instant) -> bool:
        """Let everything of this instant happen; whether any of it is wanted."""
        told, happened = len(self._news), self._instant.events
        agenda, running = self._agenda, self.running
        while (job := agenda.pop_end(at, running)) is not None:
            self._on_completion(job)
        while (index := agenda.pop_change(at)) is not None:
            self._on_node_change(self._changes[index])
        while self._upcoming is not None and self._upcoming.submit == at:
            submitted, self._upcoming = self._upcoming, self._source.next()
            self._latest = max(self._latest, submitted.number)
            self._on_submission(submitted)
            if self._upcoming is None:
                self._tell(WorkloadExhausted(self.now))
        while (number := agenda.pop_submission(at)) is not None:
            self._on_submission(self._brought.pop(number))
        while (timer := agenda.pop_timer(at)) is not None:
            self._on_timer(timer)
        if not happened:
            self._instant.queue_length = len(self.pending)
            self._instant.running = len(self.running)
        return len(self._news) > told

    # ------------------------------------------------------------------ events

    def _tell(self, event: Event) -> None:
        self.version += 1
        self._instant.events += 1
        self._unseen = True
        self._asked_again = False
        if type(event) in self._wants:
            self._news.append(event)

    def _on_completion(self, running: RunningJob) -> None:
        job = running.job
        del self.running[job.number]
        self.cluster.release(job, running.allocation)
        self.counts.running -= 1
        self._records.append(self._record(running, running.final, self.now))
        if running.final is JobState.REQUEUED:
            self._return_to_queue(running)
        else:
            self._count_end(running.final)
            self._attempts.pop(job.number, None)
        self._tell(JobEnded(self.now, job.number, running.final))
        self._respeed(self._execution.ended(running, self.running))

    def _return_to_queue(self, running: RunningJob) -> None:
        job = running.job
        self.counts.requeues += 1
        self.counts.pending += 1
        self.pending[job.number] = job
        self._attempts[job.number] = running.attempt + 1
        self._demand.add(self.cluster.total(job.request))

    def _on_node_change(self, change: NodeChange) -> None:
        down = isinstance(change, NodesDown)
        ranges = self.cluster.other_than(change.nodes, down=down)
        if not ranges:
            return
        if isinstance(change, NodesDown):
            for number in sorted(self._running_on(ranges)):
                running = self.running[number]
                running.final = self._lost
                self._agenda.forget_end(self.running)
                self._on_completion(running)
            self.cluster.take_out(ranges)
            self._tell(NodesDown(self.now, ranges))
        else:
            self.cluster.bring_back(ranges)
            self._tell(NodesUp(self.now, ranges))

    def _running_on(self, ranges: NodeRanges) -> Iterator[int]:
        """Yield the numbers of the jobs that hold any of these nodes; O(spans held)."""
        for number, running in self.running.items():
            if any(
                span.first <= last and first <= span.last
                for spans in running.allocation
                for span in spans
                for first, last in ranges
            ):
                yield number

    def _on_submission(self, job: Job) -> None:
        self.counts.submitted += 1
        if self.cluster.could_ever_hold(job.request):
            self.pending[job.number] = job
            self.counts.pending += 1
            self._demand.add(self.cluster.total(job.request))
            self._tell(JobSubmitted(self.now, job))
        else:
            # The dispatcher never hears of it, but it happened.
            self._instant.events += 1
            self.counts.never_fit += 1
            self.first_unfit = self.first_unfit or job
            self._record_rejection(job)

    def _on_timer(self, timer: int) -> None:
        del self.timers[timer]
        self._timer_fired = True
        self._tell(TimerFired(self.now, timer))

    # ------------------------------------------------------------------ asking

    def _worth_asking(self) -> bool:
        return (
            self._ask_always
            or self._timer_fired
            or self._refused
            or self._demand.within(self.cluster.free)
        )

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
        self._unseen = False
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
            self.outcomes = [self._decide(decision) for decision in decisions]
        rejected = sum(not outcome.applied for outcome in self.outcomes)
        self._refused = rejected > 0
        self._all_refused = 0 < rejected == len(self.outcomes)
        self._instant.decisions += len(self.outcomes)
        self._instant.rejected += rejected

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
        self.__dict__.update(before.__dict__)
        self.outcomes = [
            failed if index == len(outcomes) - 1 else Outcome(other.id, error.code, str(error))
            for index, other in enumerate(decisions)
        ]

    def _decide(self, decision: Decision) -> Outcome:
        try:
            if self._stopped:
                raise RunStopped
            outcome = self._carry_out(decision)
        except DecisionError as error:
            return Outcome(decision.id, error.code, str(error))
        if outcome.code is None:
            self.version += 1
        return outcome

    def _carry_out(self, decision: Decision) -> Outcome:
        """Carry out one decision.

        Raises:
            DecisionError: It cannot be; nothing has changed.
        """
        match decision:
            case Start(id, number, allocation):
                return Outcome(id, allocation=self._start(self._pending_job(number), allocation))
            case Reject(_, number):
                self._reject(self._pending_job(number))
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

    def _pending_job(self, number: int) -> Job:
        job = self.pending.get(number)
        if job is not None:
            return job
        if number in self.running:
            raise NotPending(number, running=True)
        if self._was_submitted(number):
            raise NotPending(number, running=False)
        raise UnknownJob(number)

    def _was_submitted(self, number: int) -> bool:
        if number >= FIRST_SUBMITTED:
            return number < FIRST_SUBMITTED + len(self._names) and number not in self._brought
        return 0 <= number <= self._latest

    def _start(self, job: Job, allocation: Allocation | None) -> Allocation | None:
        if job.number in self.holds:
            raise IsHeld(job.number)
        if allocation is None:
            chosen = self.cluster.place(job)
        else:
            self.cluster.check(job, allocation)
            # One spelling per allocation, in whatever spans the dispatcher wrote it.
            chosen = tuple([spans if len(spans) < 2 else merged(spans) for spans in allocation])
        self.cluster.take(job, chosen)
        self._leave_queue(job)
        running = RunningJob(
            job,
            self.now,
            chosen,
            self.now,
            JobState.COMPLETED,
            job.runtime,
            self.now,
            attempt=self._attempts.get(job.number, 1),
            expected_start=self._expected.pop(job.number, None),
        )
        self.running[job.number] = running
        self.counts.running += 1
        self._find_end(running)
        self._agenda.enter_end(running)
        self._respeed(self._execution.started(running, self.running))
        self._progress = True
        return chosen if allocation is None else None

    def _reject(self, job: Job) -> None:
        self._leave_queue(job)
        self._record_rejection(job)
        self._progress = True

    def _end_now(self, number: int, final: JobState) -> None:
        running = self.running.get(number)
        if running is None or running.final in _ORDERED_ENDS:
            if not self._was_submitted(number):
                raise UnknownJob(number)
            raise NotRunning(number, pending=number in self.pending)
        running.final = final
        running.end = self.now
        self._agenda.move_end(running, self.running)
        self._progress = True

    def _wake(self, timer: int, at: Instant) -> None:
        if at <= self.now:
            raise TimerInThePast(timer, at, self.now)
        if timer in self.timers:
            raise TimerIsSet(timer, self.timers[timer])
        self.timers[timer] = at
        self._agenda.enter_timer(at, timer)
        self._progress = True

    def _cancel_wake(self, timer: int) -> None:
        if self.timers.pop(timer, None) is None:
            raise UnknownTimer(timer)
        self._agenda.cancel_timer(timer, self.running)

    def _hold(self, job: Job) -> None:
        if job.number in self.holds:
            raise IsHeld(job.number)
        self.holds.add(job.number)
        self._demand.remove(self.cluster.total(job.request))

    def _release(self, job: Job) -> None:
        if job.number not in self.holds:
            raise NotHeld(job.number)
        self.holds.remove(job.number)
        self._demand.add(self.cluster.total(job.request))

    def _submit(self, job: Job, at: Instant) -> int:
        """Take in a job that the dispatcher has made; return its number."""
        if at < self.now:
            raise SubmittedInThePast(at, self.now)
        name = f"dyn!{job.name or len(self._names)}"
        if name in self._names:
            raise NameTaken(name)
        if not self.cluster.could_ever_hold(job.request):
            raise NeverFits(sum(group.chunks for group in job.request))
        job.number = FIRST_SUBMITTED + len(self._names)
        job.name = name
        job.submit = at
        self._names.add(name)
        self._brought[job.number] = job
        self._agenda.enter_submission(at, job.number)
        self._progress = True
        return job.number

    def _annotate(self, job: Job, expected_start: Instant | None) -> None:
        if expected_start is not None:
            self._expected[job.number] = expected_start

    def _leave_queue(self, job: Job) -> None:
        del self.pending[job.number]
        self.counts.pending -= 1
        if job.number in self.holds:
            self.holds.remove(job.number)
        else:
            self._demand.remove(self.cluster.total(job.request))

    # ------------------------------------------------------------------ ends

    def _respeed(self, changes: Iterable[tuple[RunningJob, int | Fraction]]) -> None:
        for running, speed in changes:
            if speed <= 0:
                raise ValueError(f"job {running.job.number}: a speed is positive, not {speed}")
            if speed == running.speed or running.final in _ORDERED_ENDS:
                continue
            running.work = running.work_left(self.now)
            running.since = self.now
            running.speed = speed
            self._find_end(running)
            self._agenda.move_end(running, self.running)

    def _find_end(self, running: RunningJob) -> None:
        """Set the end that the work left and the walltime make."""
        end = running.natural_end()
        running.final = JobState.COMPLETED
        walltime = running.job.walltime
        if self._kills and walltime is not None and end > running.start + walltime:
            end = running.start + walltime
            running.final = JobState.TIMED_OUT
        running.end = end

    # ------------------------------------------------------------------ records

    def _record(self, running: RunningJob, state: JobState, end: Instant | None) -> JobRecord:
        return JobRecord(
            running.job,
            state,
            running.start,
            end,
            running.allocation,
            running.attempt,
            state is not JobState.REQUEUED,
            running.expected_start,
        )

    def _record_rejection(self, job: Job) -> None:
        self._count_end(JobState.REJECTED)
        self._records.append(
            JobRecord(
                job,
                JobState.REJECTED,
                None,
                self.now,
                None,
                attempt=self._attempts.pop(job.number, 1),
                last=True,
                expected_start=self._expected.pop(job.number, None),
            )
        )

    def _count_end(self, state: JobState) -> None:
        counts = self.counts
        setattr(counts, state.value, getattr(counts, state.value) + 1)
