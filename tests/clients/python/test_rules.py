"""What single rules do, by examples worked out by hand."""

from __future__ import annotations

import pytest

from parley_client import Dispatcher, Easy, TimedRun, WrongUsage, policy_named
from parley_server.engine import NodeGroup, Shape
from tests.scheduling import schedule
from tests.support import SECOND, jobs_of


def starts(jobs, policy, **options):
    placed = schedule(jobs_of(jobs), policy, **options)
    return [placed[f"j{number}"].start // SECOND for number in range(len(jobs))]


# Six nodes; the first job holds five of them, the next two wait.
BLOCKED = [(0, 5, 100), (1, 6, 10), (2, 5, 50), (3, 1, 150), (4, 1, 20)]


def test_easy_keeps_one_place_or_several():
    # The fourth job would delay the second; the fifth is over in time.
    assert starts(BLOCKED, Easy()) == [0, 100, 110, 110, 4]
    jobs = [(0, 4, 100), (1, 4, 50), (2, 4, 50), (3, 2, 120), (4, 2, 1)]
    # What is left beside one reservation is not left beside two, which follow each other.
    assert starts(jobs, Easy()) == [0, 100, 150, 3, 123]
    assert starts([*jobs[:3], (3, 3, 20)], Easy(depth=2)) == [0, 100, 150, 200]


def test_easy_backfills_in_an_order_of_its_own():
    jobs = [(0, 5, 100), (1, 6, 10), (2, 1, 90), (2, 1, 10)]

    assert starts(jobs, Easy())[2:] == [2, 110]
    assert starts(jobs, Easy(backfill_order="sjf"))[2:] == [110, 2]


def test_a_rule_with_an_interval_decides_at_its_multiples_only():
    jobs = [(1, 3, 10), (2, 3, 100), (31, 1, 5), (61, 6, 5)]
    for name in ("strict", "aggressive", "easy", "conservative", "conservative-none", "delayed"):
        assert starts(jobs, policy_named(name, {"interval": "30s"})) == [30, 30, 60, 150]


def test_a_rule_that_looks_at_few_jobs_comes_back_for_the_others():
    jobs = [(0, 1, 500)] * 6

    assert starts(jobs, Easy(interval=30, examine=2)) == [0, 0, 30, 30, 60, 60]


def test_a_timed_run_is_cut_short_and_begun_anew_later():
    # Four nodes; j0 is over within its test, j1 is stopped at 60 s and starts anew at once.
    jobs = [(0, 2, 30, 500), (0, 2, 100, 500), (10, 4, 200, 500)]

    assert starts(jobs, TimedRun(quantum="1m"), groups=4) == [0, 60, 220]


def test_a_job_that_is_over_within_the_quantum_is_never_stopped():
    assert starts([(0, 1, 60, 60)], TimedRun(quantum="1m")) == [0]


def test_two_kinds_of_chunks_share_nodes_and_the_head_is_not_delayed():
    cores, memory = Shape.of({"core": 2}, exclusive=False), Shape.of({"memory": 6}, exclusive=False)
    rows = [(0, 1, 100), (1, 2, 50), (2, 1, 30), (3, 1, 300)]
    jobs = jobs_of(rows, shape=cores)
    # The head asks for both nodes' memory, of which the first job, on cores, takes nothing.
    jobs[1] = jobs_of(rows, shape=memory)[1]
    jobs[3] = jobs_of(rows, shape=memory)[3]
    placed = schedule(jobs, Easy(), groups=[NodeGroup("n", 2, {"core": 2, "memory": 10})])

    assert [placed[f"j{number}"].start // SECOND for number in range(4)] == [0, 1, 2, 51]


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("easy", {"deph": 2}, "did you mean 'depth'"),
        ("easy", {"depth": 0}, "at least 1, not 0"),
        ("easy", {"depth": "many"}, "not 'many'"),
        ("easy", {"interval": "soon"}, "interval is a time"),
        ("easy", {"order": "nearest"}, "no order 'nearest'"),
        ("sjf", {"order": "ljf"}, "no parameter 'order'"),
        ("reject", {"order": "ljf"}, "it has none"),
        ("prioritised", {"restart": "often"}, "no, inf or a whole number"),
        ("timed-run", {"quantum": 0}, "quantum is a time"),
        ("mine.py", {}, "FILE.py:NAME"),
        ("mine.py:Policy", {}, "no such file"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_would_be_right(name, parameters, words):
    with pytest.raises(WrongUsage, match=words):
        policy_named(name, parameters)


def test_a_pair_that_cannot_work_is_refused_with_the_reason():
    class Contiguous:
        name = "contiguous"

        def allocate(self, job, cluster):
            return None

    with pytest.raises(WrongUsage, match=r"'easy' cannot work with allocator 'contiguous'.*count"):
        Dispatcher("easy", allocator=Contiguous())
    assert Dispatcher("strict", allocator=Contiguous()).allocator_name == "contiguous"
