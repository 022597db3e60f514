"""Whether it is worth asking: the smallest totals that pending jobs ask for."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SmallestTotals:
    """For each kind of resource the least that any pending job asks for in all.

    A job joins and leaves in O(kinds * log totals); reading costs O(kinds * log totals), amortised.
    """

    def __init__(self, kind_count: int) -> None:
        self._heaps: list[list[int]] = [[] for _ in range(kind_count)]
        self._counts: list[dict[int, int]] = [{} for _ in range(kind_count)]

    def fork(self) -> SmallestTotals:
        """Return a copy that shares nothing that changes."""
        twin = SmallestTotals(0)
        twin._heaps = [heap.copy() for heap in self._heaps]
        twin._counts = [counts.copy() for counts in self._counts]
        return twin

    def add(self, totals: Sequence[int]) -> None:
        """A job that asks for *totals* joined the queue."""
        for heap, counts, total in zip(self._heaps, self._counts, totals, strict=True):
            # A total stays in its heap, with a count of zero, until it is met at the top.
            count = counts.get(total)
            if count is None:
                heappush(heap, total)
                counts[total] = 1
            else:
                counts[total] = count + 1

    def remove(self, totals: Sequence[int]) -> None:
        """A job that asks for *totals* left the queue."""
        for counts, total in zip(self._counts, totals, strict=True):
            counts[total] -= 1

    def within(self, free: Sequence[int]) -> bool:
        """Whether for every kind the least total is no more than what is free; never if empty."""
        for heap, counts, amount in zip(self._heaps, self._counts, free, strict=True):
            while heap and not counts[heap[0]]:
                del counts[heappop(heap)]
            if not heap or heap[0] > amount:
                return False
        return True
