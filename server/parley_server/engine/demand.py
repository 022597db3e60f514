"""Whether it is worth asking: the smallest totals that pending jobs ask for."""

from __future__ import annotations

from heapq import heappop, heappush
from operator import gt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


_NONE: Final = 2**63
"""The least total of no job at all: more than any machine has."""


class SmallestTotals:
    """For each kind of resource the least that any pending job asks for in all.

    A job joins and leaves in O(1) where another asks for the same, else in O(kinds * log totals),
    amortised; reading costs O(kinds).
    """

    def __init__(self, kind_count: int) -> None:
        self._jobs: dict[tuple[int, ...], int] = {}
        self._least = [_NONE] * kind_count
        self._heaps: list[list[int]] = [[] for _ in range(kind_count)]
        self._counts: list[dict[int, int]] = [{} for _ in range(kind_count)]

    def fork(self) -> SmallestTotals:
        """Return a copy that shares nothing that changes."""
        twin = SmallestTotals(0)
        twin._jobs = self._jobs.copy()
        twin._least = self._least.copy()
        twin._heaps = [heap.copy() for heap in self._heaps]
        twin._counts = [counts.copy() for counts in self._counts]
        return twin

    def add(self, totals: tuple[int, ...]) -> None:
        """A job that asks for *totals* joined the queue."""
        jobs = self._jobs
        if totals in jobs:
            jobs[totals] += 1
        else:
            jobs[totals] = 1
            self._appear(totals)

    def remove(self, totals: tuple[int, ...]) -> None:
        """A job that asks for *totals* left the queue."""
        jobs = self._jobs
        if jobs[totals] > 1:
            jobs[totals] -= 1
        else:
            del jobs[totals]
            self._vanish(totals)

    def within(self, free: Sequence[int]) -> bool:
        """Whether for every kind the least total is no more than what is free; never if empty."""
        return not any(map(gt, self._least, free))

    def _appear(self, totals: tuple[int, ...]) -> None:
        least = self._least
        for kind, total in enumerate(totals):
            # A total stays in its heap, with a count of zero, until it is met at the top.
            counts = self._counts[kind]
            if total in counts:
                counts[total] += 1
            else:
                counts[total] = 1
                heappush(self._heaps[kind], total)
            least[kind] = min(least[kind], total)

    def _vanish(self, totals: tuple[int, ...]) -> None:
        for kind, total in enumerate(totals):
            counts = self._counts[kind]
            counts[total] -= 1
            if total == self._least[kind] and not counts[total]:
                heap = self._heaps[kind]
                while heap and not counts[heap[0]]:
                    del counts[heappop(heap)]
                self._least[kind] = heap[0] if heap else _NONE
