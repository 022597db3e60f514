"""Each order's key, worked out beside it; ties by submission, then reading order."""

from __future__ import annotations

import math

import pytest

from parley_client import ORDERS, UnknownName, WrongUsage
from parley_client.job import Job, Shape
from parley_client.orders import in_order, order_of
from tests.support import SECOND

WHOLE = Shape((("core", 1),), exclusive=True)


def job(number, submit, chunks, walltime):
    limit = None if walltime is None else walltime * SECOND
    return Job(number, f"j{number}", submit * SECOND, limit, chunks, WHOLE)


JOBS = [job(0, 10, 4, 100), job(1, 20, 1, 50), job(2, 20, 8, 100), job(3, 30, 2, None)]

EXPECTED = {
    "fifo": [0, 1, 2, 3],
    "sjf": [1, 0, 2, 3],
    "ljf": [3, 0, 2, 1],
    "smallest": [1, 3, 0, 2],
    "largest": [2, 0, 3, 1],
    "better-fit": [2, 0, 3, 1],
    # At 120 s: waits 110, 100, 100, 90; -(1.1^3)*4 = -5.3, -8, -8, 0.
    "wfp3": [1, 2, 0, 3],
    # One chunk counts as next to nothing; -110/200 = -.55, -100/300 = -.33, 0.
    "unicef": [1, 0, 2, 3],
    # log10(e)*n + 870*log10(s): 878, 1133.6, 1147.9, inf.
    "f1": [0, 1, 2, 3],
    "f2": [0, 1, 2, 3],
    "f3": [0, 1, 2, 3],
    "f4": [0, 1, 2, 3],
}


@pytest.mark.parametrize("name", list(ORDERS))
def test_jobs_come_in_the_order_that_was_worked_out(name):
    ordered = in_order(JOBS, order_of(name), 120 * SECOND)

    assert [one.number for one in ordered] == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("f1", math.log10(100) * 4 + 870 * math.log10(10)),
        ("f2", 10 * 4 + 25600 * math.log10(10)),
        ("f3", 400 + 6860000 * math.log10(10)),
        ("f4", 100 * 2 + 530000 * math.log10(10)),
        ("wfp3", -((110 / 100) ** 3) * 4),
        ("unicef", -110 / (2 * 100)),
    ],
)
def test_a_score_is_the_formula_s(name, score):
    assert order_of(name).key(JOBS[0], 120 * SECOND) == pytest.approx(score)


@pytest.mark.parametrize("name", list(ORDERS))
def test_equal_jobs_come_by_submission_then_reading_order(name):
    alike = [job(number, submit, 2, 60) for number, submit in enumerate([7, 7, 7])]

    assert in_order(reversed(alike), order_of(name), 9 * SECOND) == alike


@pytest.mark.parametrize("name", list(ORDERS))
def test_no_job_is_beyond_any_order(name):
    odd = [job(0, 0, 1, 0), job(1, 0, 1, None), job(2, 0, 5, 0), job(3, 0, 5, None)]

    assert len(in_order(odd, order_of(name), 0)) == 4


def test_a_score_of_one_s_own_is_an_order_asked_anew_each_time():
    order = order_of(lambda job, now_us: -job.number * now_us)

    assert not order.timeless
    assert [one.number for one in in_order(JOBS, order, 1)] == [3, 2, 1, 0]
    assert [one.number for one in in_order(JOBS, order, 0)] == [0, 1, 2, 3]


def test_what_is_no_order_is_told_so():
    with pytest.raises(UnknownName, match=r"'sfj' \(did you mean 'sjf'\?\)"):
        order_of("sfj")
    with pytest.raises(WrongUsage, match="no order"):
        order_of(7)
