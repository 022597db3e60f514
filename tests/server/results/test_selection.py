"""Order statistics: those of numpy, whatever the size of the blocks they are computed in."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley_server.results.selection import order_statistics, percentile

finite = st.floats(0, 1e300, allow_subnormal=False)
tied = st.sampled_from([0.0, 1.0, 1.0 + 2**-52, 2.0, 1e-300, 1e300])
# Floats that share some of their 16-bit digits, the first of them not a negative number's.
kin = st.tuples(
    st.sampled_from([0x0010, 0x3FF0, 0x3FF1]), *[st.sampled_from([0, 1, 2, 0xFFFF])] * 3
).map(lambda digits: struct.unpack(">d", struct.pack(">4H", *digits))[0])
arrays = st.lists(finite | tied | kin, min_size=1, max_size=60) | st.lists(kin, min_size=1)
sizes = st.sampled_from([1, 2, 7, 1000])
fractions = st.sampled_from([0.0, 0.05, 0.25, 0.5, 0.95, 0.99, 1.0]) | st.floats(0, 1)


def in_blocks(values, size):
    """Return what starts a pass over the values, so many at a time."""
    array = np.array(values, dtype=np.float64)

    def blocks():
        for start in range(0, len(array), size):
            yield array[start : start + size]

    return blocks


# ---------------------------------------------------------------------- laws


@given(values=arrays, size=sizes, percent=st.integers(0, 100))
@example(values=[0.0, 1e300], size=1, percent=50)
def test_a_percentile_is_numpy_s_by_linear_interpolation(values, size, percent):
    ours = percentile(in_blocks(values, size), len(values), percent / 100)

    theirs = float(np.percentile(values, percent, method="linear"))
    # numpy interpolates from the nearer end, which makes a difference of an ulp.
    assert math.isclose(ours, theirs, rel_tol=1e-14, abs_tol=1e-15 * max(values))
    assert min(values) <= ours <= max(values)


@given(values=arrays, size=sizes, data=st.data())
def test_order_statistics_are_those_of_the_sorted_values(values, size, data):
    ranks = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5))

    found = order_statistics(in_blocks(values, size), ranks)

    assert found == [sorted(values)[rank] for rank in ranks]


@given(values=arrays, fraction=fractions)
def test_the_size_of_the_blocks_does_not_matter(values, fraction):
    found = {
        percentile(in_blocks(values, size), len(values), fraction) for size in (1, 3, 64, 1000)
    }

    assert len(found) == 1


@given(values=st.lists(finite, min_size=2, max_size=9, unique=True), size=sizes)
def test_a_percentile_at_a_rank_is_the_value_itself(values, size):
    last = len(values) - 1

    ends = [percentile(in_blocks(values, size), len(values), fraction) for fraction in (0.0, 1.0)]
    everything = order_statistics(in_blocks(values, size), range(last + 1))

    assert ends == [min(values), max(values)]
    assert everything == sorted(values)


# ---------------------------------------------------------------------- examples


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        ([7.0], 0.95, 7.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.5),
        ([0.0, 10.0], 0.95, 9.5),
        ([5.0, 5.0, 5.0], 0.3, 5.0),
        ([0.0, 0.0, 1.0], 0.5, 0.0),
    ],
)
def test_percentiles_by_hand(values, fraction, expected):
    assert percentile(in_blocks(values, 2), len(values), fraction) == pytest.approx(expected)


def test_minus_zero_is_zero():
    assert order_statistics(in_blocks([-0.0, 1.0, 0.0], 2), [0, 1, 2]) == [0.0, 0.0, 1.0]


def test_neighbouring_floats_are_told_apart():
    values = [1.0, math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0)]

    assert order_statistics(in_blocks(values, 2), [0, 1, 2]) == sorted(values)


def test_subnormal_and_huge_values_are_ordered():
    values = [5e-324, 0.0, 1.7976931348623157e308, 2.2250738585072014e-308]

    assert order_statistics(in_blocks(values, 3), [0, 1, 2, 3]) == sorted(values)


def test_empty_blocks_are_passed_over():
    def blocks():
        yield from (np.array(part, dtype=np.float64) for part in ([], [3.0], [], [1.0]))

    assert percentile(blocks, 2, 0.5) == 2.0
