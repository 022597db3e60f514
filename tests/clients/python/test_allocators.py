"""Where allocators put jobs, and that asking them changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_client import ALLOCATORS, Cluster, NextFit, Shape, allocator_named
from parley_client.job import Job
from parley_client.spans import Merged, merged
from tests.strategies import SHAPES, machines

MIRROR = {shape: Shape(shape.per_chunk, shape.exclusive) for shape in SHAPES}
CORE = Shape((("core", 1),), exclusive=False)
WHOLE = Shape((("core", 1),), exclusive=True)


def job(chunks, shape, number=0):
    return Job(number, f"j{number}", 0, None, chunks, shape)


def state(cluster):
    return [
        (room.total, bytes(room.usable), [room.on(node) for node in range(cluster.node_count)])
        for room in map(cluster.room, MIRROR.values())
    ]


steps = st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(1, 8), st.booleans()), max_size=12)


@pytest.mark.parametrize("name", list(ALLOCATORS))
@given(groups=machines(), steps=steps, seed=st.integers(0, 9))
def test_asking_changes_nothing_and_every_place_is_one(name, groups, steps, seed):
    cluster = Cluster([(group.count, group.capacity) for group in groups])
    allocator = allocator_named(name, seed=seed)
    for number, (shape, chunks, take) in enumerate(steps):
        asked = job(chunks, MIRROR[shape], number)
        before = state(cluster)
        spans = allocator.allocate(asked, cluster)

        # Others may be asked about in between, any number of times.
        allocator.allocate(job(1, MIRROR[SHAPES[0]]), cluster)
        assert allocator.allocate(asked, cluster) == spans
        assert state(cluster) == before
        assert (spans is not None) == cluster.fits(asked.shape, chunks)
        if spans is None:
            continue
        if type(spans) is Merged:
            assert merged(list(spans)) == spans
        room = cluster.room(asked.shape)
        ends = [-1, *(last for _, last, _ in spans)]
        assert all(end < first <= last for end, (first, last, _) in zip(ends, spans, strict=False))
        assert sum((last - first + 1) * each for first, last, each in spans) == chunks
        assert all(
            1 <= each <= room.on(node)
            for first, last, each in spans
            for node in range(first, last + 1)
        )
        if take:
            cluster.take(asked.shape, spans)
            getattr(allocator, "placed", lambda *_: None)(asked, spans)


@pytest.fixture
def loaded():
    """Three nodes of four cores, of which 2, 0 and 1 are taken; a fourth has eight, free."""
    cluster = Cluster([(3, {"core": 4}), (1, {"core": 8})])
    cluster.take(CORE, [(0, 0, 2), (2, 2, 1)])
    return cluster


@pytest.mark.parametrize(
    ("name", "chunks", "spans"),
    [
        ("first-fit", 3, [(0, 0, 2), (1, 1, 1)]),
        ("best-fit", 3, [(0, 0, 2), (2, 2, 1)]),
        ("best-fit", 6, [(0, 0, 2), (1, 1, 1), (2, 2, 3)]),
        ("worst-fit", 3, [(3, 3, 3)]),
        ("worst-fit", 10, [(1, 1, 2), (3, 3, 8)]),
    ],
)
def test_shared_nodes_are_taken_by_what_is_free_on_them(loaded, name, chunks, spans):
    assert list(allocator_named(name).allocate(job(chunks, CORE), loaded)) == spans


def test_what_is_free_counts_over_all_resources():
    cluster = Cluster([(2, {"core": 4, "memory": 10})])
    cluster.take(Shape((("memory", 3),), exclusive=False), [(1, 1, 2)])

    assert list(allocator_named("best-fit").allocate(job(1, CORE), cluster)) == [(1, 1, 1)]
    assert list(allocator_named("worst-fit").allocate(job(1, CORE), cluster)) == [(0, 0, 1)]


def test_whole_nodes_are_taken_by_what_their_kind_has():
    cluster = Cluster([(2, {"core": 8}), (2, {"core": 2})])

    assert list(allocator_named("best-fit").allocate(job(3, WHOLE), cluster)) == [
        (0, 0, 1),
        (2, 3, 1),
    ]
    assert list(allocator_named("worst-fit").allocate(job(1, WHOLE), cluster)) == [(0, 0, 1)]


def placed(allocator, cluster, asked):
    spans = allocator.allocate(asked, cluster)
    cluster.take(asked.shape, spans)
    allocator.placed(asked, spans)
    return list(spans)


def test_next_fit_goes_on_where_it_was_and_around():
    cluster, allocator = Cluster([(5, {"core": 1})]), NextFit()

    assert placed(allocator, cluster, job(2, WHOLE)) == [(0, 1, 1)]
    cluster.release(WHOLE, [(0, 1, 1)])
    assert placed(allocator, cluster, job(2, WHOLE)) == [(2, 3, 1)]
    assert placed(allocator, cluster, job(2, WHOLE)) == [(0, 0, 1), (4, 4, 1)]
    assert placed(allocator, cluster, job(1, WHOLE)) == [(1, 1, 1)]


def test_next_fit_fills_a_shared_node_before_it_goes_on():
    cluster, allocator = Cluster([(3, {"core": 4})]), NextFit()

    assert placed(allocator, cluster, job(3, CORE)) == [(0, 0, 3)]
    assert placed(allocator, cluster, job(3, CORE)) == [(0, 0, 1), (1, 1, 2)]
    assert placed(allocator, cluster, job(1, CORE)) == [(1, 1, 1)]
