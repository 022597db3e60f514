"""The nodes and what is free on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from parley_server.engine.errors import (
    BusyNode,
    ExclusiveChunks,
    MalformedSpan,
    NoFit,
    SpansOutOfOrder,
    TooFewChunks,
    TooManyChunks,
    UnknownNode,
    WrongGroupCount,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from parley_server.engine.job import ChunkGroup, Job, Shape


class Span(NamedTuple):
    """Nodes first to last, each with so many chunks of a job."""

    first: int
    last: int
    chunks: int


Allocation: TypeAlias = tuple[tuple[Span, ...], ...]
"""For each group of a request its spans: ascending, disjoint, merged as far as possible."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one kind, numbered on from those of the groups before.

    Attributes:
        capacity: Amount of each resource on each node, positive.
    """

    name: str
    count: int
    capacity: Mapping[str, int]


class _Load(NamedTuple):
    """What is free on a node, and what the node has in all; amounts in the order of kinds."""

    free: tuple[int, ...]
    capacity: tuple[int, ...]


class _Demand(NamedTuple):
    """A shape in the terms of one cluster.

    Attributes:
        amounts: Per chunk, in the order of kinds.
        asked: The (index, amount) pairs of those that are not zero.
        possible: No resource is asked for that the cluster has never heard of.
    """

    amounts: tuple[int, ...]
    asked: tuple[tuple[int, int], ...]
    exclusive: bool
    possible: bool

    def room(self, load: _Load) -> int:
        """Return how many such chunks a node of this load takes."""
        if not self.possible:
            return 0
        free, capacity = load
        if self.exclusive:
            return int(free == capacity and all(free[kind] >= ask for kind, ask in self.asked))
        return min(free[kind] // ask for kind, ask in self.asked)

    def taken(self, load: _Load, chunks: int) -> _Load:
        """Return the load after so many chunks were put on it."""
        if self.exclusive:
            return _Load((0,) * len(load.free), load.capacity)
        return _Load(
            tuple(
                free - ask * chunks for free, ask in zip(load.free, self.amounts, strict=True)
            ),
            load.capacity,
        )

    def released(self, load: _Load, chunks: int) -> _Load:
        """Return the load after so many chunks were taken off it."""
        if self.exclusive:
            return _Load(load.capacity, load.capacity)
        return self.taken(load, -chunks)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbouring spans with equally many chunks a node: one spelling per allocation."""
    result: list[Span] = []
    for span in spans:
        if result and result[-1].last + 1 == span.first and result[-1].chunks == span.chunks:
            result[-1] = Span(result[-1].first, span.last, span.chunks)
        else:
            result.append(span)
    return tuple(result)


