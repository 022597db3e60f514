"""Policies and engine against a textbook that shares no code with them, on generated jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_client import (
    Conservative,
    ConservativeNone,
    ConservativeSubmitOrder,
    Easy,
    Prioritised,
    Strict,
)
from tests import textbook
from tests.scheduling import schedule
from tests.support import SECOND, jobs_of

NODES = 6


@st.composite
def workloads(draw):
    """Return (submit, size, runtime, estimate), close together; some end early, some at once."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3), st.integers(1, NODES), st.integers(0, 9), st.integers(-2, 9)
            ),
            max_size=25,
        )
    )
    jobs, submit = [], 0
    for gap, size, runtime, more in rows:
        submit += gap
        jobs.append((submit, size, runtime, max(0, runtime + more)))
    return jobs


def ours(jobs, policy, **options):
    placed = schedule(jobs_of(jobs), policy, groups=NODES, **options)
    return {int(name[1:]): job.start / SECOND for name, job in placed.items()}


@pytest.mark.parametrize("kills", [True, False])
@given(jobs=workloads())
def test_strict_is_the_textbook_s_first_come_first_served(jobs, kills):
    assert ours(jobs, Strict(), kills=kills) == textbook.simulate(
        jobs, NODES, textbook.fcfs, kills=kills
    )


@pytest.mark.parametrize("kills", [True, False])
@given(jobs=workloads())
def test_easy_is_the_textbook_s_scan(jobs, kills):
    assert ours(jobs, Easy(), kills=kills) == textbook.simulate(
        jobs, NODES, textbook.easy, kills=kills
    )


@given(jobs=workloads())
def test_the_textbook_s_two_scans_are_one(jobs):
    assert textbook.easy_at_length(jobs, NODES) == textbook.simulate(jobs, NODES, textbook.easy)


CONSERVATIVE = [
    (Conservative, textbook.plan_order),
    (ConservativeSubmitOrder, textbook.submit_order),
    (Prioritised, textbook.submit_order),
    (ConservativeNone, textbook.nothing),
]


@pytest.mark.parametrize(("policy", "order"), CONSERVATIVE)
@given(jobs=workloads())
def test_conservative_variants_are_the_textbook_s(policy, order, jobs):
    assert ours(jobs, policy()) == textbook.simulate(jobs, NODES, textbook.conservative(order))


# (submit, size, runtime, estimate) on ten nodes, and the starts worked out by hand.
TINY = [(0, 6, 100), (1, 8, 50), (2, 3, 90), (3, 4, 200), (4, 2, 99), (5, 1, 300)]
TINY2 = [
    *((0, 6, 40, 100), (1, 8, 50, 50), (2, 4, 90, 90)),
    *((3, 4, 200, 200), (4, 2, 99, 99), (5, 4, 30, 30)),
]

CASES = [
    (TINY, Strict(), [0, 100, 150, 150, 150, 150]),
    (TINY, Easy(), [0, 100, 2, 150, 150, 5]),
    (TINY, Conservative(), [0, 100, 2, 150, 92, 150]),
    (TINY2, Easy(), [0, 92, 2, 142, 40, 40]),
    (TINY2, ConservativeNone(), [0, 100, 2, 150, 92, 150]),
    (TINY2, Conservative(), [0, 92, 2, 142, 40, 40]),
    (TINY2, Prioritised(), [0, 92, 2, 142, 40, 40]),
]


@pytest.mark.parametrize(("jobs", "policy", "starts"), CASES)
def test_the_small_cases_start_when_they_should(jobs, policy, starts):
    placed = schedule(jobs_of(jobs), policy, groups=10)

    assert [placed[f"j{number}"].start // SECOND for number in range(6)] == starts
