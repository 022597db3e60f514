"""Metrics, against the same computed in plain arithmetic from the rows of a run."""

from __future__ import annotations

import csv
import math
import statistics
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_server import run
from parley_server.errors import UsageError
from parley_server.results.classes import KINDS, classes
from parley_server.results.fairness import gini_coefficient, jain_index, overtaken
from parley_server.results.measures import (
    class_measures,
    describe,
    histogram,
    job_measures,
    measures,
    run_measures,
)
from parley_server.results.metrics import (
    JOB_METRICS,
    RUN_METRICS,
    documentation,
    job_metric,
)
from parley_server.results.run_directory import open_run
from parley_server.results.sample import Sample, Window
from tests.support import PROJECT, rows, shared, summary_of, write_swf

# Times are whole microseconds, ratios have no more digits.
values = st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=1, max_size=30)

lines = st.tuples(
    st.integers(0, 60), st.integers(0, 30), st.integers(1, 5), st.just(-1) | st.integers(1, 40)
)
traces = st.lists(lines, min_size=1, max_size=14).map(sorted)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("metrics")


# ---------------------------------------------------------------------- by plain arithmetic


def ended(directory):
    """Return the rows of the jobs that ran to an end, with exact times."""
    found = [
        row for row in rows(directory / "jobs.csv") if row["finish_time"] and row["last"] == "1"
    ]
    for row in found:
        for name, column in (
            ("submit", "submission_time"),
            ("start", "starting_time"),
            ("end", "finish_time"),
        ):
            row[name] = Fraction(row[column])
        row["size"] = int(row["requested_number_of_resources"])
        row["walltime"] = Fraction(row["requested_time"]) if row["requested_time"] else None
    return found


def plain_job_metrics(row):
    """Return what each metric of a job is; None where it is undefined."""
    wait, runtime = row["start"] - row["submit"], row["end"] - row["start"]
    turnaround, raised = wait + runtime, max(runtime, 10)
    return {
        "wait": wait,
        "turnaround": turnaround,
        "slowdown": turnaround / runtime if runtime else None,
        "bounded_slowdown": max(1, turnaround / raised),
        "per_processor_bounded_slowdown": max(1, turnaround / (row["size"] * raised)),
        "stretch": turnaround / row["walltime"] if row["walltime"] else None,
        "execution": runtime,
        "walltime": row["walltime"],
        "accuracy": runtime / row["walltime"] if row["walltime"] else None,
        "processors": row["size"],
        "work": row["size"] * runtime / 3600,
    }


def plain_run_metrics(found, nodes, begin, end):
    """Return metrics of a window by looking at every stretch between two events."""
    edges = {begin, end} | {row[name] for row in found for name in ("submit", "start", "end")}
    used = lost = queued = Fraction(0)
    longest = 0
    for low, high in pairwise(sorted(edge for edge in edges if begin <= edge <= end)):
        running = sum(row["size"] for row in found if row["start"] <= low < row["end"])
        waiting = [row["size"] for row in found if row["submit"] <= low < row["start"]]
        used += running * (high - low)
        queued += len(waiting) * (high - low)
        lost += min(sum(waiting), nodes - running) * (high - low)
        longest = max(longest, len(waiting))
    span = end - begin
    inside = sum(begin <= row["end"] <= end for row in found)
    return {
        "utilisation": used / (nodes * span),
        "loss_of_capacity": lost / (nodes * span),
        "queue_mean": queued / span,
        "queue_max": longest,
        "throughput": inside * 3600 / span,
    }


# ---------------------------------------------------------------------- laws


@given(trace=traces, policy=st.sampled_from(["fifo", "easy", "sjf"]))
@settings(max_examples=25)
def test_metrics_are_what_plain_arithmetic_makes_of_the_rows(folder, trace, policy):
    directory = folder / "run"
    swf = write_swf(folder / "trace.swf", trace)
    run(swf=swf, nodes=4, policy=policy, out=directory, force=True)
    found = ended(directory)
    sample = Sample(open_run(directory))

    assert len(sample.jobs) == len(found)
    expected = [plain_job_metrics(row) for row in found]
    for metric in JOB_METRICS:
        if metric.name == "lateness":
            continue
        values = metric.values(sample.jobs).tolist()
        for value, plain in zip(values, expected, strict=True):
            if plain[metric.name] is None:
                assert math.isnan(value)
            else:
                assert value == pytest.approx(float(plain[metric.name]))
    if not found:
        return
    every = [Fraction(row["submission_time"]) for row in rows(directory / "jobs.csv")]
    begin, end = min(every), max(row["end"] for row in found)
    if end == begin:
        return
    told = run_measures(sample)
    assert told["makespan"] == end - begin
    for name, value in plain_run_metrics(found, 4, begin, end).items():
        assert told[name] == pytest.approx(float(value), abs=1e-12), name
    late = [
        any(other["submit"] > row["submit"] and other["start"] < row["start"] for other in found)
        for row in found
    ]
    assert overtaken(sample.jobs).tolist() == late


