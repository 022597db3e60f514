"""The nodes and what is free on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from parley_server.engine.errors import (
    BusyNode,
    DecisionError,
    ExclusiveChunks,
    MalformedSpan,
    NodeIsDown,
    NoFit,
    OutsidePartition,
    SpansOutOfOrder,
    TooFewChunks,
    TooManyChunks,
    UnknownNode,
    UnmetConstraint,
    WrongGroupCount,
)
from parley_server.markers import ATTRIBUTE, PARTITION

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


# Compared by identity, and kept: a run's load changes by following a pointer.
class _Load:
    """What is free on a node of which all is free at first; a state of a small automaton.

    Attributes:
        free: Amounts, in the order of kinds.
        capacity: What the node has in all.
        room: How many chunks of a shape it takes, as far as that was asked.
        steps: The load after so many chunks of a shape more (or fewer, if negative), and the
            (kind, amount) pairs by which its free amounts differ, as far as that was asked.
        down: The node is out of service; nothing of it is free.
    """

    __slots__ = ("capacity", "down", "free", "room", "steps")

    def __init__(self, free: tuple[int, ...], capacity: tuple[int, ...], down: bool) -> None:  # noqa: FBT001
        self.free = free
        self.capacity = capacity
        self.down = down
        self.room: dict[_Demand, int] = {}
        self.steps: dict[tuple[_Demand, int], tuple[_Load, tuple[tuple[int, int], ...]]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class _Demand:
    """A shape in the terms of one cluster.

    Attributes:
        amounts: Per chunk, in the order of kinds.
        possible: No resource is asked for that the cluster has never heard of.
    """

    amounts: tuple[int, ...]
    exclusive: bool
    possible: bool

    def room(self, load: _Load) -> int:
        """Return how many such chunks a node of this load takes."""
        if not self.possible or load.down:
            return 0
        pairs = tuple(zip(load.free, self.amounts, strict=True))
        if self.exclusive:
            return int(load.free == load.capacity and all(free >= ask for free, ask in pairs))
        return min(free // ask for free, ask in pairs if ask)

    def free_after(self, load: _Load, chunks: int) -> tuple[int, ...]:
        """Return what is free after so many chunks came (or went, if negative)."""
        if self.exclusive:
            return load.capacity if chunks < 0 else (0,) * len(load.free)
        return tuple(free - ask * chunks for free, ask in zip(load.free, self.amounts, strict=True))


_OUT_OF_SERVICE = _Demand((), exclusive=True, possible=False)
"""What a node that is down bears in the place of chunks: one takes it out, minus one ends that."""


class _Asked(NamedTuple):
    """A request in the terms of one cluster.

    Attributes:
        total: Amount of each kind it needs at least.
        ever: The empty machine holds it.
    """

    total: tuple[int, ...]
    ever: bool


_WORTH_REWRITING = 3
"""Spans of one allocation from which on their runs are written anew, not changed one by one."""

_MOST_KEPT = 4096
"""Of anything kept to be found again; a trace may ask for another amount in every line."""


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbouring spans with equally many chunks a node: one spelling per allocation."""
    result: list[Span] = []
    for span in spans:
        if result and result[-1].last + 1 == span.first and result[-1].chunks == span.chunks:
            result[-1] = Span(result[-1].first, span.last, span.chunks)
        else:
            result.append(span)
    return tuple(result)


_Range: TypeAlias = tuple[int, int]


def _joined(ranges: Iterable[_Range]) -> list[_Range]:
    """Join ascending ranges that touch."""
    result: list[_Range] = []
    for first, last in ranges:
        if result and result[-1][1] + 1 >= first:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


class _Runs:
    """Runs that are being written: neighbours that are alike are one."""

    __slots__ = ("firsts", "loads")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.loads: list[_Load] = []

    def add(self, first: int, load: _Load) -> None:
        """Nodes from *first* to that of the next call are of a load."""
        if not self.loads or self.loads[-1] is not load:
            self.firsts.append(first)
            self.loads.append(load)


