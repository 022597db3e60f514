"""The simulation: `advance` to the next question, `apply` the answer.

while (point := simulation.advance()) is not None:
    simulation.apply(decide(point))
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from parley_server.engine.agenda import Agenda
from parley_server.engine.cluster import Cluster
from parley_server.engine.decisions import (
    Annotate,
    Decision,
    Kill,
    Outcome,
    Refuse,
    Reject,
    Start,
    Wake,
)
from parley_server.engine.demand import SmallestTotals
from parley_server.engine.errors import (
    DecisionError,
    NotPending,
    NotRunning,
    TimerInThePast,
    TimerIsSet,
    UnknownJob,
)
from parley_server.engine.events import (
    EVENT_KINDS,
    Event,
    JobEnded,
    JobSubmitted,
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
    from parley_server.engine.source import Source


class OnOverrun(Enum):
    """What becomes of a job that reaches its walltime and is not done."""

    RUN = "run"
    KILL = "kill"


class EndReason(Enum):
    """Why there is nothing more to decide."""

    COMPLETED = "completed"
    STALLED = "stalled"


class Paused(Enum):
    """`advance` came back early, as it was told to; nothing is to be decided yet."""

    PAUSED = "paused"


PAUSED: Final = Paused.PAUSED


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
        execution: How fast jobs get on.
    """

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        source: Source,
        *,
        ask_always: bool = True,
        wants: Collection[type[Event]] = EVENT_KINDS,
        on_overrun: OnOverrun = OnOverrun.RUN,
        execution: ExecutionModel | None = None,
    ) -> None:
        self.now: Instant = 0
        self.cluster = Cluster(groups)
        self.pending: dict[int, Job] = {}
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
        while (at := self._next_instant()) is not None:
            if at > self.now:
                self._turn_to(at)
            before = self._instant.events
            wanted = self._happen(at)
            if wanted and self._worth_asking():
                return self._ask()
            if budget is not None:
                budget -= self._instant.events - before
                if budget <= 0:
                    return PAUSED
        if self.pending and self._must_be_asked_again():
            return self._ask()
        self._finish()
        return None

    def apply(self, decisions: Iterable[Decision]) -> Sequence[Outcome]:
        """Carry out decisions one by one, each by itself, and tell what became of each.

        Raises:
            RuntimeError: Nothing was asked.
        """
        if not self._asked:
            raise RuntimeError("nothing was asked; advance() first")
        self._asked = False
        self._progress = False
        self.outcomes = [self._decide(decision) for decision in decisions]
        rejected = sum(not outcome.applied for outcome in self.outcomes)
        self._refused = rejected > 0
        self._all_refused = 0 < rejected == len(self.outcomes)
        self._instant.decisions += len(self.outcomes)
        self._instant.rejected += rejected
        return self.outcomes

    def fork(self) -> Simulation:
        """Return a copy whose future is that of the original, whatever becomes of either."""
        twin = copy.copy(self)
        twin.cluster = self.cluster.fork()
        twin._source = self._source.reopen(self._source.position())
        twin._execution = self._execution.fork()
        twin._demand = self._demand.fork()
        twin._agenda = self._agenda.fork()
        twin.running = {number: copy.copy(job) for number, job in self.running.items()}
        twin.counts = copy.copy(self.counts)
        twin._instant = copy.copy(self._instant)
        for name in ("pending", "timers", "outcomes", "_expected", "_news"):
            setattr(twin, name, getattr(self, name).copy())
        twin._records = self._records.copy()
        twin._instants = self._instants.copy()
        twin._held = self._held.copy()
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
                    attempt=1,
                    last=True,
                    expected_start=self._expected.get(number),
                )

    # ------------------------------------------------------------------ time

    def _next_instant(self) -> Instant | None:
        """Return when something happens next, or None if no job can ever feel it."""
        upcoming = self._upcoming
        if upcoming is None and not self.pending and not self.running:
            return None
        at = self._agenda.next_instant(self.running)
        if upcoming is None:
            return at
        return upcoming.submit if at is None or upcoming.submit < at else at

    def _turn_to(self, at: Instant) -> None:
        self._instants.append(self._instant)
        cluster, passed = self.cluster, at - self.now
        for kind, free in enumerate(cluster.free):
            self._held[kind] += (cluster.capacity[kind] - free) * passed
        self.now = at
        self._instant = InstantRecord(at)

    def _happen(self, at: Instant) -> bool:
        """Let everything of this instant happen; whether any of it is wanted."""
        told, happened = len(self._news), self._instant.events
        agenda, running = self._agenda, self.running
        while (job := agenda.pop_end(at, running)) is not None:
            self._on_completion(job)
        while self._upcoming is not None and self._upcoming.submit == at:
            submitted, self._upcoming = self._upcoming, self._source.next()
            self._on_submission(submitted)
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
        self._count_end(running.final)
        self._records.append(self._record(running, running.final, self.now))
        self._tell(JobEnded(self.now, job.number, running.final))
        self._respeed(self._execution.ended(running, self.running))

    def _on_submission(self, job: Job) -> None:
        self.counts.submitted += 1
        self._latest = max(self._latest, job.number)
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
        if self._upcoming is None:
            self._tell(WorkloadExhausted(self.now))

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

    def _finish(self) -> None:
        self.end = EndReason.STALLED if self.pending else EndReason.COMPLETED
        self._instants.append(self._instant)

    # ------------------------------------------------------------------ decisions

    def _decide(self, decision: Decision) -> Outcome:
        try:
            allocation = self._carry_out(decision)
        except DecisionError as error:
            return Outcome(decision.id, error.code, str(error))
        if isinstance(decision, Refuse):
            return Outcome(decision.id, decision.code, decision.message)
        self.version += 1
        return Outcome(decision.id, allocation=allocation)

    def _carry_out(self, decision: Decision) -> Allocation | None:
        """Carry out one decision; where a job went, if that was for the server to say."""
        match decision:
            case Start(_, number, allocation):
                return self._start(self._pending_job(number), allocation)
            case Reject(_, number):
                self._reject(self._pending_job(number))
            case Kill(_, number):
                self._kill(number)
            case Wake(_, timer, at):
                self._wake(timer, at)
            case Annotate(_, number, expected_start):
                self._annotate(self._pending_job(number), expected_start)
            case Refuse():
                pass
        return None

    def _pending_job(self, number: int) -> Job:
        job = self.pending.get(number)
        if job is not None:
            return job
        if number in self.running:
            raise NotPending(number, running=True)
        if 0 <= number <= self._latest:
            raise NotPending(number, running=False)
        raise UnknownJob(number)

    def _start(self, job: Job, allocation: Allocation | None) -> Allocation | None:
        if allocation is None:
            chosen = self.cluster.place(job)
        else:
            self.cluster.check(job, allocation)
            chosen = allocation
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

    def _kill(self, number: int) -> None:
        running = self.running.get(number)
        if running is None or running.final is JobState.KILLED:
            if not 0 <= number <= self._latest:
                raise UnknownJob(number)
            raise NotRunning(number, pending=number in self.pending)
        running.final = JobState.KILLED
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

    def _annotate(self, job: Job, expected_start: Instant | None) -> None:
        if expected_start is not None:
            self._expected[job.number] = expected_start

    def _leave_queue(self, job: Job) -> None:
        del self.pending[job.number]
        self.counts.pending -= 1
        self._demand.remove(self.cluster.total(job.request))

    # ------------------------------------------------------------------ ends

    def _respeed(self, changes: Iterable[tuple[RunningJob, int | Fraction]]) -> None:
        for running, speed in changes:
            if speed <= 0:
                raise ValueError(f"job {running.job.number}: a speed is positive, not {speed}")
            if speed == running.speed or running.final is JobState.KILLED:
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
            True,
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
                attempt=1,
                last=True,
                expected_start=self._expected.pop(job.number, None),
            )
        )

    def _count_end(self, state: JobState) -> None:
        counts = self.counts
        setattr(counts, state.value, getattr(counts, state.value) + 1)
