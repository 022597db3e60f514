"""What will be free when: plans into which jobs are put before they start."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley_client.estimates import FOREVER, planned_length
from parley_client.spans import Span, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from parley_client.cluster import Cluster
    from parley_client.job import Job, Shape


@dataclass(slots=True, eq=False)
class Reservation:
    """A job's place in a plan; a running job has one too.

    Attributes:
        start_us: `FOREVER` if there is no telling when it could start.
        end_us: It holds its place in [start, end).
        spans: On which nodes; None where slots are only counted.
    """

    job: Job
    start_us: int
    end_us: int
    spans: tuple[Span, ...] | None = None


class Steps:
    """Free slots as a step function of time, from now on for ever.

    Finding an instant costs O(log steps), changing O(steps changed) and a shift.
    """

    def __init__(self, now: int, free: int) -> None:
        # times[i] is where free[i] begins; the last step has no end.
        self._times = [now]
        self._free = [free]

    def turn_to(self, now: int) -> None:
        """Forget what is past."""
        index = bisect_right(self._times, now) - 1
        del self._times[:index], self._free[:index]
        self._times[0] = now

    def change(self, start: int, end: int, by: int) -> None:
        """Let so many slots more (or fewer, if negative) be free in [start, end)."""
        first = self._cut(start)
        last = len(self._times) if end >= FOREVER else self._cut(end)
        free = self._free
        for index in range(first, last):
            free[index] += by
        # Only at its ends can a change have made neighbours alike.
        for index in (last, first):
            if 0 < index < len(free) and free[index] == free[index - 1]:
                del free[index], self._times[index]

    def earliest(self, slots: int, length: int, after: int) -> int:
        """Return the first instant, not before *after*, from which so many are free so long.

        `FOREVER` if there is none.
        """
        times, free = self._times, self._free
        start, count = after, len(times)
        index = bisect_right(times, after) - 1
        while index < count:
            if free[index] < slots:
                index += 1
                start = times[index] if index < count else FOREVER
                continue
            index += 1
            if index == count or times[index] - start >= length:
                return start
        return FOREVER

    def free_for(self, slots: int) -> int:
        """Return for how long from now on so many are free; `FOREVER` if always."""
        for index, free in enumerate(self._free):
            if free < slots:
                return self._times[index] - self._times[0]
        return FOREVER

    def _cut(self, at: int) -> int:
        """Return the index of the step that begins at an instant; make it one if none does."""
        index = bisect_left(self._times, at)
        if index == len(self._times) or self._times[index] != at:
            self._times.insert(index, at)
            self._free.insert(index, self._free[index - 1])
        return index


class SlotPlan:
    """A plan of slots: which node a job will get is left open until it starts."""

    def __init__(self, now: int, slots: int) -> None:
        self._steps = Steps(now, slots)

    def turn_to(self, now: int) -> None:
        """Forget what is past."""
        self._steps.turn_to(now)

    def find(self, job: Job, after: int) -> Reservation:
        """Return the earliest place for a job; nothing changes."""
        length = planned_length(job)
        start = self._steps.earliest(job.chunks, length, after)
        return Reservation(job, start, min(start + length, FOREVER))

    def put(self, place: Reservation) -> None:
        """Take up a place."""
        if place.start_us < FOREVER:
            self._steps.change(place.start_us, place.end_us, -place.job.chunks)

    def lift(self, place: Reservation, *, since: int = 0) -> None:
        """Give a place up, or what of it lies after an instant."""
        start = max(place.start_us, since)
        if start < place.end_us:
            self._steps.change(start, place.end_us, place.job.chunks)


class NodePlan:
    """A plan of nodes, where jobs ask for different chunks: each place is on certain nodes.

    Finding a place costs O(ends in the plan * nodes * places on a node squared); it is made for
    being right.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._capacities = cluster.capacities()
        self._on: list[list[tuple[Reservation, int]]] = [[] for _ in self._capacities]
        self._ends: dict[int, int] = {}

    def turn_to(self, now: int) -> None:
        """Forget nothing: what ends is lifted."""

    def find(self, job: Job, after: int) -> Reservation:
        """Return the earliest place for a job, on the lowest-numbered nodes; nothing changes."""
        length = planned_length(job)
        for start in sorted({after, *(end for end in self._ends if after < end < FOREVER)}):
            end = min(start + length, FOREVER)
            spans = self._lowest(job, start, end)
            if spans is not None:
                return Reservation(job, start, end, spans)
        return Reservation(job, FOREVER, FOREVER, ())

    def holds(self, shape: Shape, spans: Iterable[Span], start: int, end: int) -> bool:
        """Whether chunks can be on these nodes in [start, end) beside all places."""
        return all(
            self._count(node, shape, start, end) >= chunks
            for first, last, chunks in spans
            for node in range(first, last + 1)
        )

    def put(self, place: Reservation) -> None:
        """Take up a place."""
        for node, chunks in _nodes(place.spans or ()):
            self._on[node].append((place, chunks))
        self._ends[place.end_us] = self._ends.get(place.end_us, 0) + 1

    def lift(self, place: Reservation, *, since: int = 0) -> None:  # noqa: ARG002 - a plan's
        """Give a place up."""
        for node, _ in _nodes(place.spans or ()):
            self._on[node] = [entry for entry in self._on[node] if entry[0] is not place]
        left = self._ends[place.end_us] - 1
        if left:
            self._ends[place.end_us] = left
        else:
            del self._ends[place.end_us]

    def _lowest(self, job: Job, start: int, end: int) -> tuple[Span, ...] | None:
        missing = job.chunks
        chosen = []
        for node in range(len(self._on)):
            count = min(missing, self._count(node, job.shape, start, end))
            if count:
                chosen.append((node, node, count))
                missing -= count
                if not missing:
                    return merged(chosen)
        return None

    def _count(self, node: int, shape: Shape, start: int, end: int) -> int:
        """Return how many chunks of a shape a node takes all through [start, end)."""
        capacity = self._capacities[node]
        beside = [
            (place, chunks)
            for place, chunks in self._on[node]
            if place.start_us < end and start < place.end_us
        ]
        if shape.exclusive:
            enough = all(capacity.get(kind, 0) >= amount for kind, amount in shape.per_chunk)
            return int(enough and not beside)
        if any(place.job.shape.exclusive for place, _ in beside):
            return 0
        # The load is highest at the start or where a place begins.
        instants = {start, *(place.start_us for place, _ in beside if place.start_us > start)}
        return min(_fitting(capacity, shape, _active(beside, at)) for at in instants)


def _nodes(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    for first, last, chunks in spans:
        for node in range(first, last + 1):
            yield node, chunks


def _active(
    places: Sequence[tuple[Reservation, int]], at: int
) -> Iterator[tuple[Reservation, int]]:
    return ((place, chunks) for place, chunks in places if place.start_us <= at < place.end_us)


def _fitting(
    capacity: Mapping[str, int], shape: Shape, places: Iterable[tuple[Reservation, int]]
) -> int:
    """Return how many chunks fit on a node beside those of some places."""
    free = dict(capacity)
    for place, chunks in places:
        for kind, amount in place.job.shape.per_chunk:
            free[kind] -= amount * chunks
    return min(free.get(kind, 0) // amount for kind, amount in shape.per_chunk)