class Cluster:
    """Nodes 0 to N-1 as runs of equally loaded neighbours.

    A take or a release costs the runs it touches, each O(log runs) to find and a shift of two
    lists to split or join; a machine of 100,000 nodes costs nothing before it is fragmented.

    Attributes:
        kinds: Names of all resources, ascending.
        node_count: N.
        free: Total free amount of each kind, in their order.
        capacity: Total amount of each kind, in their order.
    """

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self.kinds: tuple[str, ...] = tuple(sorted({kind for g in groups for kind in g.capacity}))
        self.groups = tuple(groups)
        self.node_count = sum(group.count for group in groups)
        self._firsts: list[int] = []
        self._loads: list[_Load] = []
        first = 0
        for group in groups:
            amounts = tuple(group.capacity.get(kind, 0) for kind in self.kinds)
            self._firsts.append(first)
            self._loads.append(_Load(amounts, amounts))
            first += group.count
        self._firsts.append(self.node_count)
        self._empty = tuple((g.count, load) for g, load in zip(groups, self._loads, strict=True))
        self.capacity: tuple[int, ...] = tuple(
            sum(count * load.capacity[kind] for count, load in self._empty)
            for kind in range(len(self.kinds))
        )
        self.free = list(self.capacity)
        self._demands: dict[Shape, _Demand] = {}
        self._join(0, len(self._loads))

    def fork(self) -> Cluster:
        """Return a copy that shares nothing that changes."""
        twin = Cluster.__new__(Cluster)
        twin.__dict__.update(self.__dict__)
        twin._firsts = self._firsts.copy()
        twin._loads = self._loads.copy()
        twin.free = self.free.copy()
        twin._demands = self._demands.copy()
        return twin

    def runs(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield (first node, last node, free amount of each kind), ascending, all nodes once."""
        for index, load in enumerate(self._loads):
            yield self._firsts[index], self._firsts[index + 1] - 1, load.free

    def could_ever_hold(self, request: Sequence[ChunkGroup]) -> bool:
        """Whether the empty machine holds the request."""
        (group,) = request
        demand = self._demand(group.shape)
        room = sum(count * demand.room(load) for count, load in self._empty)
        return room >= group.chunks

    def total(self, request: Sequence[ChunkGroup]) -> tuple[int, ...]:
        """Return how much of each kind the request asks for in all: what it needs at least."""
        (group,) = request
        return tuple(amount * group.chunks for amount in self._demand(group.shape).amounts)

    def place(self, job: Job) -> Allocation:
        """Return the lowest-numbered nodes that hold the job, each filled as far as it goes.

        Raises:
            NoFit: They do not hold it now.
        """
        (group,) = job.request
        demand = self._demand(group.shape)
        missing = group.chunks
        spans: list[Span] = []
        for index, load in enumerate(self._loads):
            room = demand.room(load)
            if not room:
                continue
            first = self._firsts[index]
            nodes = min(self._firsts[index + 1] - first, missing // room)
            if nodes:
                spans.append(Span(first, first + nodes - 1, room))
                missing -= nodes * room
            if missing and first + nodes < self._firsts[index + 1]:
                spans.append(Span(first + nodes, first + nodes, missing))
                missing = 0
            if not missing:
                return (merged(spans),)
        raise NoFit(job.number, group.chunks, group.chunks - missing)

    def check(self, job: Job, allocation: Allocation) -> None:
        """Find out whether the job can go there now; nothing changes.

        Raises:
            DecisionError: It cannot, with the cause.
        """
        if len(allocation) != len(job.request):
            raise WrongGroupCount(job.number, len(job.request), len(allocation))
        (group,), (spans,) = job.request, allocation
        demand = self._demand(group.shape)
        given = 0
        before = -1
        for first, last, chunks in spans:
            if chunks < 1 or last < first:
                raise MalformedSpan(first, last, chunks)
            if first < 0 or last >= self.node_count:
                raise UnknownNode(first if first < 0 else last, self.node_count)
            if first <= before:
                raise SpansOutOfOrder(first, before)
            if demand.exclusive and chunks != 1:
                raise ExclusiveChunks(job.number, chunks)
            before = last
            given += chunks * (last - first + 1)
        if given < group.chunks:
            raise TooFewChunks(job.number, group.chunks, given)
        if given > group.chunks:
            raise TooManyChunks(job.number, group.chunks, given)
        for first, last, chunks in spans:
            self._check_room(demand, first, last, chunks)

    def take(self, job: Job, allocation: Allocation) -> None:
        """Put the job on nodes that were checked or placed just now."""
        for group, spans in zip(job.request, allocation, strict=True):
            demand = self._demand(group.shape)
            for span in spans:
                self._change(span, demand, taking=True)

    def release(self, job: Job, allocation: Allocation) -> None:
        """Take the job off the nodes it was put on."""
        for group, spans in zip(job.request, allocation, strict=True):
            demand = self._demand(group.shape)
            for span in spans:
                self._change(span, demand, taking=False)

    def _demand(self, shape: Shape) -> _Demand:
        demand = self._demands.get(shape)
        if demand is None:
            per_chunk = dict(shape.per_chunk)
            amounts = tuple(per_chunk.get(kind, 0) for kind in self.kinds)
            demand = _Demand(
                amounts,
                tuple((kind, amount) for kind, amount in enumerate(amounts) if amount),
                shape.exclusive,
                possible=per_chunk.keys() <= set(self.kinds),
            )
            # A trace may ask for another amount of memory in every line.
            if len(self._demands) >= 1024:  # noqa: PLR2004 - any bound will do
                self._demands.clear()
            self._demands[shape] = demand
        return demand

    def _check_room(self, demand: _Demand, first: int, last: int, chunks: int) -> None:
        index = bisect_right(self._firsts, first) - 1
        while self._firsts[index] <= last:
            room = demand.room(self._loads[index])
            if room < chunks:
                raise BusyNode(max(first, self._firsts[index]), chunks, room)
            index += 1

    def _change(self, span: Span, demand: _Demand, *, taking: bool) -> None:
        first, last, chunks = span
        begin, end = self._cut(first), self._cut(last + 1)
        loads, firsts, free = self._loads, self._firsts, self.free
        for index in range(begin, end):
            old = loads[index]
            new = demand.taken(old, chunks) if taking else demand.released(old, chunks)
            loads[index] = new
            nodes = firsts[index + 1] - firsts[index]
            for kind, amount in enumerate(new.free):
                free[kind] += nodes * (amount - old.free[kind])
        self._join(begin, end)

    def _cut(self, node: int) -> int:
        """Let a run begin at *node*; return its index."""
        index = bisect_left(self._firsts, node)
        if self._firsts[index] != node:
            self._firsts.insert(index, node)
            self._loads.insert(index, self._loads[index - 1])
        return index

    def _join(self, begin: int, end: int) -> None:
        """Let no two neighbours be alike from the run before *begin* to the run at *end*."""
        loads = self._loads
        for index in range(min(end, len(loads) - 1), max(begin, 1) - 1, -1):
            if loads[index] == loads[index - 1]:
                del loads[index]
                del self._firsts[index]
