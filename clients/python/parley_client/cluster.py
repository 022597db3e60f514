"""A dispatcher's picture of the nodes, made for being searched."""

from __future__ import annotations

from itertools import accumulate
from operator import gt, sub
from typing import TYPE_CHECKING

from parley_client.spans import Merged, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from parley_client.job import Shape

_MOST_SHAPES = 128
"""Indexes kept; a trace may ask for another amount of memory in every line."""

_MOST_STALE = 512
"""Spans noted for an index that nobody asks for; then it is brought up to date all the same."""


_MANY = 4
"""Nodes from which on it pays to treat those that are alike together."""

# Of the kind they are written to: other bytes would be copied to it by way of these.
_ROOM = bytearray(b"\1")
_NO_ROOM = bytearray(b"\0")


class Room:
    """For one shape, how many chunks of it each node would take now.

    Attributes:
        usable: One byte a node, 1 where at least one chunk fits: finding the next such node is
            one search of memory.
        total: Chunks that fit in all.
        stale: Spans of nodes that other shapes were put on or taken off since anybody asked.
    """

    __slots__ = ("_before", "_counts", "_full", "_full_usable", "stale", "total", "usable")

    def __init__(self, full: list[int]) -> None:
        self._full = full
        # What all nodes before one take when empty: a span costs one subtraction, however long.
        self._before = [0, *accumulate(full)]
        self._full_usable = bytearray(map(bool, full))
        self._counts = full.copy()
        self.usable = self._full_usable.copy()
        self.total = self._before[-1]
        self.stale: list[Span] = []

    def on(self, node: int) -> int:
        """Return how many chunks fit on the node."""
        return self._counts[node] if self.usable[node] else 0

    def lowest(self, chunks: int) -> Merged:
        """Return the lowest nodes that hold chunks for which there is room, each as far as it goes.

        Cost: O(nodes used).
        """
        find, counts = self.usable.find, self._counts
        found: list[Span] = []
        node = find(1)
        begin, after, each = node, node, counts[node]
        while chunks:
            count = counts[node]
            if count > chunks:
                count = chunks
            if node != after or count != each:
                if after > begin:
                    found.append((begin, after - 1, each))
                begin, each = node, count
            chunks -= each
            after = node + 1
            if chunks >= _MANY * each and after + _MANY <= len(counts):
                alike = self._alike(after, each, chunks // each)
                chunks -= alike * each
                after += alike
            node = find(1, after)
        found.append((begin, after - 1, each))
        return Merged(found)

    def _alike(self, node: int, each: int, most: int) -> int:
        """Return how many nodes from one on are known to take exactly *each*, quickly."""
        counts, usable = self._counts, self.usable
        if counts[node + _MANY - 1] != each:
            return 0
        end = usable.find(0, node, node + most)
        if end >= 0:
            most = end - node
        elif node + most > len(counts):
            most = len(counts) - node
        return most if counts[node : node + most] == [each] * most else 0

    def runs(self, first: int, last: int, nodes: int) -> list[Span]:
        """Return the lowest runs of usable nodes of a range, until there are so many nodes."""
        find = self.usable.find
        after = last + 1
        end = first
        found: list[Span] = []
        while nodes:
            begin = find(1, end, after)
            if begin < 0:
                break
            end = find(0, begin, after)
            if end < 0:
                end = after
            if end - begin >= nodes:
                found.append((begin, begin + nodes - 1, 1))
                break
            nodes -= end - begin
            found.append((begin, end - 1, 1))
        return found

    def set(self, node: int, count: int) -> None:
        """Note how many fit on a node that nobody holds exclusively."""
        self.total += count - self.on(node)
        self._counts[node] = count
        self.usable[node] = count > 0

    def restore(self, node: int) -> None:
        """Note that a node is empty."""
        self.set(node, self._full[node])

    def held(self) -> Iterator[int]:
        """Yield how many chunks of this very shape lie on each node, if no other shape does."""
        return map(sub, self._full, self._counts)

    def taken(self) -> Iterator[bool]:
        """Yield for each node whether it is taken whole, as far as this shape can tell."""
        return map(gt, self._full_usable, self.usable)

    def put(self, spans: Sequence[Span], sign: int) -> None:
        """Note that chunks of this very shape came to nodes, or left them if *sign* is -1."""
        counts, usable, total = self._counts, self.usable, self.total
        for first, last, chunks in spans:
            change = sign * chunks
            left = counts[first] - change
            if first == last:
                counts[first] = left
                usable[first] = left > 0
                total -= change
                continue
            behind = last + 1
            count = behind - first
            total -= change * count
            if count >= _MANY and counts[first:behind] == [left + change] * count:
                counts[first:behind] = [left] * count
                usable[first:behind] = (_ROOM if left > 0 else _NO_ROOM) * count
                continue
            for node in range(first, behind):
                left = counts[node] = counts[node] - change
                usable[node] = left > 0
        self.total = total

    def seal(self, spans: Sequence[Span]) -> None:
        """Note that empty nodes were taken whole."""
        usable, before = self.usable, self._before
        total = self.total
        for first, last, _ in spans:
            after = last + 1
            total -= before[after] - before[first]
            usable[first:after] = _NO_ROOM * (after - first)
        self.total = total

    def unseal(self, spans: Sequence[Span]) -> None:
        """Note that nodes that were taken whole are empty again."""
        usable, before, full = self.usable, self._before, self._full_usable
        total = self.total
        for first, last, _ in spans:
            after = last + 1
            total += before[after] - before[first]
            usable[first:after] = full[first:after]
        self.total = total


class Cluster:
    """The nodes of a platform and what is free on them.

    Whole nodes are taken and given back a span at a time, at the speed of memory; chunks that
    share nodes cost O(nodes they touch * shapes known).

    Attributes:
        node_count: Nodes, numbered from 0.
    """

    def __init__(self, groups: Sequence[tuple[int, Mapping[str, int]]]) -> None:
        self.node_count = sum(count for count, _ in groups)
        self._groups = groups
        kinds = {kind for _, capacity in groups for kind in capacity}
        self._free: dict[str, list[int]] = {
            kind: [capacity.get(kind, 0) for count, capacity in groups for _ in range(count)]
            for kind in sorted(kinds)
        }
        self._chunks = [0] * self.node_count
        self._sealed = bytearray(self.node_count)
        self._down = bytearray(self.node_count)
        self._kinds = tuple(self._free)
        self._rooms: dict[Shape, Room] = {}
        # The index of the only shape there has been so far: it says it all, and what is free,
        # how many chunks lie on each node and which are taken whole is made of it when asked.
        self._alone: Room | None = None
        self._untouched = True

    def available(self, shape: Shape) -> int:
        """Return how many chunks of a shape fit now, on all nodes together."""
        return self.room(shape).total

    def fits(self, shape: Shape, chunks: int) -> bool:
        """Whether so many chunks of a shape fit now."""
        return self.room(shape).total >= chunks

    def room(self, shape: Shape) -> Room:
        """Return the node-by-node index of a shape, to be read only."""
        room = self._rooms.get(shape)
        if room is None:
            self._spread()
            if len(self._rooms) >= _MOST_SHAPES:
                del self._rooms[next(iter(self._rooms))]
            room = self._rooms[shape] = self._index(shape)
            if self._untouched:
                self._alone = room
            self._untouched = False
        elif room.stale:
            self._refresh(room, shape)
        return room

    def first_fit(self, shape: Shape, chunks: int) -> tuple[Span, ...] | None:
        """Return the lowest-numbered nodes that hold the chunks, or None; nothing changes."""
        room = self.room(shape)
        if room.total < chunks:
            return None
        if shape.exclusive:
            return Merged(room.runs(0, self.node_count - 1, chunks))
        if chunks == 1:
            node = room.usable.find(1)
            return Merged(((node, node, 1),))
        return room.lowest(chunks)

    def kinds_of_nodes(self, shape: Shape) -> tuple[bool, ...]:
        """Return for each group of nodes whether an empty one takes a chunk of a shape."""
        return tuple(_most(shape, capacity) > 0 for _, capacity in self._groups)

    def capacities(self) -> list[Mapping[str, int]]:
        """Return what each node has when it is empty: nothing where it is out of service."""
        all_nodes = [capacity for count, capacity in self._groups for _ in range(count)]
        return [{} if down else node for node, down in zip(all_nodes, self._down, strict=True)]

    def free_amount(self, node: int) -> int:
        """Return the sum of what is free on a node, over all resources."""
        self._spread()
        if self._sealed[node]:
            return 0
        return sum(free[node] for free in self._free.values())

    def empty_amounts(self) -> list[tuple[int, int, int]]:
        """Return (first node, last node, sum of all resources of one of them) for each group."""
        amounts, first = [], 0
        for count, capacity in self._groups:
            amounts.append((first, first + count - 1, sum(capacity.values())))
            first += count
        return amounts

    def fork(self) -> Cluster:
        """Return a copy that shares nothing that changes; O(nodes * resources)."""
        self._spread()
        twin = Cluster.__new__(Cluster)
        twin.node_count, twin._groups = self.node_count, self._groups
        twin._free = {kind: free.copy() for kind, free in self._free.items()}
        twin._chunks = self._chunks.copy()
        twin._sealed = self._sealed.copy()
        twin._down = self._down.copy()
        twin._kinds = self._kinds
        twin._rooms = {}
        twin._alone, twin._untouched = None, False
        return twin

    def take(self, shape: Shape, spans: Sequence[Span]) -> None:
        """Put chunks on nodes that have room for them."""
        alone = self._alone
        if alone is not None and shape.exclusive and self._rooms.get(shape) is alone:
            alone.seal(spans)
        elif shape.exclusive:
            self._seal(spans)
        else:
            self._put(shape, spans, 1)

    def release(self, shape: Shape, spans: Sequence[Span]) -> None:
        """Take chunks off the nodes that hold them."""
        alone = self._alone
        if alone is not None and shape.exclusive and self._rooms.get(shape) is alone:
            alone.unseal(spans)
        elif shape.exclusive:
            self._unseal(spans)
        else:
            self._put(shape, spans, -1)

    def go_down(self, first: int, last: int) -> None:
        """Take nodes on which nothing runs out of service."""
        self._down[first : last + 1] = b"\1" * (last + 1 - first)
        self._seal(((first, last, 1),))

    def come_up(self, first: int, last: int) -> None:
        """Return nodes to service, empty."""
        self._down[first : last + 1] = bytes(last + 1 - first)
        self._unseal(((first, last, 1),))

    def down(self) -> list[tuple[int, int]]:
        """Return the ranges of nodes that are out of service, ascending."""
        ranges: list[tuple[int, int]] = []
        first = self._down.find(1)
        while first >= 0:
            end = self._down.find(0, first)
            end = self.node_count if end < 0 else end
            ranges.append((first, end - 1))
            first = self._down.find(1, end)
        return ranges

    def free(self) -> dict[str, int]:
        """Return what is free of each resource in all; O(nodes)."""
        self._spread()
        sealed = self._sealed
        return {
            kind: sum(
                amount for amount, taken in zip(self._free[kind], sealed, strict=True) if not taken
            )
            for kind in self._kinds
        }

    def _seal(self, spans: Sequence[Span]) -> None:
        self._spread()
        self._untouched = False
        for first, last, _ in spans:
            self._sealed[first : last + 1] = b"\1" * (last + 1 - first)
        for shape, room in self._rooms.items():
            if room.stale:
                self._refresh(room, shape)
            room.seal(spans)

    def _unseal(self, spans: Sequence[Span]) -> None:
        self._spread()
        for first, last, _ in spans:
            self._sealed[first : last + 1] = bytes(last + 1 - first)
        for shape, room in self._rooms.items():
            if room.stale:
                self._refresh(room, shape)
            room.unseal(spans)

    def _put(self, shape: Shape, spans: Sequence[Span], sign: int) -> None:
        """Put chunks that share their nodes on them, or take them off if *sign* is -1."""
        alone = self._alone
        if alone is not None and self._rooms.get(shape) is alone:
            alone.put(spans, sign)
            return
        self._spread()
        self._untouched = False
        held = self._chunks
        amounts = [(self._free[kind], amount) for kind, amount in shape.per_chunk]
        for first, last, chunks in spans:
            change = sign * chunks
            for node in range(first, last + 1):
                held[node] += change
                for free, amount in amounts:
                    free[node] -= amount * change
        for known, room in self._rooms.items():
            if known is shape and not room.stale:
                # It takes so many chunks less: the one count that needs no division. Counts that
                # are out of date cannot be led on, the total would lose what they are short of.
                room.put(spans, sign)
            else:
                room.stale += spans
                if len(room.stale) > _MOST_STALE:
                    self._refresh(room, known)

    def _spread(self) -> None:
        """Write down what the only shape says of each node: from now on others may come."""
        alone, self._alone = self._alone, None
        if alone is None:
            return
        (shape,) = self._rooms
        if shape.exclusive:
            for node, taken in enumerate(alone.taken()):
                if taken:
                    self._sealed[node] = 1
            return
        amounts = [(self._free[kind], amount) for kind, amount in shape.per_chunk]
        for node, chunks in enumerate(alone.held()):
            self._chunks[node] = chunks
            for free, amount in amounts:
                free[node] -= amount * chunks

    def _refresh(self, room: Room, shape: Shape) -> None:
        """Count anew on the nodes that other shapes were put on or taken off."""
        for first, last, _ in room.stale:
            for node in range(first, last + 1):
                if not self._chunks[node]:
                    room.restore(node)
                else:
                    room.set(node, 0 if shape.exclusive else self._count(shape, node))
        room.stale.clear()

    def _count(self, shape: Shape, node: int) -> int:
        return min(self._free[kind][node] // amount for kind, amount in shape.per_chunk)

    def _index(self, shape: Shape) -> Room:
        for kind, _ in shape.per_chunk:
            # A resource that no node has; nothing of the shape ever fits.
            self._free.setdefault(kind, [0] * self.node_count)
        full: list[int] = []
        for count, capacity in self._groups:
            full += [_most(shape, capacity)] * count
        room = Room(full)
        for node in range(self.node_count):
            if self._sealed[node]:
                room.seal(((node, node, 1),))
            elif self._chunks[node]:
                room.set(node, 0 if shape.exclusive else self._count(shape, node))
        return room


def _most(shape: Shape, capacity: Mapping[str, int]) -> int:
    """Return how many chunks an empty node takes."""
    if shape.exclusive:
        return int(all(capacity.get(kind, 0) >= amount for kind, amount in shape.per_chunk))
    return min(capacity.get(kind, 0) // amount for kind, amount in shape.per_chunk)