@given(trace=traces, warmup=st.integers(0, 40), cooldown=st.integers(0, 40) | st.just("drain"))
@settings(max_examples=25)
def test_what_is_cut_off_counts_for_nothing(folder, trace, warmup, cooldown):
    directory = folder / "cut"
    run(swf=write_swf(folder / "cut.swf", trace), nodes=4, out=directory, force=True)
    found = ended(directory)
    if not found:
        return
    every = [Fraction(row["submission_time"]) for row in rows(directory / "jobs.csv")]
    begin, end = min(every) + warmup, max(row["end"] for row in found)
    end = max(every) if cooldown == "drain" else end - cooldown
    window = Window(f"{warmup}s", cooldown if cooldown == "drain" else f"{cooldown}s")
    if begin >= end:
        if not window.whole:
            with pytest.raises(UsageError, match="nothing is left"):
                Sample(open_run(directory), window)
        return

    sample = Sample(open_run(directory), window)
    if window.whole:
        assert len(sample.jobs) == len(found)
    else:
        assert len(sample.jobs) == sum(begin <= row["submit"] < end for row in found)
    told = run_measures(sample)
    for name, value in plain_run_metrics(found, 4, begin, end).items():
        assert told[name] == pytest.approx(float(value), abs=1e-12), name


@given(found=values)
def test_a_description_is_that_of_the_statistics_module(found):
    described = describe(np.array(found))

    assert described.count == len(found)
    assert described.mean == pytest.approx(statistics.fmean(found))
    assert described.median == pytest.approx(statistics.median(found))
    assert (described.min, described.max) == (min(found), max(found))
    if len(found) > 1:
        quartiles = statistics.quantiles(found, n=4, method="inclusive")
        assert [described.q1, described.median, described.q3] == pytest.approx(quartiles)
        assert described.deviation == pytest.approx(statistics.stdev(found), abs=1e-6)


@given(found=values, bins=st.integers(1, 20), logarithmic=st.booleans())
def test_every_value_is_in_one_bin_of_a_histogram(found, bins, logarithmic):
    counted = histogram(np.array([*found, math.nan]), bins=bins, logarithmic=logarithmic)

    assert counted.counts.sum() == len(found)
    assert (np.diff(counted.edges) > 0).all()


@given(found=values)
def test_indices_of_fairness_keep_to_their_bounds(found):
    jain, gini = jain_index(np.array(found)), gini_coefficient(np.array(found))

    assert 1 / len(found) - 1e-9 <= jain <= 1 + 1e-9
    assert -1e-9 <= gini <= 1 - 1 / len(found) + 1e-9
    if sum(found) > 1e-3:
        plain = sum(abs(one - other) for one in found for other in found)
        assert gini == pytest.approx(plain / (2 * len(found) * sum(found)), abs=1e-6)


def test_all_to_one_is_as_unfair_as_can_be():
    assert jain_index(np.array([4.0, 0, 0, 0])) == 1 / 4
    assert gini_coefficient(np.array([4.0, 0, 0, 0])) == 3 / 4
    assert jain_index(np.array([2.0, 2, 2])) == 1
    assert gini_coefficient(np.array([2.0, 2, 2])) == 0


# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize("kind", KINDS)
def test_every_job_is_in_one_class(runs, kind):
    jobs = Sample(open_run(runs[0])).jobs

    found = classes(jobs, kind)
    assert len(found.codes) == len(jobs)
    parts = dict(found.parts(jobs.wait))
    assert sum(map(len, parts.values())) == len(jobs)
    assert all(len(part) for part in parts.values())


def test_classes_of_size_go_up_to_powers_of_two(runs):
    sample = Sample(open_run(runs[0]))

    found = class_measures(sample, "size", "wait")
    sizes = [int(row["requested_number_of_resources"]) for row in ended(runs[0])]
    assert {name: each.count for name, each in found.items()} == {
        "1": sizes.count(1),
        "2": sizes.count(2),
        "3-4": sizes.count(3) + sizes.count(4),
        "5-8": sizes.count(8),
    }
    waits = [float(row["waiting_time"]) for row in ended(runs[0]) if row["size"] in {3, 4}]
    assert found["3-4"].mean == pytest.approx(statistics.fmean(waits))


