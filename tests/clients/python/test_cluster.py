"""The client's cluster against the engine's: two programs, one meaning."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley_client import Cluster, FirstFit, Random, Shape
from parley_client.job import Job
from parley_server import engine
from parley_server.engine.errors import NoFit
from tests.strategies import SHAPES, machines

MIRROR = {shape: Shape(shape.per_chunk, shape.exclusive) for shape in SHAPES}

steps = st.lists(
    st.tuples(
        st.sampled_from(SHAPES), st.integers(1, 8), st.integers(0, 10), st.sampled_from("fr")
    ),
    max_size=30,
)


def job(number: int, chunks: int, shape: Shape) -> Job:
    return Job(number, f"j{number}", 0, None, chunks, shape)


def engines(chunks: int, shape: engine.Shape) -> engine.Job:
    return engine.Job(0, "j", 0, 1, 1, (engine.ChunkGroup(chunks, shape),))


@given(groups=machines(), steps=steps, seed=st.integers(0, 99))
def test_first_fit_is_where_the_server_would_place_the_job(groups, steps, seed):
    theirs = engine.Cluster(groups)
    ours = Cluster([(group.count, group.capacity) for group in groups])
    allocators = {"f": FirstFit(), "r": Random(seed)}
    held = []
    for number, (shape, chunks, which, by) in enumerate(steps):
        if which < len(held):
            placed, placed_shape, allocation = held.pop(which)
            theirs.release(placed, allocation)
            ours.release(MIRROR[placed_shape], allocation[0])
        asked, mirrored = engines(chunks, shape), job(number, chunks, MIRROR[shape])
        try:
            expected = theirs.place(asked)[0]
        except NoFit:
            expected = None

        assert ours.first_fit(MIRROR[shape], chunks) == expected
        assert ours.fits(MIRROR[shape], chunks) == (expected is not None)
        spans = allocators[by].allocate(mirrored, ours)
        assert (spans is None) == (expected is None)
        if spans is not None:
            allocation = (tuple(tuple(span) for span in spans),)
            theirs.check(asked, allocation)
            theirs.take(asked, allocation)
            ours.take(MIRROR[shape], spans)
            held.append((asked, shape, allocation))


@given(groups=machines(), steps=steps)
def test_an_index_made_late_says_what_one_made_at_first_says(groups, steps):
    description = [(group.count, group.capacity) for group in groups]
    early, late = Cluster(description), Cluster(description)
    for shape in MIRROR.values():
        early.room(shape)
    for shape, chunks, *_ in steps:
        spans = early.first_fit(MIRROR[shape], chunks)
        if spans is not None:
            early.take(MIRROR[shape], spans)
            # Only what the late one needs for this step: all its other indexes come at the end.
            late.take(MIRROR[shape], spans)

    for shape in MIRROR.values():
        assert late.available(shape) == early.available(shape)
        assert late.room(shape).usable == early.room(shape).usable


@given(groups=machines(), shape=st.sampled_from(SHAPES), chunks=st.integers(1, 8))
def test_what_is_given_back_is_as_if_never_taken(groups, shape, chunks):
    cluster = Cluster([(group.count, group.capacity) for group in groups])
    mirrored = MIRROR[shape]
    before = [cluster.available(other) for other in MIRROR.values()]
    spans = cluster.first_fit(mirrored, chunks)
    if spans is not None:
        cluster.take(mirrored, spans)
        cluster.release(mirrored, spans)

    assert [cluster.available(other) for other in MIRROR.values()] == before


@given(
    groups=machines(),
    shape=st.sampled_from(SHAPES),
    chunks=st.integers(1, 8),
    seed=st.integers(0, 9),
)
def test_no_allocator_changes_anything_when_asked(groups, shape, chunks, seed):
    cluster = Cluster([(group.count, group.capacity) for group in groups])
    asked = job(3, chunks, MIRROR[shape])
    for allocator in (FirstFit(), Random(seed)):
        before = [cluster.available(other) for other in MIRROR.values()]
        first, second = allocator.allocate(asked, cluster), allocator.allocate(asked, cluster)

        assert first == second
        assert [cluster.available(other) for other in MIRROR.values()] == before


def test_random_places_differ_with_the_seed_and_with_the_job():
    cluster = Cluster([(1000, {"core": 1})])
    shape = MIRROR[SHAPES[0]]
    answers = {
        Random(seed).allocate(job(number, 5, shape), cluster)
        for seed in range(3)
        for number in range(3)
    }

    assert len(answers) == 9


def test_random_leaves_no_place_out():
    cluster = Cluster([(4, {"core": 2})])
    shape = MIRROR[SHAPES[1]]
    used = {
        node
        for number in range(60)
        for first, last, _ in Random(1).allocate(job(number, 1, shape), cluster) or ()
        for node in range(first, last + 1)
    }

    assert used == {0, 1, 2, 3}


def test_shapes_that_never_come_back_are_forgotten():
    cluster = Cluster([(3, {"memory": 5000})])
    for amount in range(1, 2000):
        shape = Shape((("memory", amount),), exclusive=False)
        assert cluster.available(shape) == 3 * (5000 // amount)

    assert len(cluster._rooms) <= 128


def test_a_shape_that_was_crowded_out_is_counted_in_full_again():
    cluster = Cluster([(2, {"core": 4, "gpu": 2})])
    gpus, cores = Shape((("gpu", 1),), exclusive=False), Shape((("core", 4),), exclusive=False)
    both = Shape((("core", 1), ("gpu", 1)), exclusive=False)
    for shape in (gpus, cores, both):
        cluster.available(shape)
    node = ((0, 0, 1),)
    cluster.take(cores, node)
    crowded = cluster.available(both)
    cluster.release(cores, node)
    cluster.take(both, ((0, 0, 2),))
    taken = cluster.available(both)
    cluster.release(both, ((0, 0, 2),))

    assert (crowded, taken, cluster.available(both)) == (2, 2, 4)
