"""When running jobs are estimated to give their slots back, summed so that it can be searched."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import chain

from parley_client.estimates import NEVER, SECOND_US

_BLOCK = 128
"""Ends in one block; half of that after a split."""


class Releases:
    """Slots by the instant of their estimated release.

    Adding, removing and searching cost O(sqrt(instants)) in effect: instants lie in blocks, each
    with its sum.

    Attributes:
        total: Slots in all.
    """

    def __init__(self) -> None:
        self.total = 0
        self._slots: dict[int, int] = {}
        self._blocks: list[list[int]] = [[]]
        self._sums = [0]
        self._lasts: list[int] = []

    def add(self, end: int, slots: int) -> None:
        """Note that so many slots come back at an instant."""
        self.total += slots
        index = self._index(end)
        self._sums[index] += slots
        if end in self._slots:
            self._slots[end] += slots
            return
        self._slots[end] = slots
        block = self._blocks[index]
        insort(block, end)
        if len(block) > _BLOCK:
            self._split(index)
        elif self._lasts:
            self._lasts[index] = block[-1]
        else:
            self._lasts.append(end)

    def remove(self, end: int, slots: int) -> None:
        """Take back what was added."""
        self.total -= slots
        index = self._index(end)
        self._sums[index] -= slots
        left = self._slots[end] - slots
        if left:
            self._slots[end] = left
            return
        del self._slots[end]
        block = self._blocks[index]
        del block[bisect_left(block, end)]
        if block:
            self._lasts[index] = block[-1]
        elif len(self._blocks) > 1:
            del self._blocks[index], self._sums[index], self._lasts[index]
        else:
            self._lasts.clear()

    def earliest(self, slots: int, now: int) -> tuple[int, int]:
        """Return when so many slots will have come back, and how many too many come with them.

        All releases of one instant count together, and those that are overdue come one second
        from now. If there never are so many, the instant is `NEVER`.
        """
        end, over = self._earliest(slots)
        # Later than that it does not matter that some have come late.
        if end > now + SECOND_US or not self.overdue(now):
            return end, over
        return self._earliest_overdue(slots, now)

    def overdue(self, now: int) -> bool:
        """Whether any slots were to come back by now."""
        first = self._blocks[0]
        return bool(first) and first[0] <= now

    def items(self, now: int) -> list[tuple[int, int]]:
        """Return (instant after now, slots), ascending, each instant once."""
        ends: dict[int, int] = {}
        for block in self._blocks:
            for end in block:
                at = end if end > now else now + SECOND_US
                ends[at] = ends.get(at, 0) + self._slots[end]
        return sorted(ends.items())

    def _earliest(self, slots: int) -> tuple[int, int]:
        """The same if each comes at its own instant, be it in the past."""
        missing = slots
        for block, held in zip(self._blocks, self._sums, strict=True):
            if held < missing:
                missing -= held
                continue
            for end in block:
                missing -= self._slots[end]
                if missing <= 0:
                    return end, -missing
        return NEVER, 0

    def _earliest_overdue(self, slots: int, now: int) -> tuple[int, int]:
        """The same if enough have come within a second from now; O(those that come till then)."""
        soon = now + SECOND_US
        missing, late = slots, 0
        for end in chain.from_iterable(self._blocks):
            if end > soon:
                break
            if now < end < soon:
                missing -= self._slots[end]
                if missing <= 0:
                    return end, -missing
            else:
                late += self._slots[end]
        return soon, late - missing

    def _index(self, end: int) -> int:
        most = len(self._blocks) - 1
        if not most:
            return 0
        index = bisect_left(self._lasts, end)
        if index > most:
            index = most
        return index

    def _split(self, index: int) -> None:
        block = self._blocks[index]
        rest = block[_BLOCK // 2 :]
        del block[_BLOCK // 2 :]
        moved = sum(self._slots[end] for end in rest)
        self._blocks.insert(index + 1, rest)
        self._sums[index] -= moved
        self._sums.insert(index + 1, moved)
        self._lasts[index : index + 1] = [block[-1], rest[-1]]
