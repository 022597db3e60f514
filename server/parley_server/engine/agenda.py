"""What is to come: ends of running jobs, which may be moved, and timers, which may not."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from parley_server.engine.events import Rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.engine.execution import RunningJob
    from parley_server.engine.job import Instant


class Agenda:
    """A heap of (instant, rank, order, detail).

    An end that was moved stays where it was until it comes up, and is then found void: its
    detail is not the number of moves its job has made. Should the void outnumber the others,
    they are swept out, so that memory stays O(running + timers).
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Instant, Rank, int, int]] = []
        self._void = 0
        self._timers = 0

    def fork(self) -> Agenda:
        """Return a copy that shares nothing that changes."""
        twin = Agenda()
        twin._entries = self._entries.copy()
        twin._void = self._void
        twin._timers = self._timers
        return twin

    def enter_end(self, running: RunningJob) -> None:
        """Enter the end of a job that has just started; O(log entries)."""
        heappush(self._entries, (running.end, Rank.COMPLETION, running.job.number, running.moves))

    def move_end(self, job: RunningJob, running: Mapping[int, RunningJob]) -> None:
        """Enter another end in the place of the one before; O(log entries), amortised."""
        job.moves += 1
        self._void += 1
        self.enter_end(job)
        if self._void > 64 + len(self._entries) // 2:
            self._sweep(running)

    def enter_timer(self, at: Instant, timer: int) -> None:
        """Enter a timer; those of one instant come in the order in which they were entered."""
        self._timers += 1
        heappush(self._entries, (at, Rank.TIMER, self._timers, timer))

    def next_instant(self, running: Mapping[int, RunningJob]) -> Instant | None:
        """Return when the next entry is due, or None."""
        entries = self._entries
        while entries:
            at, rank, number, moves = entries[0]
            if rank is Rank.TIMER:
                return at
            job = running.get(number)
            if job is not None and job.moves == moves:
                return at
            heappop(entries)
            self._void -= 1
        return None

    def pop_end(self, at: Instant, running: Mapping[int, RunningJob]) -> RunningJob | None:
        """Take the next job that ends at *at*, in reading order, or None."""
        entries = self._entries
        while entries and entries[0][0] == at and entries[0][1] is Rank.COMPLETION:
            _, _, number, moves = heappop(entries)
            job = running.get(number)
            if job is not None and job.moves == moves:
                return job
            self._void -= 1
        return None

    def pop_timer(self, at: Instant) -> int | None:
        """Take the next timer that is due at *at*, or None; call it when no end is left there."""
        entries = self._entries
        if entries and entries[0][0] == at and entries[0][1] is Rank.TIMER:
            return heappop(entries)[3]
        return None

    def _sweep(self, running: Mapping[int, RunningJob]) -> None:
        self._entries = [
            entry
            for entry in self._entries
            if entry[1] is Rank.TIMER
            or ((job := running.get(entry[2])) is not None and job.moves == entry[3])
        ]
        heapify(self._entries)
        self._void = 0
