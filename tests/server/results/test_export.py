"""Runs for other tools: what they read is what happened."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import venv
from fractions import Fraction
from itertools import pairwise

import pytest

from parley_server.errors import OutputError, UsageError
from parley_server.results.export import MACHINE_STATE_COLUMNS, export, machine_states
from parley_server.results.measures import measures
from parley_server.results.run_directory import open_run
from tests.support import rows, shared


def placed(directory):
    """Return the jobs that held nodes, with exact times and sets of nodes."""
    found = []
    for row in rows(directory / "jobs.csv"):
        if row["allocated_resources"]:
            nodes = set()
            for part in row["allocated_resources"].split():
                first, _, last = part.partition("-")
                nodes.update(range(int(first), int(last or first) + 1))
            times = Fraction(row["starting_time"]), Fraction(row["finish_time"])
            found.append((row["job_id"], *times, nodes))
    return found


# ---------------------------------------------------------------------- Batsim


@pytest.mark.parametrize("which", ["whole", "shared"])
def test_a_node_computes_while_a_job_holds_any_of_it(runs, shared_nodes, which):
    directory, nodes = (runs[1], 8) if which == "whole" else (shared_nodes, 3)
    jobs = placed(directory)

    header, *lines = csv.reader(machine_states(open_run(directory)))
    assert tuple(header) == MACHINE_STATE_COLUMNS
    states = [(Fraction(line[0]), *map(int, line[1:])) for line in lines]
    assert all(sum(state[1:]) == nodes and not any(state[1:4]) for state in states)
    assert states[0][0] == 0
    assert all(one[0] < two[0] and one[5] != two[5] for one, two in pairwise(states))
    for at, *_, computing in states:
        held = set().union(*(held for _, start, end, held in jobs if start <= at < end))
        assert computing == len(held)
    # Between two of its rows nothing changes.
    changes = {at for at, *_ in states}
    for low, high in pairwise(sorted({at for _, *times, _ in jobs for at in times})):
        held = set().union(*(held for _, start, end, held in jobs if start <= low < end))
        before = max(at for at in changes if at <= low)
        assert {state[0]: state[5] for state in states}[before] == len(held), (low, high)


# ---------------------------------------------------------------------- Paje


def read_paje(path):
    """Return the events of a trace by name, each with its fields."""
    kinds, fields, current, found = {}, {}, None, []
    for line in path.read_text().splitlines():
        match line.split():
            case ["%EventDef", name, number]:
                current = kinds[number] = name
                fields[name] = []
            case ["%EndEventDef"]:
                current = None
            case ["%", field, _]:
                fields[current].append(field)
            case _:
                (values,) = csv.reader([line], delimiter=" ", quotechar='"')
                name = kinds[values[0]]
                # Fields of a definition may carry more, such as a colour.
                found.append((name, dict(zip(fields[name], values[1:], strict=True))))
    return found


@pytest.mark.parametrize("which", ["whole", "shared"])
def test_a_paje_trace_shows_each_job_on_its_nodes(runs, shared_nodes, which, tmp_path):
    directory, nodes = (runs[1], 8) if which == "whole" else (shared_nodes, 3)
    (path,) = export(open_run(directory), "paje", tmp_path / "t.trace")

    events = read_paje(path)
    made = [event["Alias"] for name, event in events if name == "PajeCreateContainer"]
    gone = [event["Name"] for name, event in events if name == "PajeDestroyContainer"]
    assert sorted(made) == sorted(gone) == sorted(["M", *(f"n{node}" for node in range(nodes))])
    times = [Fraction(event["Time"]) for _, event in events if "Time" in event]
    assert times == sorted(times)
    states = {f"n{node}": [] for node in range(nodes)}
    for name, event in events:
        if name == "PajeSetState":
            states[event["Container"]].append((Fraction(event["Time"]), event["Value"]))
    jobs = placed(directory)
    for node in range(nodes):
        shown = states[f"n{node}"]
        for (at, value), after in zip(shown, [*shown[1:], None], strict=True):
            if after is not None and after[0] == at:
                continue
            held = [job for job, start, end, held in jobs if start <= at < end and node in held]
            assert sorted(value.split("+")) == sorted(held or ["idle"])


def test_a_paje_trace_has_the_queue(runs, tmp_path):
    (path,) = export(open_run(runs[0]), "paje", tmp_path)

    assert path == tmp_path / "schedule.trace"
    queue = [
        (Fraction(event["Time"]), int(event["Value"]))
        for name, event in read_paje(path)
        if name == "PajeSetVariable"
    ]
    table = [row for row in rows(runs[0] / "jobs.csv") if row["starting_time"]]
    for at, length in queue:
        assert length == sum(
            Fraction(row["submission_time"]) <= at < Fraction(row["starting_time"]) for row in table
        )


# ---------------------------------------------------------------------- Parquet


def test_parquet_holds_what_the_csv_holds(runs, tmp_path):
    from pyarrow import parquet

    paths = export(open_run(runs[1]), "parquet", tmp_path)
    assert [path.name for path in paths] == ["jobs.parquet", "decisions.parquet", "timing.parquet"]
    for path in paths:
        table = parquet.read_table(path)
        expected = rows(runs[1] / f"{path.stem}.csv")
        assert table.column_names == list(expected[0])
        for found, row in zip(table.to_pylist(), expected, strict=True):
            for name, text in row.items():
                match found[name]:
                    case None:
                        assert not text
                    case str() as value:
                        assert value == text
                    case value:
                        assert value == pytest.approx(float(text), rel=1e-15)


def test_without_pyarrow_it_is_told_what_to_install(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(UsageError, match=r"pip install 'parley-sim\[parquet\]'"):
        export(open_run(runs[0]), "parquet", tmp_path)


# ---------------------------------------------------------------------- bad input


def test_what_nobody_reads_is_not_written(runs, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'paje'"):
        export(open_run(runs[0]), "page", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        export(open_run(runs[0]), "paje", tmp_path / "file" / "t.trace")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ---------------------------------------------------------------------- evalys

_EVALYS = """
import json, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas
from evalys.jobset import JobSet
from evalys.metrics import load_mean

