"""One line of a trace, whatever its format, before any rule decides what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.engine import ChunkGroup

MOST_SECONDS = (2**53 - 1) // 1_000_000
"""Of any time: beyond it microseconds do not fit the wire's integers."""

MOST_CHUNKS = 2**31


class Malformed(Exception):
    """A line that is no job; the text says which field and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class More:
    """What few lines have: kept apart, so that the many need not carry it.

    Attributes:
        request: The chunks asked for, where the format says them itself.
        constraints: What the nodes' attributes must be, by name.
        attributes: Further columns, known at submission, that travel to the dispatcher.
    """

    request: tuple[ChunkGroup, ...] | None = None
    constraints: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)


NOTHING_MORE = More()


class Entry(NamedTuple):
    """The fields of a line; times in microseconds; a negative number means that it is missing.

    Attributes:
        name: What the trace calls the job.
        wait: Seconds in the queue, as they stand in the trace; it decides nothing.
        cpu: Average CPU seconds, likewise.
        used_memory: Kilobytes a processor, likewise.
        memory: Kilobytes asked for, a processor.
        status: 1 completed, 0 failed, 5 cancelled, 2 to 4 of a part of a job.
    """

    name: int | str
    submit: int
    runtime: int
    allocated: int
    requested: int
    walltime: int
    memory: int
    status: int
    user: str | None
    group: str | None
    application: str | None
    queue: str | None
    partition: str | None
    preceding: int
    think: int
    wait: bytes
    cpu: bytes
    used_memory: bytes
    more: More = NOTHING_MORE

    @property
    def size(self) -> int:
        """Processors: those requested, or else those allocated."""
        return self.requested if self.requested > 0 else self.allocated
