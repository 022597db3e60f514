"""Jobs as a dispatcher knows them: everything but how long they will run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_client.spans import Span


# Compared by identity: a view makes each shape once, and shapes key its indexes of the nodes.
@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What one chunk asks of its node.

    Attributes:
        per_chunk: Amount of each resource, by ascending name.
        exclusive: It takes a wholly empty node, all of it.
    """

    per_chunk: tuple[tuple[str, int], ...]
    exclusive: bool


# Not frozen: there is one for every job of a trace, and a frozen one costs three times as much.
@dataclass(slots=True, eq=False)
class Job:
    """A job that was submitted.

    Attributes:
        number: What it is called on the wire: its place in reading order.
        name: What its source calls it.
        submit_us: When it was submitted, microseconds since time 0.
        walltime_us: The limit it asks for; None is without limit.
        chunks: How many chunks it asks for.
        shape: What each of them asks of its node.
        attributes: Further columns of the workload.
    """

    number: int
    name: str
    submit_us: int
    walltime_us: int | None
    chunks: int
    shape: Shape
    user: str | None = None
    group: str | None = None
    queue: str | None = None
    partition: str | None = None
    attributes: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job on its nodes.

    Attributes:
        spans: Where it lies.
    """

    job: Job
    start_us: int
    spans: tuple[Span, ...]

    @property
    def expected_end_us(self) -> int | None:
        """When its walltime is over; it may end sooner, and later where jobs may overrun."""
        walltime = self.job.walltime_us
        return None if walltime is None else self.start_us + walltime