class Cluster:
    """Nodes 0 to N-1 as runs of equally loaded neighbours.

    A take or a release costs the runs it touches, each O(log runs) to find and a shift of two
    lists to split or join; a machine of 100,000 nodes costs nothing before it is fragmented.

    Attributes:
        kinds: Names of all resources, ascending.
        node_count: N.
        free: Total free amount of each kind, in their order.
        capacity: Total amount of each kind, in their order.
        in_service: The same, of the nodes that are up.
    """

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self.kinds: tuple[str, ...] = tuple(sorted({kind for g in groups for kind in g.capacity}))
        self.groups = tuple(groups)
        self.node_count = sum(group.count for group in groups)
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], bool], _Load] = {}
        self._demands: dict[Shape, _Demand] = {}
        self._asked: dict[tuple[ChunkGroup, ...], _Asked] = {}
        self._firsts: list[int] = []
        self._loads: list[_Load] = []
        empty: list[tuple[int, _Load]] = []
        first = 0
        for group in groups:
            amounts = tuple(group.capacity.get(kind, 0) for kind in self.kinds)
            load = self._load(amounts, amounts)
            empty.append((group.count, load))
            if not self._loads or self._loads[-1] is not load:
                self._firsts.append(first)
                self._loads.append(load)
            first += group.count
        self._firsts.append(self.node_count)
        self._empty = tuple(empty)
        self.capacity: tuple[int, ...] = tuple(
            sum(count * load.capacity[kind] for count, load in empty)
            for kind in range(len(self.kinds))
        )
        self.free = list(self.capacity)
        self.in_service = list(self.capacity)

    def fork(self) -> Cluster:
        """Return a copy that shares nothing that changes."""
        twin = Cluster.__new__(Cluster)
        twin.__dict__.update(self.__dict__)
        twin._known = {}
        twin._demands = {}
        twin._asked = {}
        twin._firsts = self._firsts.copy()
        twin._loads = [twin._load(load.free, load.capacity, load.down) for load in self._loads]
        twin._empty = tuple(
            (count, twin._load(load.free, load.capacity)) for count, load in self._empty
        )
        twin.free = self.free.copy()
        twin.in_service = self.in_service.copy()
        return twin

    def runs(self) -> Iterator[tuple[int, int, tuple[int, ...], bool]]:
        """Yield (first node, last node, free amount of each kind, down), ascending, each once."""
        for index, load in enumerate(self._loads):
            yield self._firsts[index], self._firsts[index + 1] - 1, load.free, load.down

    def down(self) -> list[tuple[int, int]]:
        """Return the ranges of nodes that are out of service; O(runs)."""
        return _joined((first, last) for first, last, _, down in self.runs() if down)

    def other_than(self, ranges: Iterable[tuple[int, int]], *, down: bool) -> tuple[_Range, ...]:
        """Return those among the nodes of *ranges* that are not (or not any more) *down*."""
        return tuple(
            _joined(
                (max(first, begin), min(last, end))
                for first, last in ranges
                for begin, end, _, is_down in self.runs()
                if is_down is not down and begin <= last and first <= end
            )
        )

    def take_out(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take empty nodes that are up out of service."""
        self._serve(ranges, 1)

    def bring_back(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Return nodes that are down to service."""
        self._serve(ranges, -1)

    def _serve(self, ranges: Iterable[tuple[int, int]], change: int) -> None:
        before = self.free.copy()
        for first, last in ranges:
            self._change(first, last, _OUT_OF_SERVICE, change)
        for kind, free in enumerate(before):
            self.in_service[kind] += self.free[kind] - free

    def could_ever_hold(self, request: tuple[ChunkGroup, ...]) -> bool:
        """Whether the empty machine holds the request."""
        return (self._asked.get(request) or self._ask(request)).ever

    def total(self, request: tuple[ChunkGroup, ...]) -> tuple[int, ...]:
        """Return how much of each kind the request asks for in all: what it needs at least."""
        return (self._asked.get(request) or self._ask(request)).total

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
            room = load.room.get(demand)
            if room is None:
                room = self._room(load, demand)
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
        firsts, loads = self._firsts, self._loads
        for first, last, chunks in spans:
            index = bisect_right(firsts, first) - 1
            # Mostly a span lies in one run, of a load that such a chunk was tried on before.
            if last >= firsts[index + 1] or loads[index].room.get(demand, 0) < chunks:
                self._check_room(demand, first, last, chunks)

    def take(self, job: Job, allocation: Allocation) -> None:
        """Put the job on nodes that were checked or placed just now."""
        for group, spans in zip(job.request, allocation, strict=True):
            self._change_all(spans, self._demand(group.shape), 1)

    def release(self, job: Job, allocation: Allocation) -> None:
        """Take the job off the nodes it was put on."""
        for group, spans in zip(job.request, allocation, strict=True):
            self._change_all(spans, self._demand(group.shape), -1)

    def _ask(self, request: tuple[ChunkGroup, ...]) -> _Asked:
        (group,) = request
        demand = self._demand(group.shape)
        asked = _Asked(
            tuple(amount * group.chunks for amount in demand.amounts),
            sum(count * demand.room(load) for count, load in self._empty) >= group.chunks,
        )
        if len(self._asked) >= _MOST_KEPT:
            self._asked.clear()
        self._asked[request] = asked
        return asked

    def _demand(self, shape: Shape) -> _Demand:
        demand = self._demands.get(shape)
        if demand is None:
            per_chunk = dict(shape.per_chunk)
            demand = _Demand(
                tuple(per_chunk.get(kind, 0) for kind in self.kinds),
                shape.exclusive,
                possible=per_chunk.keys() <= set(self.kinds),
            )
            if len(self._demands) >= _MOST_KEPT:
                self._demands.clear()
            self._demands[shape] = demand
        return demand

    def _load(
        self,
        free: tuple[int, ...],
        capacity: tuple[int, ...],
        down: bool = False,  # noqa: FBT001, FBT002 - as the key has it
    ) -> _Load:
        """Return the one object of a load: loads are alike if they are the same."""
        key = (free, capacity, down)
        load = self._known.get(key)
        if load is None:
            if len(self._known) >= _MOST_KEPT:
                self._forget()
            load = self._known[key] = _Load(free, capacity, down)
        return load

    def _forget(self) -> None:
        """Keep the loads that nodes have now, and nothing of what they could become."""
        kept = {*self._loads, *(load for _, load in self._empty)}
        for load in kept:
            load.room.clear()
            load.steps.clear()
        self._known = {(load.free, load.capacity, load.down): load for load in kept}

    def _room(self, load: _Load, demand: _Demand) -> int:
        if len(load.room) >= _MOST_KEPT:
            load.room.clear()
        room = load.room[demand] = demand.room(load)
        return room

    def _step(
        self, load: _Load, demand: _Demand, chunks: int
    ) -> tuple[_Load, tuple[tuple[int, int], ...]]:
        free = demand.free_after(load, chunks)
        after = self._load(free, load.capacity, demand is _OUT_OF_SERVICE and chunks > 0)
        change = tuple(
            (kind, new - old)
            for kind, (new, old) in enumerate(zip(free, load.free, strict=True))
            if new != old
        )
        if len(load.steps) >= _MOST_KEPT:
            load.steps.clear()
        load.steps[demand, chunks] = after, change
        return after, change

    def _check_room(self, demand: _Demand, first: int, last: int, chunks: int) -> None:
        index = bisect_right(self._firsts, first) - 1
        while self._firsts[index] <= last:
            load = self._loads[index]
            room = load.room.get(demand)
            if room is None:
                room = self._room(load, demand)
            if room < chunks:
                raise self._refusal(max(first, self._firsts[index]), load, demand, chunks)
            index += 1

    def _refusal(self, node: int, load: _Load, demand: _Demand, chunks: int) -> DecisionError:
        """Return why a node has no room: it is down, where the job may not go, or busy."""
        if load.down:
            return NodeIsDown(node)
        for kind, amount, capacity in zip(self.kinds, demand.amounts, load.capacity, strict=True):
            if amount and not capacity:
                if kind.startswith(PARTITION):
                    return OutsidePartition(node, kind.removeprefix(PARTITION))
                if kind.startswith(ATTRIBUTE):
                    return UnmetConstraint(node, kind.removeprefix(ATTRIBUTE))
        return BusyNode(node, chunks, load.room[demand])

    def _change_all(self, spans: Sequence[Span], demand: _Demand, sign: int) -> None:
        """Put chunks on all nodes of an allocation, or take them off if *sign* is -1."""
        if len(spans) >= _WORTH_REWRITING:
            firsts = self._firsts
            begin = bisect_right(firsts, spans[0].first) - 1
            end = bisect_left(firsts, spans[-1].last + 1, begin)
            # The lowest free nodes, which are most asked for, leave little between them.
            if end - begin <= 4 * len(spans):
                self._rewrite(begin, end, spans, demand, sign)
                return
        for first, last, chunks in spans:
            self._change(first, last, demand, sign * chunks)

    def _rewrite(
        self, begin: int, end: int, spans: Sequence[Span], demand: _Demand, sign: int
    ) -> None:
        """Do so where all spans lie in the runs from *begin* to before *end*: make these anew."""
        firsts, loads, free = self._firsts, self._loads, self.free
        runs = _Runs()
        index, at = begin, firsts[begin]
        for first, last, chunks in spans:
            while firsts[index + 1] <= first:
                runs.add(at, loads[index])
                index += 1
                at = firsts[index]
            if at < first:
                runs.add(at, loads[index])
                at = first
            while at <= last:
                load = loads[index]
                step = load.steps.get((demand, sign * chunks)) or self._step(
                    load, demand, sign * chunks
                )
                runs.add(at, step[0])
                behind = firsts[index + 1]
                after = last + 1 if last < behind else behind
                for kind, amount in step[1]:
                    free[kind] += (after - at) * amount
                at = after
                if at == behind:
                    index += 1
        if at < firsts[end]:
            # All that is left of the last run that was touched: the others end with a span.
            runs.add(at, loads[index])
        skipped = int(begin > 0 and loads[begin - 1] is runs.loads[0])
        joined = int(end < len(loads) and loads[end] is runs.loads[-1])
        firsts[begin : end + joined] = runs.firsts[skipped:]
        loads[begin : end + joined] = runs.loads[skipped:]

    def _change(self, first: int, last: int, demand: _Demand, chunks: int) -> None:
        """Put so many chunks on each node of a span, or take them off if negative."""
        loads, firsts, free = self._loads, self._firsts, self.free
        index = bisect_right(firsts, first) - 1
        if last < firsts[index + 1]:
            # So it is for every whole node, whose neighbours are free with it or taken with it.
            self._change_within(index, first, last + 1, demand, chunks)
            return
        begin = bisect_left(firsts, first)
        if firsts[begin] != first:
            firsts.insert(begin, first)
            loads.insert(begin, loads[begin - 1])
        end = bisect_left(firsts, last + 1, begin)
        if firsts[end] != last + 1:
            firsts.insert(end, last + 1)
            loads.insert(end, loads[end - 1])
        for index in range(begin, end):
            load = loads[index]
            step = load.steps.get((demand, chunks)) or self._step(load, demand, chunks)
            loads[index] = step[0]
            nodes = firsts[index + 1] - firsts[index]
            for kind, amount in step[1]:
                free[kind] += nodes * amount
        # Neighbours that are alike now are one run; backwards, as runs disappear on the way.
        index = end if end < len(loads) else end - 1
        while index >= begin and index:
            if loads[index] is loads[index - 1]:
                del loads[index]
                del firsts[index]
            index -= 1

    def _change_within(
        self, index: int, first: int, behind: int, demand: _Demand, chunks: int
    ) -> None:
        """Change the nodes from *first* to before *behind*, all in one run: move its borders."""
        loads, firsts = self._loads, self._firsts
        load = loads[index]
        after, change = load.steps.get((demand, chunks)) or self._step(load, demand, chunks)
        if after is load:
            return
        for kind, amount in change:
            self.free[kind] += (behind - first) * amount
        right = index + 1
        joins_right = firsts[right] == behind and right < len(loads) and loads[right] is after
        if firsts[index] == first:
            joins_left = index and loads[index - 1] is after
            if firsts[right] == behind:
                if joins_right:
                    del loads[index], firsts[right]
                else:
                    loads[index] = after
                if joins_left:
                    del loads[index], firsts[index]
            elif joins_left:
                firsts[index] = behind
            else:
                loads.insert(index, after)
                firsts.insert(right, behind)
        elif joins_right:
            firsts[right] = first
        elif firsts[right] == behind:
            loads.insert(right, after)
            firsts.insert(right, first)
        else:
            loads[right:right] = (after, load)
            firsts[right:right] = (first, behind)
