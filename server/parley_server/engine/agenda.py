"""What is to come: ends of running jobs, which may be moved, node changes, jobs and timers."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from parley_server.engine.events import Rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.engine.execution import RunningJob
    from parley_server.engine.job import Instant


# An enumeration takes as long to name its member as a call does.
_COMPLETION: Final = Rank.COMPLETION


class Agenda:
    """A heap of (instant, rank, order, detail).

    An end that was moved and a timer that was cancelled stay where they were until they come up,
    and are then found void: their number is not the last one given to that job or timer. Should
    the void outnumber the others, they are swept out, so that memory stays O(running + timers).

    Attributes:
        entries: The heap, to be looked at: its first entry is the next, be it void.
        void: How many entries stand for nothing any more.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[Instant, Rank, int, int]] = []
        self.void = 0
        self._given = 0
        self._timers: dict[int, int] = {}

    def fork(self) -> Agenda:
        """Return a copy that shares nothing that changes."""
        twin = Agenda()
        twin.entries = self.entries.copy()
        twin.void = self.void
        twin._given = self._given
        twin._timers = self._timers.copy()
        return twin

    def enter_end(self, running: RunningJob) -> None:
        """Enter the one end of a job; O(log entries)."""
        given = running.ticket = self._given = self._given + 1
        heappush(self.entries, (running.end, _COMPLETION, running.job.number, given))

    def move_end(self, job: RunningJob, running: Mapping[int, RunningJob]) -> None:
        """Enter another end in the place of the one before; O(log entries), amortised."""
        self.enter_end(job)
        self.forget_end(running)

    def forget_end(self, running: Mapping[int, RunningJob]) -> None:
        """Note that an end will not come: its job has another, or is gone already."""
        self.void += 1
        if self.void > 64 + len(self.entries) // 2:
            self._sweep(running)

    def enter_change(self, at: Instant, order: int, index: int) -> None:
        """Enter a change of nodes; those of one instant come by *order*, then as entered."""
        heappush(self.entries, (at, Rank.NODE_CHANGE, order, index))

    def enter_submission(self, at: Instant, number: int) -> None:
        """Enter a job that does not come from the workload."""
        heappush(self.entries, (at, Rank.SUBMISSION, number, 0))

    def enter_timer(self, at: Instant, timer: int) -> None:
        """Enter a timer; those of one instant come in the order in which they were entered."""
        self._given += 1
        self._timers[timer] = self._given
        heappush(self.entries, (at, Rank.TIMER, self._given, timer))

    def cancel_timer(self, timer: int, running: Mapping[int, RunningJob]) -> None:
        """Let a timer that waits never fire."""
        del self._timers[timer]
        self.forget_end(running)

    def next_instant(self, running: Mapping[int, RunningJob]) -> Instant | None:
        """Return when the next entry is due, or None."""
        entries = self.entries
        while entries:
            if not self.void or self._is_due(entries[0], running):
                return entries[0][0]
            heappop(entries)
            self.void -= 1
        return None

    def pop_end(self, at: Instant, running: Mapping[int, RunningJob]) -> RunningJob | None:
        """Take the next job that ends at *at*, in reading order, or None."""
        entries = self.entries
        while entries and entries[0][0] == at and entries[0][1] is _COMPLETION:
            _, _, number, ticket = heappop(entries)
            job = running.get(number)
            if job is not None and job.ticket == ticket:
                return job
            self.void -= 1
        return None

    def pop_change(self, at: Instant) -> int | None:
        """Take the index of the next change of nodes at *at*; call it when no end is left there."""
        entries = self.entries
        if entries and entries[0][0] == at and entries[0][1] is Rank.NODE_CHANGE:
            return heappop(entries)[3]
        return None

    def pop_submission(self, at: Instant) -> int | None:
        """Take the number of the next job entered for *at*; call it when no change is left."""
        entries = self.entries
        if entries and entries[0][0] == at and entries[0][1] is Rank.SUBMISSION:
            return heappop(entries)[2]
        return None

    def pop_timer(self, at: Instant) -> int | None:
        """Take the next timer that is due at *at*, or None; call it when nothing else is left."""
        entries = self.entries
        while entries and entries[0][0] == at and entries[0][1] is Rank.TIMER:
            _, _, order, timer = heappop(entries)
            if self._timers.get(timer) == order:
                del self._timers[timer]
                return timer
            self.void -= 1
        return None

    def _is_due(
        self, entry: tuple[Instant, Rank, int, int], running: Mapping[int, RunningJob]
    ) -> bool:
        """Whether an entry stands for something that will happen."""
        _, rank, order, detail = entry
        if rank is _COMPLETION:
            job = running.get(order)
            return job is not None and job.ticket == detail
        return rank is not Rank.TIMER or self._timers.get(detail) == order

    def _sweep(self, running: Mapping[int, RunningJob]) -> None:
        self.entries = [entry for entry in self.entries if self._is_due(entry, running)]
        heapify(self.entries)
        self.void = 0
