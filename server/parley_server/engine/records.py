"""What a simulation leaves behind: one record per attempt of a job, one per instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley_server.engine.cluster import Allocation
    from parley_server.engine.job import Instant, Job, JobState


class JobRecord(NamedTuple):
    """What became of one attempt of a job.

    Attributes:
        end: When it left its nodes or was rejected; None while it is pending or running.
        last: No other attempt follows.
        expected_start: The start the dispatcher announced last, if it did.
    """

    job: Job
    state: JobState
    start: Instant | None
    end: Instant | None
    allocation: Allocation | None
    attempt: int
    last: bool
    expected_start: Instant | None


@dataclass(slots=True)
class InstantRecord:
    """One instant at which something happened.

    Attributes:
        queue_length: Pending jobs after the instant's own events, before any decision on them.
        running: Running jobs at that same moment.
        events: Everything that happened at this instant, told to the dispatcher or not.
        requests: Decision requests made at this instant.
        decisions: Decisions taken at this instant.
        rejected: How many of these were refused.
    """

    instant: Instant
    queue_length: int = 0
    running: int = 0
    events: int = 0
    requests: int = 0
    decisions: int = 0
    rejected: int = 0


@dataclass(slots=True)
class JobCounts:
    """Jobs by what became of them; submitted is at every instant the sum of the others.

    Attributes:
        never_fit: Those among the rejected that the empty machine could not hold.
        requeues: Attempts that were given up; their jobs are counted where they are now.
    """

    submitted: int = 0
    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    killed: int = 0
    rejected: int = 0
    never_fit: int = 0
    requeues: int = 0

    @property
    def ended(self) -> int:
        """Jobs of which nothing more is to come."""
        return self.completed + self.failed + self.timed_out + self.killed + self.rejected
