"""The nodes and what is free on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

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


Span: TypeAlias = tuple[int, int, int]
"""First node, last node, and how many chunks of a job lie on each; a plain tuple, because naming
its parts would take five times as long wherever it is looked at."""

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


_Nodes: TypeAlias = "bytearray | list[int]"
"""A number of a load for each node: bytes as long as these suffice."""


# Compared by identity, and kept: a node's load changes by following a pointer.
class _Load:
    """What is free on a node of which all is free at first; a state of a small automaton.

    Attributes:
        free: Amounts, in the order of kinds.
        capacity: What the node has in all.
        down: The node is out of service; nothing of it is free.
        room: How many chunks of a shape it takes, as far as that was asked.
        steps: The load after so many chunks of a shape more (or fewer, if negative), and the
            (kind, amount) pairs by which its free amounts differ, as far as that was asked.
        number: Stands for it in the list of nodes.
        cell: One node of this load, to be repeated and written: bytes of the kind that nodes are,
            as others would be copied to them by way of these.
    """

    __slots__ = ("capacity", "cell", "down", "free", "number", "room", "steps")

    cell: bytearray | list[int]

    def __init__(
        self,
        number: int,
        free: tuple[int, ...],
        capacity: tuple[int, ...],
        down: bool,  # noqa: FBT001 - as the key of a load has it
    ) -> None:
        self.number = number
        self.free = free
        self.capacity = capacity
        self.down = down
        self.room: dict[_Demand, int] = {}
        self.steps: dict[tuple[_Demand, int], _Step] = {}


_Step: TypeAlias = tuple[_Load, tuple[tuple[int, int], ...]]


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


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A request in the terms of one cluster.

    Attributes:
        total: Amount of each kind it needs at least.
        ever: The empty machine holds it.
    """

    total: tuple[int, ...]
    ever: bool


_BYTES = 256
"""Loads that a byte can tell apart."""

_ALIKE = re.compile(rb"(.)\1*", re.DOTALL)
"""Neighbours of one load, where a byte stands for each."""

