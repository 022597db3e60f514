"""Whether it is worth asking: the smallest totals that pending jobs ask for."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from operator import gt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


_NONE: Final = 2**63
"""The least total of no job at all: more than any machine has."""

_MOST_GONE: Final = 64
"""Totals that nobody asks for any more and that are kept all the same, beside as many as others."""


class SmallestTotals:
    """For each kind of resource the least that any pending job asks for in all.

    A job joins and leaves in O(1) where another asks for the same, else in O(kinds * log totals),
    amortised; reading costs O(kinds).
    """

    def __init__(self, kind_count: int) -> None:
        self._jobs: dict[tuple[int, ...], int] = {}
        self._least = [_NONE] * kind_count
        # Of each kind (least total, totals); those that nobody asks for any more stay until they
        # are met at the top, or until they outnumber the others.
        self._heaps: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(kind_count)]
        self._entered = 0

    def fork(self) -> SmallestTotals:
        """Return a copy that shares nothing that changes."""
        twin = SmallestTotals(0)
        twin._jobs = self._jobs.copy()
        twin._least = self._least.copy()
        twin._heaps = [heap.copy() for heap in self._heaps]
        twin._entered = self._entered
        return twin

    def add(self, totals: tuple[int, ...]) -> None:
        """A job that asks for *totals* joined the queue."""
        jobs = self._jobs
        if totals in jobs:
            jobs[totals] += 1
            return
        jobs[totals] = 1
        self._entered += 1
        if self._entered > _MOST_GONE + 2 * len(jobs):
            self._sweep()
        least = self._least
        for kind, total in enumerate(totals):
            heappush(self._heaps[kind], (total, totals))
            if total < least[kind]:
                least[kind] = total

    def remove(self, totals: tuple[int, ...]) -> None:
        """A job that asks for *totals* left the queue."""
        jobs = self._jobs
        if jobs[totals] > 1:
            jobs[totals] -= 1
            return
        del jobs[totals]
        least = self._least
        for kind, total in enumerate(totals):
            if total == least[kind]:
                least[kind] = self._next_least(self._heaps[kind])

    def within(self, free: Sequence[int]) -> bool:
        """Whether for every kind the least total is no more than what is free; never if empty."""
        return not any(map(gt, self._least, free))

    def _next_least(self, heap: list[tuple[int, tuple[int, ...]]]) -> int:
        while heap and heap[0][1] not in self._jobs:
            heappop(heap)
        return heap[0][0] if heap else _NONE

    def _sweep(self) -> None:
        """Keep nothing in the heaps but what somebody asks for."""
        self._entered = len(self._jobs)
        for kind, heap in enumerate(self._heaps):
            heap[:] = [(totals[kind], totals) for totals in self._jobs]
            heapify(heap)
