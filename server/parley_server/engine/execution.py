"""How fast running jobs get on, and so when they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from parley_server.engine.cluster import Allocation
    from parley_server.engine.job import Duration, Instant, Job, JobState


@dataclass(slots=True)
class RunningJob:
    """A job on its nodes.

    Work is measured in microseconds at speed 1 and kept exact; only the end is rounded, up, to
    a whole microsecond, so that changes of speed in any number leave no drift.

    Attributes:
        end: When it will end as things stand; it has one end, and that can be moved.
        final: The state it will then be in.
        work: What was left to do at *since*.
        speed: How fast it has got on from *since*.
        ticket: The agenda's number of its end: any other end there is void.
    """

    job: Job
    start: Instant
    allocation: Allocation
    end: Instant
    final: JobState
    work: Duration | Fraction
    since: Instant
    speed: int | Fraction = 1
    attempt: int = 1
    ticket: int = 0
    expected_start: Instant | None = None

    def work_left(self, now: Instant) -> Duration | Fraction:
        """Return the work still to be done at *now*, exactly."""
        return self.work - self.speed * (now - self.since)

    def natural_end(self) -> Instant:
        """Return the first whole microsecond at which no work is left, walltime aside."""
        return self.since - int(-self.work // self.speed)


class ExecutionModel(Protocol):
    """Who runs how fast beside whom.

    Both questions are asked when something has changed; the answers are the jobs whose speed is
    another from now on. Speeds are positive, and 1 is the speed at which a job takes its runtime.
    """

    def started(
        self, job: RunningJob, running: Mapping[int, RunningJob]
    ) -> Iterable[tuple[RunningJob, int | Fraction]]:
        """Return new speeds now that *job* runs (it is among *running*)."""
        ...

    def ended(
        self, job: RunningJob, running: Mapping[int, RunningJob]
    ) -> Iterable[tuple[RunningJob, int | Fraction]]:
        """Return new speeds now that *job* is gone from *running*."""
        ...

    def fork(self) -> ExecutionModel:
        """Return a copy whose answers will be those of the original."""
        ...


class Rigid:
    """Every job takes its runtime, whoever runs beside it: no end ever moves."""

    def started(
        self,
        job: RunningJob,  # noqa: ARG002 - the answer is the same for all
        running: Mapping[int, RunningJob],  # noqa: ARG002
    ) -> Iterable[tuple[RunningJob, int | Fraction]]:
        """Return nothing."""
        return ()

    def ended(
        self,
        job: RunningJob,  # noqa: ARG002
        running: Mapping[int, RunningJob],  # noqa: ARG002
    ) -> Iterable[tuple[RunningJob, int | Fraction]]:
        """Return nothing."""
        return ()

    def fork(self) -> Rigid:
        """Return itself: there is nothing in it that could differ."""
        return self
