"""What a dispatcher may decide, and what it is told of each decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from parley_server.engine.cluster import Allocation
    from parley_server.engine.job import Instant, Job


class Start(NamedTuple):
    """Start a pending job now; without an allocation, on the lowest nodes that hold it."""

    id: int
    job: int
    allocation: Allocation | None = None


class Reject(NamedTuple):
    """Remove a pending job for good."""

    id: int
    job: int


class Kill(NamedTuple):
    """End a running job at this instant; its nodes are free once its end has been told."""

    id: int
    job: int


class Requeue(NamedTuple):
    """End a running job at this instant and put it back in its place in the queue."""

    id: int
    job: int


class Hold(NamedTuple):
    """Let a pending job not be started until it is released."""

    id: int
    job: int


class Release(NamedTuple):
    """Let a held job be started again."""

    id: int
    job: int


class Wake(NamedTuple):
    """Ask to be asked at an instant, whatever happens."""

    id: int
    timer: int
    at: Instant


class CancelWake(NamedTuple):
    """Give up a timer that waits."""

    id: int
    timer: int


class Annotate(NamedTuple):
    """Note when a pending job is expected to start, for the records."""

    id: int
    job: int
    expected_start: Instant | None = None


class Submit(NamedTuple):
    """Bring in a job that the workload does not hold.

    Attributes:
        job: Its number, name and submission are given when it is taken in.
        at: When it is submitted; None is now.
    """

    id: int
    job: Job
    at: Instant | None = None


class Stop(NamedTuple):
    """End the whole run here."""

    id: int


class Refuse(NamedTuple):
    """What came from the dispatcher cannot be a decision; it is refused in its turn."""

    id: int
    code: str
    message: str


Decision: TypeAlias = (
    Start
    | Reject
    | Kill
    | Requeue
    | Hold
    | Release
    | Wake
    | CancelWake
    | Annotate
    | Submit
    | Stop
    | Refuse
)


class Outcome(NamedTuple):
    """What became of one decision.

    Attributes:
        code: Why it was rejected; None if it was applied.
        allocation: Where the job went, if the server placed it.
        job: The number of a job that was brought in.
        at: When it took effect, if that was later than it was asked for.
    """

    id: int
    code: str | None = None
    message: str | None = None
    allocation: Allocation | None = None
    job: int | None = None
    at: Instant | None = None

    @property
    def applied(self) -> bool:
        """Whether the decision took effect."""
        return self.code is None
