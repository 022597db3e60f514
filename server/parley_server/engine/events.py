"""What happens to a simulation, and who goes first when much happens at once."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from parley_server.engine.job import Instant, Job, JobState


class Rank(IntEnum):
    """Who goes first among the events of one instant."""

    # A completion frees nodes that a job submitted in the same instant may use.
    COMPLETION = 0
    NODE_CHANGE = 1
    SUBMISSION = 2
    TIMER = 3


NodeRanges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last node of each range, ascending and disjoint."""


class SessionStart(NamedTuple):
    """The run begins; nothing has happened yet."""

    at: Instant


class JobSubmitted(NamedTuple):
    """A job joined the queue."""

    at: Instant
    job: Job


class JobEnded(NamedTuple):
    """A job left its nodes, for whatever reason *state* tells."""

    at: Instant
    number: int
    state: JobState


class NodesDown(NamedTuple):
    """Nodes went out of service; whatever ran there has ended before."""

    at: Instant
    nodes: NodeRanges


class NodesUp(NamedTuple):
    """Nodes came back into service, empty."""

    at: Instant
    nodes: NodeRanges


class TimerFired(NamedTuple):
    """An instant that the dispatcher asked to be woken at."""

    at: Instant
    timer: int


class WorkloadExhausted(NamedTuple):
    """The last job of the workload has been submitted."""

    at: Instant


NodeChange: TypeAlias = NodesDown | NodesUp
"""As an event, and as the entry of a script: the event names those that were not so before."""

Event: TypeAlias = (
    SessionStart | JobSubmitted | JobEnded | NodeChange | TimerFired | WorkloadExhausted
)

EVENT_KINDS: frozenset[type[Event]] = frozenset(get_args(Event))