def test_users_beyond_the_most_are_others(folder):
    trace = [(n, 5, 1, 10) for n in range(12)]
    path = write_swf(folder / "users.swf", trace)
    changed = [line.split() for line in path.read_text().splitlines()]
    for number, fields in enumerate(changed):
        if fields[0] != ";":
            fields[11] = str(number % 3 if number < 10 else 7 + number)
    path.write_text("\n".join(" ".join(fields) for fields in changed) + "\n")
    run(swf=path, nodes=4, out=folder / "users", force=True)

    found = class_measures(Sample(open_run(folder / "users")), "user", "wait", most=2)
    assert list(found)[-1] == "others"
    assert len(found) == 3
    assert sum(each.count for each in found.values()) == 12


def test_jobs_are_told_apart_by_what_there_is(runs):
    with pytest.raises(UsageError, match="did you mean 'size'"):
        class_measures(Sample(open_run(runs[0])), "sise", "wait")


# ---------------------------------------------------------------------- examples


def test_metrics_and_summary_say_the_same(runs, shared_nodes):
    for directory in (*runs, shared_nodes):
        summary, flat = summary_of(directory), measures(open_run(directory))
        for name in ("wait", "turnaround", "slowdown", "bounded_slowdown"):
            for statistic in ("count", "mean", "median", "p95", "max"):
                assert flat[f"{name}.{statistic}"] == summary[name][statistic]
        assert flat["slowdown.undefined"] == summary["slowdown"]["undefined"] > 0
        assert flat["makespan"] == summary["makespan"]
        assert flat["utilisation"] == pytest.approx(summary["utilisation"], rel=1e-12)


def test_attempts_hold_nodes_and_only_the_last_is_judged(folder):
    path = write_swf(folder / "kept.swf", [(0, 100, 1), (10, 50, 2), (20, 5, 2)])
    scenario = folder / "scenario.toml"
    scenario.write_text(
        f'[workload]\nswf = "{path}"\n[platform]\nnodes = 2\n'
        '[run]\non_node_down = "requeue"\n'
        '[[node_changes]]\nat = "40s"\nnodes = "0"\nstate = "down"\n'
        '[[node_changes]]\nat = "70s"\nnodes = "0"\nstate = "up"\n'
    )
    run(scenario, out=folder / "requeued", force=True)
    found = open_run(folder / "requeued")
    table = rows(folder / "requeued" / "jobs.csv")
    assert any(row["attempt"] == "2" for row in table)

    sample = Sample(found)
    assert len(sample.jobs) == 3
    held = sum(
        (Fraction(row["finish_time"]) - Fraction(row["starting_time"]))
        * int(row["requested_number_of_resources"])
        for row in table
        if row["starting_time"]
    )
    assert run_measures(sample)["utilisation"] == pytest.approx(
        float(held / (2 * (sample.end - sample.begin)))
    )
    assert run_measures(sample)["utilisation"] == pytest.approx(found.summary["utilisation"])
    # The second attempt waits from the end of the first, not from the submission.
    first, second = (row for row in table if row["job_id"] == "1")
    restart, kill = Fraction(second["starting_time"]), Fraction(first["finish_time"])
    others = [row for row in table if row["job_id"] != "1"]
    waited = sum(Fraction(row["waiting_time"]) for row in others) + restart - kill
    queued = run_measures(sample)["queue_mean"] * (sample.end - sample.begin)
    assert queued == pytest.approx(float(waited))


def test_a_metric_of_ones_own_goes_by_its_path(runs, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "def felt(jobs):\n    '''How long it felt.'''\n    return jobs.wait ** 0.5\n"
        "def short(jobs):\n    return jobs.wait[1:]\n"
        "def broken(jobs):\n    return jobs.weight\n"
    )
    sample = Sample(open_run(runs[0]))

    found = job_measures(sample, [f"{own}:felt"])
    assert found["felt"].mean == pytest.approx(float((sample.jobs.wait**0.5).mean()))
    assert job_metric(f"{own}:felt").definition == "How long it felt."
    with pytest.raises(UsageError, match=r"gives an array of shape \(\d+,\) for \d+ jobs"):
        job_measures(sample, [f"{own}:short"])
    with pytest.raises(UsageError, match=r"has no attribute 'weight' \(mine.py:7\)"):
        job_measures(sample, [f"{own}:broken"])
    with pytest.raises(UsageError, match="no function 'absent'"):
        job_metric(f"{own}:absent")
    with pytest.raises(UsageError, match="did you mean 'slowdown'"):
        job_metric("slowdwn")