_MOST_KEPT = 4096
"""Of anything kept to be found again; a trace may ask for another amount in every line."""


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbouring spans with equally many chunks a node: one spelling per allocation."""
    result: list[Span] = []
    for first, last, chunks in spans:
        if result and result[-1][1] + 1 == first and result[-1][2] == chunks:
            result[-1] = (result[-1][0], last, chunks)
        else:
            result.append((first, last, chunks))
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


class Cluster:
    """Nodes 0 to N-1, each with the number of its load.

    A span is compared, taken and given back at the speed of memory, however many nodes it has,
    as long as they are alike; else a run of alike nodes at a time. A machine of 100,000 nodes is
    100,000 bytes.

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
        self._demands: dict[Shape, _Demand] = {}
        self._asked: dict[tuple[ChunkGroup, ...], Asked] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], bool], _Load] = {}
        # By their numbers; a number that is not in use stands for any load.
        self._loads: list[_Load] = []
        self._unused: list[int] = []
        self._nodes: _Nodes = bytearray()
        self._down_count = 0
        self._empty: list[tuple[int, _Load]] = []
        for group in groups:
            amounts = tuple(group.capacity.get(kind, 0) for kind in self.kinds)
            load = self._load(amounts, amounts)
            self._empty.append((group.count, load))
            self._nodes.extend(load.cell * group.count)
        # The load of every node that is empty, if that is one.
        alike = len({load for _, load in self._empty}) == 1
        self._alike_when_empty = self._empty[0][1] if alike else None
        self.capacity: tuple[int, ...] = tuple(
            sum(count * load.capacity[kind] for count, load in self._empty)
            for kind in range(len(self.kinds))
        )
        self.free = list(self.capacity)
        self.in_service = list(self.capacity)

    def fork(self) -> Cluster:
        """Return a copy that shares nothing that changes; O(nodes + loads)."""
        twin = Cluster.__new__(Cluster)
        twin.__dict__.update(self.__dict__)
        twin._demands = {}
        twin._asked = {}
        twin._loads = [
            _Load(load.number, load.free, load.capacity, load.down) for load in self._loads
        ]
        for load, original in zip(twin._loads, self._loads, strict=True):
            load.cell = original.cell
        twin._known = {key: twin._loads[load.number] for key, load in self._known.items()}
        twin._unused = self._unused.copy()
        twin._nodes = self._nodes.copy()
        twin._empty = [(count, twin._loads[load.number]) for count, load in self._empty]
        if self._alike_when_empty is not None:
            twin._alike_when_empty = twin._empty[0][1]
        twin.free = self.free.copy()
        twin.in_service = self.in_service.copy()
        return twin

    def runs(self) -> Iterator[tuple[int, int, tuple[int, ...], bool]]:
        """Yield (first node, last node, free amount of each kind, down), ascending, each once."""
        for first, behind, load in self._alike(0, self.node_count):
            yield first, behind - 1, load.free, load.down

    def down(self) -> list[tuple[int, int]]:
        """Return the ranges of nodes that are out of service; O(nodes) if there are any."""
        if not self._down_count:
            return []
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
            self._put(((first, last, change),), _OUT_OF_SERVICE, 1)
            self._down_count += change * (last + 1 - first)
        for kind, free in enumerate(before):
            self.in_service[kind] += self.free[kind] - free

    def asked(self, request: tuple[ChunkGroup, ...]) -> Asked:
        """Return a request in the terms of this cluster."""
        return self._asked.get(request) or self._ask(request)

    def total(self, request: tuple[ChunkGroup, ...]) -> tuple[int, ...]:
        """Return how much of each kind the request asks for in all: what it needs at least."""
        return self.asked(request).total

    def place(self, job: Job) -> Allocation:
        """Return the lowest-numbered nodes that hold the job, each filled as far as it goes.

        Raises:
            NoFit: They do not hold it now.
        """
        (group,) = job.request
        demand = self._demand(group.shape)
        missing = group.chunks
        spans: list[Span] = []
        for first, behind, load in self._alike(0, self.node_count):
            room = load.room.get(demand)
            if room is None:
                room = self._room(load, demand)
            if not room:
                continue
            nodes = min(behind - first, missing // room)
            if nodes:
                spans.append((first, first + nodes - 1, room))
                missing -= nodes * room
            if missing and first + nodes < behind:
                spans.append((first + nodes, first + nodes, missing))
                missing = 0
            if not missing:
                return (merged(spans),)
        raise NoFit(job.number, group.chunks, group.chunks - missing)

    def check(self, job: Job, allocation: Allocation) -> None:
        """Find out whether the job can go there now; nothing changes.

        Raises:
            DecisionError: It cannot, with the cause.
        """
        demand, _ = self._check_form(job, allocation)
        for first, last, chunks in allocation[0]:
            self._check_room(demand, first, last, chunks)

    def occupy(self, job: Job, allocation: Allocation) -> Allocation:
        """Put the job where somebody else placed it; return the allocation's one spelling.

        Raises:
            DecisionError: It cannot go there, with the cause; nothing has changed.
        """
        demand, plain = self._check_form(job, allocation)
        spans = allocation[0]
        self._put(spans, demand, 1, proven=False)
        return allocation if plain else (merged(spans),)

    def take(self, job: Job, allocation: Allocation) -> None:
        """Put the job on nodes that were checked or placed just now."""
        (group,), (spans,) = job.request, allocation
        self._put(spans, self._demand(group.shape), 1)

    def release(self, job: Job, allocation: Allocation) -> None:
        """Take the job off the nodes it was put on."""
        (group,), (spans,) = job.request, allocation
        if group.shape.exclusive and self._alike_when_empty is not None:
            self._vacate(spans, self._alike_when_empty)
        else:
            self._put(spans, self._demands.get(group.shape) or self._demand(group.shape), -1)

    def _check_form(self, job: Job, allocation: Allocation) -> tuple[_Demand, bool]:
        """Check an allocation but for room; return what is asked for, and if spans are merged.

        Raises:
            DecisionError: It is none, or none of this job.
        """
        if len(allocation) != len(job.request):
            raise WrongGroupCount(job.number, len(job.request), len(allocation))
        (group,), (spans,) = job.request, allocation
        demand = self._demands.get(group.shape) or self._demand(group.shape)
        plain = True
        given, each, before = 0, None, -1
        for first, last, chunks in spans:
            if first <= before or last < first:
                raise self._mistake(job, demand, spans)
            if chunks != each:
                if chunks < 1 or (chunks > 1 and demand.exclusive):
                    raise self._mistake(job, demand, spans)
                each = chunks
            elif first == before + 1:
                plain = False
            before = last
            given += chunks * (last + 1 - first)
        if before >= self.node_count:
            raise self._mistake(job, demand, spans)
        if given != group.chunks:
            error = TooFewChunks if given < group.chunks else TooManyChunks
            raise error(job.number, group.chunks, given)
        return demand, plain

    def _mistake(self, job: Job, demand: _Demand, spans: Sequence[Span]) -> DecisionError:
        """Return what is wrong with the first span that is no place of a job."""
        before = -1
        for first, last, chunks in spans:
            if chunks < 1 or last < first:
                return MalformedSpan(first, last, chunks)
            if first < 0 or last >= self.node_count:
                return UnknownNode(first if first < 0 else last, self.node_count)
            if first <= before:
                return SpansOutOfOrder(first, before)
            if demand.exclusive and chunks > 1:
                break
            before = last
        return ExclusiveChunks(job.number, chunks)

    def _ask(self, request: tuple[ChunkGroup, ...]) -> Asked:
        (group,) = request
        demand = self._demand(group.shape)
        asked = Asked(
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
            if not self._unused and len(self._loads) >= self._most_loads:
                self._forget()
            if self._unused:
                load = _Load(self._unused.pop(), free, capacity, down)
                self._loads[load.number] = load
            else:
                load = _Load(len(self._loads), free, capacity, down)
                self._loads.append(load)
            load.cell = self._cell(load.number)
            self._known[key] = load
        return load

    @property
    def _most_loads(self) -> int:
        """How many loads have numbers at once."""
        return _BYTES if isinstance(self._nodes, bytearray) else _MOST_KEPT + 2 * self.node_count

    def _cell(self, number: int) -> bytearray | list[int]:
        return bytearray((number,)) if isinstance(self._nodes, bytearray) else [number]

    def _forget(self) -> None:
        """Keep the loads that nodes have now, and nothing of what they could become.

        Where that leaves little room among the bytes, nodes get whole numbers from now on.
        """
        kept = {*self._nodes, *(load.number for _, load in self._empty)}
        for load in self._loads:
            load.room.clear()
            load.steps.clear()
        self._known = {key: load for key, load in self._known.items() if load.number in kept}
        self._unused = [number for number in range(len(self._loads)) if number not in kept]
        if isinstance(self._nodes, bytearray) and len(kept) > _BYTES * 3 // 4:
            self._nodes = list(self._nodes)
            for load in self._loads:
                load.cell = self._cell(load.number)

    def _alike(self, first: int, behind: int) -> Iterator[tuple[int, int, _Load]]:
        """Yield runs of neighbours of one load: first node, the one behind the last, load."""
        nodes, loads = self._nodes[first:behind], self._loads
        if isinstance(nodes, bytearray):
            for match in _ALIKE.finditer(bytes(nodes)):
                begin, end = match.span()
                yield first + begin, first + end, loads[nodes[begin]]
        else:
            end = first
            for number, alike in groupby(nodes):
                begin, end = end, end + sum(1 for _ in alike)
                yield begin, end, loads[number]

    def _room(self, load: _Load, demand: _Demand) -> int:
        if len(load.room) >= _MOST_KEPT:
            load.room.clear()
        room = load.room[demand] = demand.room(load)
        return room

    def _step(self, load: _Load, demand: _Demand, chunks: int) -> _Step:
        free = demand.free_after(load, chunks)
        after = self._load(free, load.capacity, demand is _OUT_OF_SERVICE and chunks > 0)
        change = tuple(
            (kind, new - old)
            for kind, (new, old) in enumerate(zip(free, load.free, strict=True))
            if new != old
        )
        if len(load.steps) >= _MOST_KEPT:
            load.steps.clear()
        step = load.steps[demand, chunks] = after, change
        return step

    def _check_room(self, demand: _Demand, first: int, last: int, chunks: int) -> None:
        for begin, _, load in self._alike(first, last + 1):
            room = load.room.get(demand)
            if room is None:
                room = self._room(load, demand)
            if room < chunks:
                raise self._refusal(begin, load, demand, chunks)

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

    def _put(
        self, spans: Sequence[Span], demand: _Demand, sign: int, *, proven: bool = True
    ) -> None:
        """Put chunks on all nodes of ascending spans, or take them off if *sign* is -1.

        Raises:
            DecisionError: There is no room, as was not *proven*; nothing has changed.
        """
        nodes, loads, free = self._nodes, self._loads, self.free
        # Of the spans before: their load, their chunks a node, and how many nodes they have.
        number = each = -1
        put = 0
        changes: tuple[tuple[int, int], ...] = ()
        for first, last, chunks in spans:
            here = nodes[first]
            if here != number or chunks != each:
                for kind, amount in changes:
                    free[kind] += put * amount
                put = 0
                load = loads[here]
                step = load.steps.get((demand, sign * chunks))
                # A step that was taken before proves that there is room for it.
                if step is None:
                    if not proven:
                        self._prove(spans, demand, first, last, chunks)
                    step = self._step(load, demand, sign * chunks)
                    nodes = self._nodes
                after, changes = step
                number, each, cell, then = here, chunks, load.cell, after.cell
            count = last + 1 - first
            if count == 1:
                nodes[first] = then[0]
            elif nodes[first : last + 1] == cell * count:
                nodes[first : last + 1] = then * count
            else:
                for kind, amount in changes:
                    free[kind] += put * amount
                put, number = 0, -1
                if not proven:
                    self._prove(spans, demand, first, last, chunks)
                self._put_on_each(first, last + 1, demand, sign * chunks)
                nodes = self._nodes
                continue
            put += count
        for kind, amount in changes:
            free[kind] += put * amount

    def _vacate(self, spans: Sequence[Span], empty: _Load) -> None:
        """Give back nodes that were taken whole: what they will be is known without a look."""
        nodes, cell = self._nodes, empty.cell
        count = 0
        for first, last, _ in spans:
            behind = last + 1
            nodes[first:behind] = cell * (behind - first)
            count += behind - first
        for kind, amount in enumerate(empty.free):
            self.free[kind] += count * amount

    def _prove(
        self, spans: Sequence[Span], demand: _Demand, first: int, last: int, chunks: int
    ) -> None:
        """Find out whether there is room on some nodes; else give back the spans before them.

        Raises:
            DecisionError: There is none.
        """
        try:
            self._check_room(demand, first, last, chunks)
        except DecisionError:
            self._put([span for span in spans if span[0] < first], demand, -1)
            raise

    def _put_on_each(self, first: int, behind: int, demand: _Demand, change: int) -> None:
        """Put so many chunks on each node of a range, of whatever loads they are."""
        for begin, end, _ in list(self._alike(first, behind)):
            self._put(((begin, end - 1, 1),), demand, change)
