"""Where a job goes: an allocator answers, and changes nothing."""

from __future__ import annotations

import random
from inspect import signature
from typing import TYPE_CHECKING, Protocol

from parley_client.errors import UnknownName, WrongUsage
from parley_client.sources import is_path, load_object
from parley_client.spans import Span, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from parley_client.cluster import Cluster, Room
    from parley_client.job import Job


class Allocator(Protocol):
    """Chooses nodes for one job; the only method to write for a new one.

    An allocator may have more: `name`; `fits_by_count = True` if it finds a place wherever
    enough chunks fit, on whatever nodes, which policies with reservations rely on; and a method
    `placed(job, spans)`, which is called when a job was started there.
    """

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return where the job would go now, or None if it does not fit.

        It may be asked any number of times, and neither the cluster nor the next answer depends
        on that.
        """
        ...


class FirstFit:
    """The lowest-numbered nodes that hold the job, each filled as far as it goes.

    Cost: O(runs of usable nodes) for whole nodes, O(nodes used) for shared ones.

    Source: FF in AccaSim, Galleguillos et al., Cluster Computing 23, 2020.
    """

    name = "first-fit"
    fits_by_count = True

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return the lowest-numbered nodes."""
        return cluster.first_fit(job.shape, job.chunks)


class _Ranked:
    """Nodes by the sum of their free amounts, over all resources; ties by number."""

    fits_by_count = True
    _sign = 1

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return the first nodes in that order, each filled as far as it goes."""
        room = cluster.room(job.shape)
        if room.total < job.chunks:
            return None
        if job.shape.exclusive:
            return self._whole(room, job.chunks, cluster)
        free = cluster.free_amount
        usable = [node for node, fits in enumerate(room.usable) if fits]
        usable.sort(key=lambda node: (self._sign * free(node), node))
        return _filled(usable, room, job.chunks)

    def _whole(self, room: Room, chunks: int, cluster: Cluster) -> Sequence[Span]:
        """Return whole nodes: all of a group are alike, so groups are ranked in their place."""
        groups = sorted(
            cluster.empty_amounts(), key=lambda group: (self._sign * group[2], group[0])
        )
        found: list[Span] = []
        # Groups of equal amounts interleave by number, as their nodes do: they follow each other.
        for first, last, _ in groups:
            for span in room.runs(first, last, chunks):
                found.append(span)
                chunks -= span[1] - span[0] + 1
            if not chunks:
                break
        return merged(sorted(found))


class BestFit(_Ranked):
    """The nodes with the least free, over all resources together; ties by number.

    Each is filled as far as it goes, so that jobs are packed and others stay empty.

    Cost: O(usable nodes * log usable nodes); O(runs of usable nodes) for whole nodes.

    Source: BF in AccaSim, Galleguillos et al., Cluster Computing 23, 2020.
    """

    name = "best-fit"


class WorstFit(_Ranked):
    """The nodes with the most free, over all resources together; ties by number.

    Each is filled as far as it goes; jobs keep away from each other.

    Cost: O(usable nodes * log usable nodes); O(runs of usable nodes) for whole nodes.

    Source: the opposite of best fit; Johnson, Near-optimal bin packing algorithms, MIT 1973.
    """

    name = "worst-fit"
    _sign = -1


class NextFit:
    """The next nodes from where the last start ended, and around to the first.

    Each is filled as far as it goes. The search begins behind the last node of the job started
    last, or at that node itself if others may share it; what became of that job since is nothing
    to it.

    Cost: O(runs of usable nodes) for whole nodes, O(nodes used) for shared ones.

    Source: next fit; Johnson, Near-optimal bin packing algorithms, MIT 1973.
    """

    name = "next-fit"
    fits_by_count = True

    def __init__(self) -> None:
        self._next = 0

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return the next nodes from where the last start ended."""
        room = cluster.room(job.shape)
        missing = job.chunks
        if room.total < missing:
            return None
        last = cluster.node_count - 1
        behind = list(_within(room, self._next, last, missing, exclusive=job.shape.exclusive))
        missing -= sum((to - first + 1) * chunks for first, to, chunks in behind)
        if not missing:
            return merged(behind)
        before = _within(room, 0, self._next - 1, missing, exclusive=job.shape.exclusive)
        return merged([*before, *behind])

    def placed(self, job: Job, spans: Sequence[Span]) -> None:
        """Go on where this job ends; what lies before the old mark came last, around the end."""
        around = [last for first, last, _ in spans if first < self._next]
        last = min(max(around), self._next - 1) if around else spans[-1][1]
        self._next = last + 1 if job.shape.exclusive else last


class Random:
    """Places drawn without preference from all that are free, seeded.

    Every chunk that would fit somewhere is one place; each set of places is equally likely. The
    draw depends on the seed, the job and what is free, and on nothing else: asking twice gives
    the same answer.

    Cost: O(nodes + chunks).

    Source: random allocation, the baseline of PReMAS, Bunde and Leung.
    """

    name = "random"
    fits_by_count = True

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return nodes at random; O(usable nodes)."""
        room = cluster.room(job.shape)
        if room.total < job.chunks:
            return None
        nodes = [node for node, usable in enumerate(room.usable) if usable]
        # Not for secrets; a seed of text is the same on every machine.
        draw = random.Random(f"{self._seed}/{job.number}")  # noqa: S311
        counts: dict[int, int] = {}
        for node in draw.sample(nodes, job.chunks, counts=[room.on(node) for node in nodes]):
            counts[node] = counts.get(node, 0) + 1
        return merged((node, node, counts[node]) for node in sorted(counts))


def _filled(nodes: Iterable[int], room: Room, chunks: int) -> tuple[Span, ...]:
    """Return chunks put on nodes in the order given, each filled as far as it goes."""
    placed = []
    for node in nodes:
        count = min(chunks, room.on(node))
        placed.append((node, node, count))
        chunks -= count
        if not chunks:
            break
    return merged(sorted(placed))


def _within(room: Room, first: int, last: int, chunks: int, *, exclusive: bool) -> Iterator[Span]:
    """Yield the lowest usable nodes of a range until chunks are placed or it is full."""
    if exclusive:
        yield from room.runs(first, last, chunks)
        return
    node = room.usable.find(1, first, last + 1)
    while chunks and node >= 0:
        count = min(chunks, room.on(node))
        chunks -= count
        yield node, node, count
        node = room.usable.find(1, node + 1, last + 1)


ALLOCATORS: Mapping[str, type[Allocator]] = {
    allocator.name: allocator for allocator in (FirstFit, BestFit, WorstFit, NextFit, Random)
}


def allocator_named(name: str, *, seed: int = 0) -> Allocator:
    """Return a new allocator by its name, or by where it stands: `./mine.py:MyAllocator`.

    Args:
        name: The name or the path.
        seed: For one that has a parameter `seed`.

    Raises:
        WrongUsage: There is none; the text says which there are.
    """
    if is_path(name):
        made = load_object(name, "allocator")
    elif name in ALLOCATORS:
        made = ALLOCATORS[name]
    else:
        raise UnknownName("allocator", name, ALLOCATORS)
    if not isinstance(made, type):
        raise WrongUsage(f"{name}: an allocator is a class with a method allocate(job, cluster)")
    if not hasattr(made, "allocate"):
        raise WrongUsage(f"{name}: {made.__name__} has no method allocate(job, cluster)")
    allocator: Allocator = made(seed) if "seed" in signature(made).parameters else made()
    return allocator
