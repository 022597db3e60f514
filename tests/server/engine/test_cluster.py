"""The cluster against a plain count node by node."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_server.engine import ChunkGroup, Cluster, Job, NodeGroup, Shape
from parley_server.engine import cluster as module
from parley_server.engine.errors import DecisionError, NoFit
from tests.strategies import SHAPES, machines


def job(chunks: int, shape: Shape) -> Job:
    return Job(0, "j", 0, 1, 1, (ChunkGroup(chunks, shape),))


class Plain:
    """The same cluster without any cleverness: a dictionary a node."""

    def __init__(self, groups):
        self.capacity = [dict(group.capacity) for group in groups for _ in range(group.count)]
        self.free = [dict(capacity) for capacity in self.capacity]

    def room(self, node, shape):
        free, capacity = self.free[node], self.capacity[node]
        if shape.exclusive:
            return int(free == capacity and all(free.get(k, 0) >= a for k, a in shape.per_chunk))
        return min(free.get(kind, 0) // amount for kind, amount in shape.per_chunk)

    def place(self, chunks, shape):
        """Fill the lowest nodes one after the other; None if it does not fit."""
        placed = []
        for node in range(len(self.free)):
            count = min(chunks, self.room(node, shape))
            chunks -= count
            if count:
                placed.append((node, count))
        return None if chunks else placed

    def change(self, placed, shape, sign):
        for node, count in placed:
            if shape.exclusive:
                capacity = self.capacity[node]
                self.free[node] = dict(capacity) if sign > 0 else dict.fromkeys(capacity, 0)
            else:
                for kind, amount in shape.per_chunk:
                    self.free[node][kind] += sign * amount * count


def by_node(spans) -> list[tuple[int, int]]:
    return [(node, chunks) for first, last, chunks in spans for node in range(first, last + 1)]


steps = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.integers(1, 8), st.integers(0, 10)), max_size=30
)


@given(groups=machines(), steps=steps)
def test_placing_and_releasing_agree_with_a_plain_count(groups, steps):
    cluster, plain, held = Cluster(groups), Plain(groups), []
    for shape, chunks, which in steps:
        if which < len(held):
            other, allocation = held.pop(which)
            cluster.release(other, allocation)
            plain.change(by_node(allocation[0]), other.request[0].shape, 1)
        asked = job(chunks, shape)
        expected = plain.place(chunks, shape)
        try:
            allocation = cluster.place(asked)
        except NoFit:
            assert expected is None
        else:
            assert by_node(allocation[0]) == expected
            cluster.check(asked, allocation)
            cluster.take(asked, allocation)
            plain.change(expected, shape, -1)
            held.append((asked, allocation))
        seen = [
            dict(zip(cluster.kinds, free, strict=True))
            for first, last, free, _ in cluster.runs()
            for _ in range(first, last + 1)
        ]
        assert seen == [{kind: free.get(kind, 0) for kind in cluster.kinds} for free in plain.free]


@given(groups=machines(), steps=steps)
def test_runs_are_maximal_and_spans_are_merged(groups, steps):
    cluster = Cluster(groups)
    for shape, chunks, _ in steps:
        asked = job(chunks, shape)
        try:
            allocation = cluster.place(asked)
        except NoFit:
            continue
        cluster.take(asked, allocation)
        spans = allocation[0]
        assert all(
            last + 1 < first or before != chunks
            for (_, last, before), (first, _, chunks) in itertools.pairwise(spans)
        )
    loads = [load for _, _, load in cluster._alike(0, cluster.node_count)]

    assert all(left is not right for left, right in itertools.pairwise(loads))


@given(
    groups=machines(),
    shape=st.sampled_from(SHAPES),
    chunks=st.integers(1, 6),
    spans=st.lists(
        st.tuples(st.integers(-1, 12), st.integers(-1, 12), st.integers(-1, 3)), max_size=4
    ),
)
def test_an_allocation_passes_exactly_if_every_node_has_room_for_it(groups, shape, chunks, spans):
    cluster, plain = Cluster(groups), Plain(groups)
    allocation = (tuple(tuple(span) for span in spans),)
    count = cluster.node_count
    ordered = all(0 <= first <= last < count and chunk > 0 for first, last, chunk in spans) and all(
        left[1] < right[0] for left, right in itertools.pairwise(spans)
    )
    possible = (
        ordered
        and sum(chunk for _, chunk in by_node(spans)) == chunks
        and all(plain.room(node, shape) >= chunk for node, chunk in by_node(spans))
        and (not shape.exclusive or all(chunk == 1 for *_, chunk in spans))
    )
    try:
        cluster.check(job(chunks, shape), allocation)
    except DecisionError:
        passed = False
    else:
        passed = True

    assert passed == possible


@given(groups=machines(), steps=steps)
def test_what_a_fork_takes_the_original_still_has(groups, steps):
    cluster = Cluster(groups)
    before = list(cluster.runs())
    twin = cluster.fork()
    for shape, chunks, _ in steps:
        asked = job(chunks, shape)
        try:
            twin.take(asked, twin.place(asked))
        except NoFit:
            continue

    assert list(cluster.runs()) == before


def test_a_hundred_thousand_nodes_are_one_run():
    cluster = Cluster([NodeGroup("n", 100_000, {"core": 1})])
    whole = job(100_000, SHAPES[0])
    cluster.take(whole, cluster.place(whole))

    assert list(cluster.runs()) == [(0, 99_999, (0,), False)]


def test_memory_of_any_amount_does_not_fill_the_memory():
    cluster = Cluster([NodeGroup("n", 2, {"core": 4, "memory": 10**9})])
    for amount in range(1, 12_000):
        asked = job(1, Shape.of({"core": 1, "memory": amount}, exclusive=False))
        allocation = cluster.place(asked)
        cluster.take(asked, allocation)
        cluster.release(asked, allocation)

    assert len(cluster._known) <= 4096
    assert all(len(load.steps) <= 4096 for load in cluster._known.values())
    assert list(cluster.runs()) == [(0, 1, (4, 10**9), False)]


def told_apart(patch, groups, steps, *, loads):
    """Carry out steps where a byte tells so many loads apart."""
    patch.setattr(module, "_BYTES", loads)
    cluster, held = Cluster(groups), []
    for shape, chunks, which in steps:
        if which < len(held):
            cluster.release(*held.pop(which))
        asked = job(chunks, shape)
        with contextlib.suppress(NoFit):
            allocation = cluster.place(asked)
            cluster.check(asked, allocation)
            assert cluster.occupy(asked, allocation) == allocation
            held.append((asked, allocation))
    return list(cluster.runs()), list(cluster.free), list(cluster.fork().runs())


@given(groups=machines(), steps=steps, few=st.integers(1, 8))
def test_runs_are_the_same_however_many_loads_a_byte_tells_apart(groups, steps, few):
    with pytest.MonkeyPatch.context() as patch:
        enough = told_apart(patch, groups, steps, loads=256)
        too_few = told_apart(patch, groups, steps, loads=few)

    assert enough == too_few


def test_more_loads_than_a_byte_tells_apart_are_told_apart():
    cluster = Cluster([NodeGroup("n", 700, {"memory": 1000})])
    for node in range(700):
        asked = job(1, Shape.of({"memory": node + 1}, exclusive=False))
        cluster.occupy(asked, (((node, node, 1),),))

    assert [free for _, _, (free,), _ in cluster.runs()] == list(range(999, 299, -1))


@given(
    sizes=st.lists(st.integers(1, 3), min_size=12, max_size=20),
    gone=st.sets(st.integers(0, 19), min_size=4),
)
def test_a_job_that_takes_every_gap_and_leaves_them_again_changes_nothing(sizes, gone):
    shape = Shape.of({"core": 1}, exclusive=True)
    cluster = Cluster([NodeGroup("n", sum(sizes), {"core": 1})])
    held = []
    for size in sizes:
        allocation = cluster.place(job(size, shape))
        cluster.take(job(size, shape), allocation)
        held.append((size, allocation))
    for index in sorted(gone & set(range(len(sizes)))):
        cluster.release(job(held[index][0], shape), held[index][1])
    before = list(cluster.runs()), list(cluster.free)
    gaps = job(cluster.free[0], shape) if cluster.free[0] else None
    if gaps is not None:
        allocation = cluster.place(gaps)
        cluster.take(gaps, allocation)
        assert cluster.free == [0]
        assert [load for *_, load, _ in cluster.runs()] == [(0,)]
        cluster.release(gaps, allocation)

    assert (list(cluster.runs()), list(cluster.free)) == before
