"""Runs beside one another, against the same by hand; what makes them incomparable is told."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_server import run
from parley_server.errors import UsageError
from parley_server.results.comparison import (
    bootstrap_mean,
    compare,
    comparison_table,
    incomparable,
    paired,
)
from parley_server.results.run_directory import open_run
from parley_server.results.sample import Sample
from tests.support import rows, write_swf


def sample_of(directory, **options):
    return Sample(open_run(directory, **options))


def waits(directory):
    return {
        row["job_id"]: float(row["waiting_time"])
        for row in rows(directory / "jobs.csv")
        if row["finish_time"]
    }


# ---------------------------------------------------------------------- job by job


def test_differences_are_those_of_the_same_job(runs):
    pair = paired(sample_of(runs[0]), sample_of(runs[1]), "wait")

    first, second = waits(runs[0]), waits(runs[1])
    assert pair.left_out == 0
    told = zip(map(bytes.decode, pair.job_id), pair.differences, strict=True)
    assert dict(told) == {job: second[job] - wait for job, wait in first.items()}


def test_a_comparison_says_who_gained_and_who_lost(runs):
    found = compare(sample_of(runs[0]), sample_of(runs[2]), most=3)

    (wait, *_) = found.metrics
    first, second = waits(runs[0]), waits(runs[2])
    differences = {job: second[job] - first[job] for job in first}
    assert not found.warnings
    assert wait.jobs == len(first)
    assert wait.lower == sum(value < 0 for value in differences.values())
    assert wait.equal == sum(value == 0 for value in differences.values())
    assert wait.higher == sum(value > 0 for value in differences.values())
    assert wait.difference.value == pytest.approx(statistics.fmean(differences.values()))
    assert wait.median == statistics.median(differences.values())
    assert wait.second - wait.first == pytest.approx(wait.difference.value)
    gains = [change.second - change.first for change in wait.gained]
    assert gains == sorted(differences.values())[:3]
    losses = [change.second - change.first for change in wait.lost]
    assert losses == sorted(differences.values())[:-4:-1]
    assert all(differences[change.job] == change.second - change.first for change in wait.gained)


def test_a_run_is_no_better_than_itself(runs):
    found = compare(sample_of(runs[0]), sample_of(runs[0]))

    for metric in found.metrics:
        assert (metric.difference.low, metric.difference.value, metric.difference.high) == (0, 0, 0)
        assert not metric.difference.apart_from_zero
        assert not metric.gained
        assert not metric.lost


def test_a_comparison_is_plain_values(runs):
    table = comparison_table(compare(sample_of(runs[0]), sample_of(runs[1])))

    assert table["first"] == "fifo"
    assert table["metrics"][0]["difference"]["low"] < table["metrics"][0]["difference"]["high"]


# ---------------------------------------------------------------------- chance


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=60), seed=st.integers(0, 9))
def test_an_interval_is_of_its_seed_and_within_the_values(values, seed):
    array = np.array(values, dtype=float)

    found = bootstrap_mean(array, seed=seed, resamples=200)
    assert found == bootstrap_mean(array, seed=seed, resamples=200)
    assert found.value == pytest.approx(statistics.fmean(values))
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says():
    draw = np.random.default_rng(5)
    held = 0
    for seed in range(150):
        found = bootstrap_mean(draw.exponential(10.0, 400), seed=seed, resamples=400)
        held += found.low <= 10.0 <= found.high

    assert 0.89 <= held / 150 <= 0.98


def test_jobs_that_queue_together_do_not_make_an_interval_narrow():
    draw = np.random.default_rng(6)
    bursts = np.repeat(draw.exponential(10.0, 100), 100)

    alike = bootstrap_mean(bursts, seed=1)
    shuffled = bootstrap_mean(draw.permutation(bursts), seed=1)
    assert alike.high - alike.low > 3 * (shuffled.high - shuffled.low)


def test_nothing_has_no_interval():
    assert math.isnan(bootstrap_mean(np.zeros(0)).value)
    with pytest.raises(ValueError, match="a confidence lies between"):
        bootstrap_mean(np.ones(3), confidence=1.0)


# ---------------------------------------------------------------------- what speaks against it


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    """Return runs that differ from the first in one thing each."""
    directory = tmp_path_factory.mktemp("unlike")
    trace = write_swf(directory / "a.swf", [(n * 5, 20, 1, 15) for n in range(20)])
    other = directory / "other"
    other.mkdir()
    changed = write_swf(other / "a.swf", [(n * 5, 21, 1, 15) for n in range(20)])
    run(swf=trace, nodes=2, out=directory / "first")
    run(swf=changed, nodes=2, out=directory / "workload")
    run(swf=trace, nodes=3, out=directory / "machine")
    run(swf=trace, nodes=2, on_overrun="kill", out=directory / "rules")
    run(swf=trace, nodes=2, limit=15, out=directory / "limit")
    return directory


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("workload", "not the same workload: two files a.swf of different content"),
        ("machine", "not the same machine: {'core': 2} and {'core': 3}"),
        ("rules", "not the same rules: on_overrun is 'run' and 'kill'"),
        ("limit", "not the same rules: limit is None and 15"),
    ],
)
def test_runs_of_something_else_are_compared_with_a_warning(unlike, name, told):
    found = compare(sample_of(unlike / "first"), sample_of(unlike / name))

    assert told in found.warnings
    assert found.metrics


def test_a_run_that_broke_off_is_compared_with_a_warning(unlike):
    first, second = open_run(unlike / "first"), open_run(unlike / "first")
    second.summary["end"].update(complete=False, reason="stalled")

    assert incomparable(first, second) == [
        "first is not complete (stalled): its last jobs are missing"
    ]


def test_runs_without_a_common_job_are_not_compared(tmp_path, unlike):
    path = write_swf(tmp_path / "b.swf", [(0, 5, 1, 5)])
    path.write_text(path.read_text().replace("\n1 0 ", "\n900 0 "))
    run(swf=path, nodes=2, out=tmp_path / "b")

    with pytest.raises(UsageError, match="have no job in common"):
        compare(sample_of(unlike / "first"), sample_of(tmp_path / "b"))
