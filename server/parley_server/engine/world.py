"""Jobs and nodes as they are now, and everything that can happen to them.

Nothing here knows when the dispatcher is asked, or where jobs come from; `Simulation` does.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from parley_server.engine.agenda import Agenda
from parley_server.engine.cluster import Cluster
from parley_server.engine.demand import SmallestTotals
from parley_server.engine.errors import (
    IsHeld,
    NameTaken,
    NeverFits,
    NotHeld,
    NotPending,
    NotRunning,
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
    TimerFired,
)
from parley_server.engine.execution import ExecutionModel, Rigid, RunningJob
from parley_server.engine.job import Instant, Job, JobState
from parley_server.engine.records import InstantRecord, JobCounts, JobRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from fractions import Fraction

    from parley_server.engine.cluster import Allocation, NodeGroup
    from parley_server.engine.events import NodeRanges

FIRST_SUBMITTED: Final = 2**52
"""The number of the first job that a dispatcher brings in: after all of any workload."""

# An enumeration takes as long to name its member as a call does.
_COMPLETED: Final = JobState.COMPLETED
_REJECTED: Final = JobState.REJECTED
_REQUEUED: Final = JobState.REQUEUED

_made = tuple.__new__
"""Makes a named tuple of what stands in its order; its own constructor is one more call."""

_ORDERED_ENDS = frozenset({JobState.KILLED, JobState.REQUEUED})
"""Ends that a decision has brought about; the job is on its nodes no longer than this instant."""


class OnOverrun(Enum):
    """What becomes of a job that reaches its walltime and is not done."""

    RUN = "run"
    KILL = "kill"


class OnNodeDown(Enum):
    """What becomes of the jobs on a node that goes out of service."""

    KILL = "kill"
    REQUEUE = "requeue"


class World:
    """Jobs on nodes, jobs that wait, and what is to come.

    Everything in it is plain data, so that it can be copied. What is over it keeps in two lists
    until the driver takes them, `take_records` and `take_instants`; memory stays bounded as long
    as the driver does.

    Args:
        groups: The nodes.
        wants: Events to keep as news; others are counted and forgotten.
        on_overrun: Whether a job may run on beyond its walltime.
        changes: When nodes go out of service and come back.
        on_node_down: What becomes of the jobs that ran there.
        execution: How fast jobs get on.
        weighs: Keep what the pending jobs ask for at least, to tell whether any could start.

    Attributes:
        pending: The jobs that wait, by number, in no particular order; `queue` has one.
        holds: Numbers of those that are held.
        running: The jobs on nodes, by number, in the order of their start.
        timers: Instants of the timers that wait, by their number.
        version: Counts events and applied decisions.
        first_unfit: The first job that the empty machine could not hold.
    """

    # Of more than thirty attributes in a dictionary, each would be searched for.
    __slots__ = (
        *("_agenda", "_attempts", "_brought", "_changes", "_demand", "_execution", "_expected"),
        *("_held", "_instant", "_instants", "_kills", "_latest", "_lost", "_names", "_news"),
        *("_progress", "_records", "_rigid", "_timer_fired", "_unseen", "_wants", "_wants_all"),
        *("cluster", "counts", "first_unfit", "holds", "now", "pending", "running", "timers"),
        "version",
    )

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        *,
        wants: Collection[type[Event]],
        on_overrun: OnOverrun,
        changes: Sequence[NodeChange],
        on_node_down: OnNodeDown,
        execution: ExecutionModel | None,
        weighs: bool,
    ) -> None:
        self.now: Instant = 0
        self.cluster = Cluster(groups)
        self.pending: dict[int, Job] = {}
        self.holds: set[int] = set()
        self.running: dict[int, RunningJob] = {}
        self.timers: dict[int, Instant] = {}
        self.counts = JobCounts()
        self.first_unfit: Job | None = None
        self.version = 0
        self._wants = frozenset(wants)
        self._wants_all = self._wants >= EVENT_KINDS
        self._kills = on_overrun is OnOverrun.KILL
        self._lost = JobState.FAILED if on_node_down is OnNodeDown.KILL else JobState.REQUEUED
        self._execution: ExecutionModel = execution or Rigid()
        self._rigid = execution is None
        self._agenda = Agenda()
        self._changes = tuple(changes)
        for index, change in enumerate(self._changes):
            self._agenda.enter_change(change.at, int(isinstance(change, NodesUp)), index)
        self._demand = SmallestTotals(len(self.cluster.kinds)) if weighs else None
        self._latest = -1
        self._attempts: dict[int, int] = {}
        self._brought: dict[int, Job] = {}
        self._names: set[str] = set()
        self._expected: dict[int, Instant] = {}
        # Since the dispatcher was asked last: what it will be told, whether anything happened at
        # all, whether a timer fired; and whether its decisions started or scheduled anything.
        self._news: list[Event] = []
        self._unseen = False
        self._timer_fired = False
        self._progress = False
        self._records: list[JobRecord] = []
        self._instants: list[InstantRecord] = []
        self._instant = InstantRecord(0)
        self._held = [0] * len(self.cluster.kinds)

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

    def backlog(self) -> int:
        """Return how many records wait to be taken."""
        return len(self._records) + len(self._instants)

    def current_instant(self) -> InstantRecord:
        """Return the instant that is not over yet."""
        return self._instant

    def queue(self) -> list[Job]:
        """Return the pending jobs by submission, then reading order; O(pending), mostly."""
        return sorted(self.pending.values(), key=lambda job: (job.submit, job.number))

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

    def _turn_to(self, at: Instant) -> None:
        self._instants.append(self._instant)
        cluster = self.cluster
        free, in_service = cluster.free, cluster.in_service
        if free != in_service:
            held, passed = self._held, at - self.now
            for kind, amount in enumerate(in_service):
                held[kind] += (amount - free[kind]) * passed
        self.now = at
        self._instant = InstantRecord(at)

    # ------------------------------------------------------------------ events

    def _tell(self, event: Event) -> None:
        self.version += 1
        self._instant.events += 1
        self._unseen = True
        if self._wants_all or type(event) in self._wants:
            self._news.append(event)

    def _on_completion(self, running: RunningJob) -> None:
        job, final = running.job, running.final
        number = job.number
        del self.running[number]
        self.cluster.release(job, running.allocation)
        self.counts.running -= 1
        self._records.append(self._record(running, final, self.now))
        if final is _REQUEUED:
            self._return_to_queue(running)
        else:
            if final is _COMPLETED:
                self.counts.completed += 1
            else:
                self._count_end(final)
            if self._attempts:
                self._attempts.pop(number, None)
        self._tell(_made(JobEnded, (self.now, number, final)))
        if not self._rigid:
            self._respeed(self._execution.ended(running, self.running))

    def _return_to_queue(self, running: RunningJob) -> None:
        job = running.job
        self.counts.requeues += 1
        self.counts.pending += 1
        self.pending[job.number] = job
        self._attempts[job.number] = running.attempt + 1
        self._weigh(job)

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
                begin <= last and first <= end
                for spans in running.allocation
                for begin, end, _ in spans
                for first, last in ranges
            ):
                yield number

    def _on_submission(self, job: Job) -> None:
        counts = self.counts
        counts.submitted += 1
        asked = self.cluster.asked(job.request)
        if asked.ever:
            self.pending[job.number] = job
            counts.pending += 1
            if self._demand is not None:
                self._demand.add(asked.total)
            self._tell(_made(JobSubmitted, (self.now, job)))
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

    # ------------------------------------------------------------------ what can be decided

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
        number, now = job.number, self.now
        if number in self.holds:
            raise IsHeld(number)
        cluster = self.cluster
        if allocation is None:
            chosen = cluster.place(job)
            cluster.take(job, chosen)
        else:
            chosen = cluster.occupy(job, allocation)
        self._leave_queue(job)
        end, final = now + job.runtime, _COMPLETED
        if self._kills:
            end, final = self._end_of(job, now, end)
        running = self.running[number] = RunningJob(
            job,
            now,
            chosen,
            end,
            final,
            job.runtime,
            now,
            1,
            self._attempts.get(number, 1) if self._attempts else 1,
            0,
            self._expected.pop(number, None) if self._expected else None,
        )
        self.counts.running += 1
        self._agenda.enter_end(running)
        if not self._rigid:
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
        if self._demand is not None:
            self._demand.remove(self.cluster.total(job.request))

    def _release(self, job: Job) -> None:
        if job.number not in self.holds:
            raise NotHeld(job.number)
        self.holds.remove(job.number)
        self._weigh(job)

    def _submit(self, job: Job, at: Instant) -> int:
        """Take in a job that the dispatcher has made; return its number."""
        if at < self.now:
            raise SubmittedInThePast(at, self.now)
        name = f"dyn!{job.name or self._unused_name()}"
        if name in self._names:
            raise NameTaken(name)
        if not self.cluster.asked(job.request).ever:
            raise NeverFits(sum(group.chunks for group in job.request))
        job.number = FIRST_SUBMITTED + len(self._names)
        job.name = name
        job.submit = at
        self._names.add(name)
        self._brought[job.number] = job
        self._agenda.enter_submission(at, job.number)
        self._progress = True
        return job.number

    def _unused_name(self) -> int:
        """Return how many jobs were brought in before, or the next number that names none."""
        number = len(self._names)
        while f"dyn!{number}" in self._names:
            number += 1
        return number

    def _annotate(self, job: Job, expected_start: Instant | None) -> None:
        if expected_start is not None:
            self._expected[job.number] = expected_start

    def _leave_queue(self, job: Job) -> None:
        del self.pending[job.number]
        self.counts.pending -= 1
        if self.holds and job.number in self.holds:
            self.holds.remove(job.number)
        elif self._demand is not None:
            self._demand.remove(self.cluster.asked(job.request).total)

    def _weigh(self, job: Job) -> None:
        """Take into account that a job could be started that could not."""
        if self._demand is not None:
            self._demand.add(self.cluster.total(job.request))

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
            running.end, running.final = self._end_of(
                running.job, running.start, running.natural_end()
            )
            self._agenda.move_end(running, self.running)

    def _end_of(self, job: Job, start: Instant, natural: Instant) -> tuple[Instant, JobState]:
        """Return when a job ends whose work is done at *natural*, and how."""
        if self._kills and job.walltime is not None and natural > start + job.walltime:
            return start + job.walltime, JobState.TIMED_OUT
        return natural, _COMPLETED

    # ------------------------------------------------------------------ records

    def _record(self, running: RunningJob, state: JobState, end: Instant | None) -> JobRecord:
        return _made(
            JobRecord,
            (
                running.job,
                state,
                running.start,
                end,
                running.allocation,
                running.attempt,
                state is not _REQUEUED,
                running.expected_start,
            ),
        )

    def _record_rejection(self, job: Job) -> None:
        self.counts.rejected += 1
        attempt = self._attempts.pop(job.number, 1) if self._attempts else 1
        expected = self._expected.pop(job.number, None) if self._expected else None
        self._records.append(
            _made(JobRecord, (job, _REJECTED, None, self.now, None, attempt, True, expected))
        )

    def _count_end(self, state: JobState) -> None:
        counts = self.counts
        setattr(counts, state.word, getattr(counts, state.word) + 1)
