"""Where a job goes: an allocator answers, and changes nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from parley_client.errors import UnknownName
from parley_client.spans import Span, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_client.cluster import Cluster
    from parley_client.job import Job


class Allocator(Protocol):
    """Chooses nodes for one job; the only method to write for a new one."""

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return where the job would go now, or None if it does not fit.

        It may be asked any number of times, and neither the cluster nor the next answer depends
        on that.
        """
        ...


class FirstFit:
    """The lowest-numbered nodes that hold the job, each filled as far as it goes."""

    name = "first-fit"

    def allocate(self, job: Job, cluster: Cluster) -> Sequence[Span] | None:
        """Return the lowest-numbered nodes; O(nodes scanned)."""
        return cluster.first_fit(job.shape, job.chunks)


class Random:
    """Places drawn without preference from all that are free, seeded.

    Every chunk that would fit somewhere is one place; each set of places is equally likely. The
    draw depends on the seed, the job and what is free, and on nothing else: asking twice gives
    the same answer.
    """

    name = "random"

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


ALLOCATORS: Mapping[str, Callable[[int], Allocator]] = {
    FirstFit.name: lambda seed: FirstFit(),  # noqa: ARG005 - nothing in it is random
    Random.name: Random,
}
"""How to make each allocator from a seed."""


def allocator_named(name: str, *, seed: int = 0) -> Allocator:
    """Return a new allocator.

    Raises:
        UnknownName: There is none of this name; the text says which there are.
    """
    try:
        return ALLOCATORS[name](seed)
    except KeyError:
        raise UnknownName("allocator", name, ALLOCATORS) from None
