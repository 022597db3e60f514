"""Statistics of a run, against the same computed from its rows in plain arithmetic."""

from __future__ import annotations

import json
import statistics as plain
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_server import run
from parley_server.engine import JobRecord, JobState
from parley_server.errors import OutputError
from parley_server.quantities import format_seconds
from parley_server.results import spill as module
from parley_server.results.columns import JOB_COLUMNS, job_row, quoted
from parley_server.results.statistics import METRICS, job_statistics
from tests.support import SECOND, jobs_of, rows, write_swf

# ---------------------------------------------------------------------- runs and rows to read

times = st.integers(0, 40).map(str) | st.integers(0, 40 * SECOND).map(format_seconds)

lines = st.tuples(
    times,
    times | st.just("0"),
    st.integers(1, 6),  # of four nodes, so that some never fit
    st.just("-1") | st.integers(1, 40).map(str),
)


@st.composite
def traces(draw):
    """Return lines of a trace in order of submission; at least one of them can run."""
    found = draw(st.lists(lines, max_size=15))
    fits = draw(st.tuples(times, times, st.integers(1, 4), st.just("-1")))
    return sorted([*found, fits], key=lambda line: Fraction(line[0]))


@st.composite
def records(draw):
    """Return what became of a job, in any state; its texts may need quoting."""
    (job,) = jobs_of([(draw(st.integers(0, 50)), 1, 1)])
    job.user = draw(st.sampled_from([None, "7", "a,b", 'a"b', "a\nb", "a\rb"]))
    job.name = draw(st.sampled_from(["1", "j 2", "j,3", "\u00e9"]))
    state = draw(st.sampled_from(JobState))
    start = end = allocation = None
    if state not in {JobState.LOADED, JobState.PENDING, JobState.REJECTED}:
        start = job.submit + draw(st.integers(0, 10**8))
        allocation = (((0, 0, 1),),)
    if start is not None and state is not JobState.RUNNING:
        end = start + draw(st.integers(0, 10**8) | st.just(0))
    return JobRecord(job, state, start, end, allocation, 1, draw(st.booleans()), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def written(folder, found, workload_name="w"):
    """Write the rows of records and return their file."""
    path = folder / "jobs.csv"
    body = [job_row(record, quoted(workload_name)) for record in found]
    path.write_text("\n".join([",".join(JOB_COLUMNS), *body, ""]), encoding="utf-8", newline="")
    return path


def ran(start_at, *pairs):
    """Return records of jobs that waited and ran for so many seconds."""
    found = []
    for number, (wait, runtime) in enumerate(pairs):
        (job,) = jobs_of([(start_at, 1, runtime)])
        job.number = number
        start = (start_at + wait) * SECOND
        end = start + runtime * SECOND
        allocation = (((0, 0, 1),),)
        found.append(JobRecord(job, JobState.COMPLETED, start, end, allocation, 1, True, None))
    return found


# ---------------------------------------------------------------------- the same in plain Python


def fraction_of(values, share):
    """Return a percentile by linear interpolation, exactly."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def described(values):
    """Return count, mean, median, 95th percentile and maximum, exactly."""
    if not values:
        return {"count": 0, "mean": None, "median": None, "p95": None, "max": None}
    return {
        "count": len(values),
        "mean": sum(values) / len(values),
        "median": plain.median(values),
        "p95": fraction_of(values, Fraction(95, 100)),
        "max": max(values),
    }


def computed(path):
    """Return what `job_statistics` should, from the cells alone."""
    everything = rows(path)
    ended = [row for row in everything if row["last"] == "1" and row["finish_time"]]
    submits = [Fraction(row["submission_time"]) for row in everything]
    finishes = [Fraction(row["finish_time"]) for row in ended]
    jobs = []
    for row in ended:
        start = Fraction(row["starting_time"])
        jobs.append(
            (start - Fraction(row["submission_time"]), Fraction(row["finish_time"]) - start)
        )
    slowdowns = [(wait + runtime) / runtime for wait, runtime in jobs if runtime]
    return {
        "wait": described([wait for wait, _ in jobs]),
        "turnaround": described([wait + runtime for wait, runtime in jobs]),
        "slowdown": {**described(slowdowns), "undefined": len(jobs) - len(slowdowns)},
        "bounded_slowdown": described(
            [max(Fraction(1), (wait + runtime) / max(runtime, 10)) for wait, runtime in jobs]
        ),
        "makespan_us": int((max(finishes) - min(submits)) * SECOND) if finishes else None,
    }


def approximately(expected):
    """Return the same with every number taken for equal if it is so to 12 digits."""
    return {
        name: {
            key: value if value is None else pytest.approx(float(value), rel=1e-12, abs=1e-12)
            for key, value in metric.items()
        }
        if isinstance(metric, dict)
        else metric
        for name, metric in expected.items()
    }


# ---------------------------------------------------------------------- laws


@settings(max_examples=30)
@given(trace=traces(), kill=st.booleans())
def test_statistics_of_a_run_are_those_of_its_rows(folder, trace, kill):
    result = run(
        swf=write_swf(folder / "random.swf", trace),
        nodes=4,
        policy="fifo",
        on_overrun="kill" if kill else "run",
        out=folder / "random",
        force=True,
    )

    found = job_statistics(result.files.jobs)

    assert found == approximately(computed(result.files.jobs))
    assert len(rows(result.files.jobs)) == len(trace)


@given(found=st.lists(records(), max_size=12))
def test_statistics_of_any_rows_are_those_of_the_last_attempts_that_ended(folder, found):
    path = written(folder, found)

    statistics = job_statistics(path)

    assert statistics == approximately(computed(path))


@given(found=st.lists(records(), max_size=12), workload=st.sampled_from(["w", "a,b", 'q"', "a\nb"]))
def test_what_a_field_is_called_does_not_matter(folder, found, workload):
    by_plain_name = job_statistics(written(folder, found))

    by_quoted_name = job_statistics(written(folder, found, workload))

    assert by_quoted_name == by_plain_name


@given(found=st.lists(records(), max_size=12), block=st.integers(1, 9))
def test_the_size_of_the_blocks_does_not_matter(folder, found, block):
    path = written(folder, found)
    expected = job_statistics(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        in_small_blocks = job_statistics(path)

    assert in_small_blocks == expected


@given(found=st.lists(records(), max_size=12))
def test_bounds_of_every_metric_hold(folder, found):
    statistics = job_statistics(written(folder, found))

    for name in METRICS:
        metric = statistics[name]
        if metric["count"]:
            assert metric["median"] <= metric["p95"] * (1 + 1e-12) <= metric["max"] * (1 + 1e-11)
            assert metric["mean"] <= metric["max"] * (1 + 1e-12)
            assert metric["median"] >= (1 if "slowdown" in name else 0)


# ---------------------------------------------------------------------- examples


def test_statistics_by_hand(tmp_path):
    # wait, runtime: turnaround 10, 30, 40, 100 · slowdown 1, 3, 4, 2 · bounded 1, 3, 4, 2
    path = written(tmp_path, ran(5, (0, 10), (20, 10), (30, 10), (50, 50)))

    found = job_statistics(path)

    assert (
        found["wait"]
        == approximately({"": {"count": 4, "mean": 25, "median": 25, "p95": 47, "max": 50}})[""]
    )
    assert found["turnaround"]["mean"] == pytest.approx(45)
    assert found["turnaround"]["p95"] == pytest.approx(91)
    assert found["slowdown"]["mean"] == pytest.approx(2.5)
    assert found["slowdown"]["p95"] == pytest.approx(3.85)
    assert found["makespan_us"] == 100 * SECOND


def test_a_job_of_no_length_has_no_slowdown_and_is_counted(tmp_path):
    path = written(tmp_path, ran(0, (30, 0), (10, 10), (0, 0)))

    found = job_statistics(path)

    assert (found["slowdown"]["count"], found["slowdown"]["undefined"]) == (1, 2)
    assert found["slowdown"]["max"] == 2
    assert found["bounded_slowdown"]["count"] == found["wait"]["count"] == 3
    assert found["bounded_slowdown"]["max"] == 3


def test_only_jobs_of_no_length_have_no_slowdown_at_all(tmp_path):
    found = job_statistics(written(tmp_path, ran(0, (30, 0), (0, 0))))

    assert found["slowdown"] == {
        "count": 0,
        "mean": None,
        "median": None,
        "p95": None,
        "max": None,
        "undefined": 2,
    }


@pytest.mark.parametrize(
    ("wait", "runtime", "bounded"), [(0, 1, 1), (9, 1, 1), (19, 1, 2), (10, 10, 2), (30, 20, 2.5)]
)
def test_short_jobs_are_bounded_at_ten_seconds(tmp_path, wait, runtime, bounded):
    found = job_statistics(written(tmp_path, ran(0, (wait, runtime))))

    assert found["bounded_slowdown"]["mean"] == pytest.approx(bounded)


def test_where_nothing_ran_there_is_nothing_to_say(tmp_path):
    found = job_statistics(written(tmp_path, []))

    assert {found[name]["count"] for name in METRICS} == {0}
    assert {found[name]["mean"] for name in METRICS} == {None}
    assert found["makespan_us"] is None


def test_an_earlier_attempt_does_not_count(tmp_path):
    earlier, later = ran(0, (5, 10), (40, 10))

    found = job_statistics(written(tmp_path, [earlier._replace(last=False), later]))

    assert found["wait"] == {"count": 1, "mean": 40, "median": 40, "p95": 40, "max": 40}


def test_the_makespan_begins_with_the_first_submission_even_of_a_rejected_job(tmp_path):
    (rejected,), (later,) = ran(3, (0, 1)), ran(10, (0, 5))
    rejected = rejected._replace(state=JobState.REJECTED, start=None, allocation=None)

    found = job_statistics(written(tmp_path, [rejected, later]))

    assert found["makespan_us"] == 12 * SECOND


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_quoted_row_among_plain_ones_loses_none(tmp_path, place):
    found = ran(0, (10, 10), (20, 10), (30, 10))
    found[place].job.user = 'a\n"b",1,1,1,1'

    statistics = job_statistics(written(tmp_path, found))

    assert statistics["wait"]["count"] == 3
    assert statistics["wait"]["mean"] == 20


def test_more_jobs_than_a_block_holds(tmp_path):
    count = 3 * module._BLOCK // 2 + 1
    path = written(tmp_path, ran(0, *((number % 1000, 10) for number in range(count))))

    found = job_statistics(path)

    waits = [number % 1000 for number in range(count)]
    assert found["wait"]["count"] == count
    assert found["wait"]["mean"] == pytest.approx(plain.fmean(waits), rel=1e-12)
    assert found["wait"]["p95"] == pytest.approx(float(fraction_of(waits, Fraction(95, 100))))


@pytest.mark.parametrize("name", ["trace.swf", 'a,b "c".swf', "a\nb.swf", "caf\u00e9.swf"])
def test_the_summary_of_a_run_holds_its_statistics(tmp_path, name):
    trace = [("0", "10", 4, "-1"), ("1", "5", 4, "-1"), ("1.5", "0", 1, "-1"), ("2", "1", 9, "-1")]

    result = run(
        swf=write_swf(tmp_path / name, trace), nodes=4, policy="fifo", out=tmp_path / "out"
    )

    expected = approximately(computed(result.files.jobs))
    summary = json.loads(result.files.summary.read_text())
    assert {metric: summary[metric] for metric in METRICS} == {
        metric: expected[metric] for metric in METRICS
    }
    assert summary["makespan"] == 15
    assert {row["workload_name"] for row in rows(result.files.jobs)} == {Path(name).stem}


def test_a_file_that_is_not_there_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match=r"jobs\.csv"):
        job_statistics(tmp_path / "jobs.csv")


def test_no_scratch_file_is_left_behind(tmp_path):
    path = written(tmp_path, ran(0, (10, 10)))

    job_statistics(path)

    assert list(tmp_path.iterdir()) == [path]
