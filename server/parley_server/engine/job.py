"""What a job is before anything happens to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Instant: TypeAlias = int
"""Whole microseconds since time 0: event order must not hang on whether 0.1 + 0.2 equals 0.3."""

Duration: TypeAlias = int
"""Whole microseconds."""


class JobState(Enum):
    """Where a job stands; the words are AccaSim's, with the ends told apart.

    Requeued is the end of an attempt, not of a job.

    Attributes:
        word: The value; what an enumeration calls so costs two calls each time it is asked.
    """

    def __init__(self, word: str) -> None:
        self.word = word

    # By identity, which is what members are compared by: an enumeration's own hash is a call.
    __hash__ = object.__hash__

    LOADED = "loaded"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    REQUEUED = "requeued"
    REJECTED = "rejected"


# Compared by identity: shapes key every index of the hot path, and hashing an address costs a
# tenth of hashing what stands there. A source makes each shape once; two alike only cost memory.
@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What one chunk asks of the node it lies on.

    Attributes:
        per_chunk: Amount of each resource, positive, by ascending name.
        exclusive: The chunk takes a wholly empty node, all of it.
    """

    per_chunk: tuple[tuple[str, int], ...]
    exclusive: bool

    def __post_init__(self) -> None:
        if not self.per_chunk and not self.exclusive:
            raise ValueError("a chunk that shares its node must ask for some resource")
        if any(amount <= 0 for _, amount in self.per_chunk):
            raise ValueError(f"amounts must be positive: {dict(self.per_chunk)}")

    @classmethod
    def of(cls, per_chunk: Mapping[str, int], *, exclusive: bool) -> Shape:
        """Return the one spelling of a shape, whatever the order of the mapping."""
        return cls(tuple(sorted(per_chunk.items())), exclusive)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGroup:
    """So many chunks of one shape; a request is a tuple of these (of length one, in version 1)."""

    chunks: int
    shape: Shape

    def __post_init__(self) -> None:
        if self.chunks <= 0:
            raise ValueError(f"a job asks for at least one chunk, not {self.chunks}")


# Not frozen: a run makes one per line of its trace, and a frozen dataclass costs three times as
# much to build. Nothing changes a job once its source has handed it over.
@dataclass(slots=True, eq=False)
class Job:
    """One job as its source describes it, runtime included.

    Attributes:
        number: Position in reading order; what the job is called on the wire.
        name: What its source calls it.
        submit: When it is submitted.
        runtime: How long it runs when nothing disturbs it; never shown to a dispatcher.
        walltime: The limit it asks for; None is without limit.
        request: Its chunks.
        walltime_source: Where the walltime comes from, for the records.
        attributes: Further columns that travel to the dispatcher as they are.
    """

    number: int
    name: str
    submit: Instant
    runtime: Duration
    walltime: Duration | None
    request: tuple[ChunkGroup, ...]
    walltime_source: str = "trace"
    user: str | None = None
    group: str | None = None
    queue: str | None = None
    partition: str | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)