@pytest.mark.parametrize("rule", ["soon", "-5s", "1000%x", ""])
def test_a_rule_that_cuts_off_nothing_is_refused(rule):
    with pytest.raises(UsageError, match="cuts off nothing"):
        Window(rule)


def test_the_registry_is_in_the_documentation():
    page = (PROJECT / "server" / "RESULTS.md").read_text()

    _, _, rest = page.partition("<!-- generated: metrics -->\n\n")
    generated, _, _ = rest.partition("\n\n<!-- end -->")
    assert generated == "\n".join(documentation())
    names = [metric.name for metric in (*JOB_METRICS, *RUN_METRICS)]
    assert len(set(names)) == len(names)


# ---------------------------------------------------------------------- at length


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.shared
def test_metrics_of_two_hundred_thousand_jobs_are_those_of_plain_python(tmp_path):
    trace = shared("traces", "HPC2N-2002-2.2-cln.swf.gz")
    run(swf=trace, nodes=240, select="archive", policy="easy", out=tmp_path / "run")
    with (tmp_path / "run" / "jobs.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) > 200_000

    waits = [int(row["waiting_time"]) for row in table]
    executions = [int(row["execution_time"]) for row in table]
    sizes = [int(row["requested_number_of_resources"]) for row in table]
    expected = {
        "wait": [float(wait) for wait in waits],
        "slowdown": [
            (wait + ran) / ran for wait, ran in zip(waits, executions, strict=True) if ran
        ],
        "bounded_slowdown": [
            max(1.0, (wait + ran) / max(ran, 10))
            for wait, ran in zip(waits, executions, strict=True)
        ],
        "per_processor_bounded_slowdown": [
            max(1.0, (wait + ran) / (size * max(ran, 10)))
            for wait, ran, size in zip(waits, executions, sizes, strict=True)
        ],
    }
    found = measures(open_run(tmp_path / "run"))
    for name, plain in expected.items():
        plain.sort()
        assert found[f"{name}.count"] == len(plain)
        assert found[f"{name}.mean"] == pytest.approx(math.fsum(plain) / len(plain), rel=1e-12)
        assert found[f"{name}.max"] == plain[-1]
        cuts = statistics.quantiles(plain, n=100, method="inclusive")
        for statistic, place in (("p5", 4), ("q1", 24), ("median", 49), ("q3", 74), ("p99", 98)):
            assert found[f"{name}.{statistic}"] == pytest.approx(cuts[place], rel=1e-9)
    work = sum(size * ran for size, ran in zip(sizes, executions, strict=True))
    span = max(int(row["finish_time"]) for row in table) - min(
        int(row["submission_time"]) for row in table
    )
    assert found["makespan"] == span
    assert found["utilisation"] == pytest.approx(work / (240 * span), rel=1e-12)
    assert found["queue_mean"] == pytest.approx(sum(waits) / span, rel=1e-12)
    plain_lost, plain_longest = swept(table)
    assert found["loss_of_capacity"] == pytest.approx(plain_lost / (240 * span), rel=1e-12)
    assert found["queue_max"] == plain_longest
    users = {}
    for row, wait, ran in zip(table, waits, executions, strict=True):
        users.setdefault(row["user"], []).append(max(1.0, (wait + ran) / max(ran, 10)))
    means = [math.fsum(each) / len(each) for each in users.values()]
    assert found["jain_index"] == pytest.approx(
        sum(means) ** 2 / (len(means) * sum(mean**2 for mean in means)), rel=1e-9
    )


def swept(table):
    """Return lost node seconds and the longest queue, by a sweep over all events."""
    changes = {}
    for row in table:
        size = int(row["requested_number_of_resources"])
        for column, used, waiting, jobs in (
            ("submission_time", 0, size, 1),
            ("starting_time", size, -size, -1),
            ("finish_time", -size, 0, 0),
        ):
            change = changes.setdefault(int(row[column]), [0, 0, 0])
            change[0] += used
            change[1] += waiting
            change[2] += jobs
    used = waiting = jobs = lost = longest = 0
    last = None
    for instant in sorted(changes):
        if last is not None:
            lost += min(waiting, 240 - used) * (instant - last)
        used, waiting, jobs = (
            total + change
            for total, change in zip((used, waiting, jobs), changes[instant], strict=True)
        )
        longest, last = max(longest, jobs), instant
    return lost, longest
