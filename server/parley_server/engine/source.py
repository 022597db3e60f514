"""Where a simulation takes its jobs from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley_server.engine.job import Job


class Source(Protocol):
    """Jobs one at a time, by ascending submission, then reading order.

    A simulation holds one job ahead, so that a job is in memory from shortly before its
    submission until its end, and no longer.
    """

    def next(self) -> Job | None:
        """Return the next job, or None for ever once there is none."""
        ...

    def position(self) -> object:
        """Return where `next` stands: plain data that `reopen` understands."""
        ...

    def reopen(self, position: object) -> Source:
        """Return another source that continues at *position*, apart from this one."""
        ...


class ListSource:
    """Jobs held in memory, for tests and for workloads made in Python."""

    def __init__(self, jobs: Sequence[Job], *, start: int = 0) -> None:
        self._jobs = jobs
        self._index = start

    def next(self) -> Job | None:
        """Return the next job of the list."""
        if self._index >= len(self._jobs):
            return None
        job = self._jobs[self._index]
        self._index += 1
        return job

    def position(self) -> object:
        """Return the index of the next job."""
        return self._index

    def reopen(self, position: object) -> ListSource:
        """Return a source over the same list that continues at *position*."""
        if not isinstance(position, int):
            raise TypeError(f"a position in a list is an index, not {position!r}")
        return ListSource(self._jobs, start=position)
