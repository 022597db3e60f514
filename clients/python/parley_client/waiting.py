"""Pending jobs in an order, indexed so that a pass costs what it starts.

Only for orders whose keys never change. A job's rank is its key, then its submission, then its
number: no two jobs have the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from parley_client.estimates import FOREVER, planned_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_client.job import Job
    from parley_client.orders import Order
    from parley_client.view import Queue

Rank: TypeAlias = tuple[Any, int, int]

_BLOCK = 256
"""Jobs in one block of a lane; half of that after a split."""


def rank(job: Job, order: Order) -> Rank:
    """Return a job's place in a timeless order."""
    return order.key(job, 0), job.submit_us, job.number


class Room(Protocol):
    """What is left for jobs that are to start now, in slots and in time."""

    free: int

    def longest(self, slots: int) -> int:
        """Return how long a job of so many slots may be to start now; negative if it may not.

        The more slots the shorter, and never longer again after something was started.
        """
        ...


class Heads:
    """The first jobs of an order: a heap from which those that left the queue drop out late.

    Joining costs O(log jobs); so does each job that is looked at.
    """

    def __init__(self, order: Order, queue: Queue) -> None:
        self._order = order
        self._queue = queue
        self._heap = [(rank(job, order), job) for job in queue]
        heapify(self._heap)
        self._kept = {job.number for job in queue}

    def add(self, job: Job) -> None:
        """A job joined the queue, be it again."""
        if job.number not in self._kept:
            self._kept.add(job.number)
            heappush(self._heap, (rank(job, self._order), job))

    def offer(self, take: Callable[[Job], bool], *, refusals: int) -> None:
        """Offer jobs in order, until so many were not taken or none is left."""
        heap, queue = self._heap, self._queue
        refused: list[tuple[Rank, Job]] = []
        while heap:
            job = heap[0][1]
            if job in queue and not take(job):
                if len(refused) == refusals - 1:
                    # The last to be refused stays where it is; mostly it is the only one.
                    break
                refused.append(heap[0])
            else:
                self._kept.discard(job.number)
            heappop(heap)
        for entry in refused:
            heappush(heap, entry)


class Line:
    """The first job of the queue itself: all that a single head by submission needs."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def add(self, job: Job) -> None:
        """A job joined the queue, which knows it."""

    def offer(self, take: Callable[[Job], bool], *, refusals: int) -> None:  # noqa: ARG002 - `Heads`
        """Offer jobs in order until one is not taken or none is left."""
        queue = self._queue
        while (job := queue.first()) is not None and take(job):
            pass


class Lanes:
    """Jobs by the slots they ask for, each lane in order, with the least length of its blocks.

    Joining and leaving cost O(log jobs) and a shift within a block. `start` costs O(lanes that
    fit) and for each job it starts a look along the blocks of its lane.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lanes: dict[int, _Lane] = {}
        self._sizes: list[int] = []

    def add(self, job: Job) -> None:
        """A job joined the queue."""
        lane = self._lanes.get(job.chunks)
        if lane is None:
            lane = self._lanes[job.chunks] = _Lane()
        if not lane.blocks:
            insort(self._sizes, job.chunks)
        lane.add(rank(job, self._order), planned_length(job), job)

    def remove(self, job: Job) -> None:
        """A job left the queue."""
        lane = self._lanes[job.chunks]
        lane.remove(rank(job, self._order))
        if not lane.blocks:
            del self._sizes[bisect_left(self._sizes, job.chunks)]

    def start(self, room: Room, take: Callable[[Job], object]) -> None:
        """Start jobs in order, once around, as long as there is room for any.

        Starting a job never makes room for another, so that each lane's next candidate lies
        behind its last.

        Args:
            room: What is left; *take* makes it less.
            take: Starts a job, by which it leaves its lane.
        """
        sizes = self._sizes
        heap: list[tuple[Rank, int, Job]] = []
        for size in sizes[: bisect_right(sizes, room.free)]:
            found = self._lanes[size].first(room.longest(size))
            if found is not None:
                heap.append((found[0], size, found[1]))
        heapify(heap)
        while heap:
            _, size, job = heap[0]
            longest = room.longest(size)
            if planned_length(job) <= longest:
                take(job)
                longest = room.longest(size)
            found = self._lanes[size].first(longest)
            if found is None:
                heappop(heap)
            else:
                heapreplace(heap, (found[0], size, found[1]))


class _Block:
    """Neighbours in one lane."""

    __slots__ = ("jobs", "least", "lengths", "ranks")

    def __init__(self, ranks: list[Rank], lengths: list[int], jobs: list[Job]) -> None:
        self.ranks = ranks
        self.lengths = lengths
        self.jobs = jobs
        self.least = min(lengths, default=FOREVER)


class _Lane:
    """Jobs of one size in order, in blocks that know their last rank and their least length."""

    __slots__ = ("_lasts", "blocks")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self._lasts: list[Rank] = []

    def add(self, place: Rank, length: int, job: Job) -> None:
        if not self.blocks:
            self.blocks.append(_Block([place], [length], [job]))
            self._lasts.append(place)
            return
        index = bisect_left(self._lasts, place)
        if index == len(self.blocks):
            index -= 1
        block = self.blocks[index]
        at = bisect_left(block.ranks, place)
        block.ranks.insert(at, place)
        block.lengths.insert(at, length)
        block.jobs.insert(at, job)
        if length < block.least:
            block.least = length
        self._lasts[index] = block.ranks[-1]
        if len(block.ranks) > _BLOCK:
            self._split(index)

    def remove(self, place: Rank) -> None:
        index = bisect_left(self._lasts, place)
        block = self.blocks[index]
        at = bisect_left(block.ranks, place)
        del block.ranks[at], block.jobs[at]
        length = block.lengths.pop(at)
        if not block.ranks:
            del self.blocks[index], self._lasts[index]
            return
        self._lasts[index] = block.ranks[-1]
        if length == block.least:
            block.least = min(block.lengths)

    def first(self, longest: int) -> tuple[Rank, Job] | None:
        """Return the first job that is no longer than that, or None."""
        for block in self.blocks:
            if block.least <= longest:
                lengths = block.lengths
                at = next(at for at, length in enumerate(lengths) if length <= longest)
                return block.ranks[at], block.jobs[at]
        return None

    def _split(self, index: int) -> None:
        block, half = self.blocks[index], _BLOCK // 2
        halves = [
            _Block(block.ranks[part], block.lengths[part], block.jobs[part])
            for part in (slice(half), slice(half, None))
        ]
        self.blocks[index : index + 1] = halves
        self._lasts[index : index + 1] = [part.ranks[-1] for part in halves]