path, nodes, picture = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jobs = JobSet.from_csv(path, resource_bounds=(0, nodes - 1))
frame = jobs.df[jobs.df.finish_time.notna()]
if picture != "-":
    jobs.gantt()
    plt.savefig(picture)
print(json.dumps({
    "jobs": len(frame),
    "wait": frame.waiting_time.mean(),
    "turnaround": frame.turnaround_time.mean(),
    "slowdown": frame.stretch.mean(),
    "median": frame.waiting_time.median(),
    "p95": frame.waiting_time.quantile(0.95),
    "utilisation": load_mean(jobs.utilisation) / nodes,
    "columns": list(pandas.read_csv(path).columns),
}))
"""


@pytest.fixture(scope="session")
def evalys(tmp_path_factory):
    """Return a Python of its own that has evalys."""
    home = tmp_path_factory.mktemp("evalys")
    venv.create(home, with_pip=True)
    subprocess.run(
        [home / "bin" / "pip", "install", "-q", "evalys==4.0.7"],
        check=True,
        timeout=280,
    )
    return home / "bin" / "python"


def asked(evalys, directory, nodes, picture="-"):
    answer = subprocess.run(
        [evalys, "-c", _EVALYS, directory / "jobs.csv", str(nodes), picture],
        check=True,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=directory,
    )
    return json.loads(answer.stdout.splitlines()[-1])


def agrees(told, found):
    assert told["jobs"] == found["wait.count"]
    assert told["wait"] == pytest.approx(found["wait.mean"])
    assert told["median"] == pytest.approx(found["wait.median"])
    assert told["p95"] == pytest.approx(found["wait.p95"])
    assert told["turnaround"] == pytest.approx(found["turnaround.mean"])
    # Batsim's stretch has six decimals.
    assert told["slowdown"] == pytest.approx(found["slowdown.mean"], rel=1e-6)


@pytest.mark.long
def test_evalys_draws_a_run_and_computes_the_same(runs, evalys, tmp_path):
    told = asked(evalys, runs[1], 8, str(tmp_path / "gantt.png"))

    from matplotlib.image import imread

    assert imread(tmp_path / "gantt.png").std() > 0.05
    agrees(told, measures(open_run(runs[1])))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.shared
def test_evalys_computes_the_same_of_two_hundred_thousand_jobs(evalys, tmp_path):
    from parley_server import run

    trace = shared("traces", "HPC2N-2002-2.2-cln.swf.gz")
    run(swf=trace, nodes=240, select="archive", policy="easy", out=tmp_path / "run")
    found = measures(open_run(tmp_path / "run"))

    told = asked(evalys, tmp_path / "run", 240)
    agrees(told, found)
    assert found["wait.count"] > 200_000
    # evalys begins with the first start, a metric of ours with the first submission; in this
    # trace the first job starts when it is submitted.
    assert told["utilisation"] == pytest.approx(found["utilisation"])
