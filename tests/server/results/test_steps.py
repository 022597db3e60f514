"""Step functions, against sums over every instant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_server.results.steps import Steps, combined

intervals = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 5)), max_size=12
)


def steps_of(found):
    begins, lengths, amounts = (
        np.array([row[place] for row in found], dtype=float) for place in range(3)
    )
    return Steps.of_intervals(begins, begins + lengths, amounts)


def value_at(found, instant):
    return sum(amount for begin, length, amount in found if begin <= instant < begin + length)


@given(found=intervals)
def test_a_value_is_the_sum_of_the_intervals_that_hold(found):
    steps = steps_of(found)

    instants = np.arange(-1, 45, 0.5)
    assert steps.at(instants).tolist() == [value_at(found, instant) for instant in instants]
    assert (np.diff(steps.times) > 0).all()


@given(found=intervals, edges=st.lists(st.integers(-5, 50), min_size=2, max_size=6, unique=True))
def test_a_mean_is_the_sum_over_its_seconds(found, edges):
    edges = sorted(edges)

    means = steps_of(found).means(np.array(edges, dtype=float))
    for mean, begin, end in zip(means, edges[:-1], edges[1:], strict=True):
        total = sum(value_at(found, second) for second in range(begin, end))
        assert mean == pytest.approx(total / (end - begin))


@given(found=intervals, begin=st.integers(0, 40), length=st.integers(1, 20))
def test_the_greatest_value_is_that_of_some_second(found, begin, length):
    most = max(value_at(found, second) for second in range(begin, begin + length))

    assert steps_of(found).longest(begin, begin + length) == most


@given(one=intervals, other=intervals)
def test_two_functions_together_are_each_by_itself(one, other):
    first, second = steps_of(one), steps_of(other)

    times, values, others = combined(first, second)
    assert values.tolist() == first.at(times).tolist()
    assert others.tolist() == second.at(times).tolist()
    assert set(first.times) | set(second.times) == set(times)


def test_nothing_has_no_mean():
    nothing = steps_of([])

    assert nothing.mean(0, 10) == 0
    assert np.isnan(nothing.mean(3, 3))
