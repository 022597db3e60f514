"""Cells run by themselves, and whatever happens to one of them happens to no other."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import jsonschema
import psutil
import pytest

from parley_server import Experiment
from parley_server.errors import InputError, UsageError
from parley_server.experiments.result import ExperimentResult
from parley_server.results.measures import measures
from parley_server.results.run_directory import open_run
from tests.benchmarks.bench import generate
from tests.support import PARLEY, PROJECT, parley, summary_of, write_swf
from tests.surviving import PATIENCE, wait_for

JOBS = [(0, 10, 2, 20), (1, 5, 1, 20), (2, 10, 3, 20), (3, 7, 2, 9), (4, 1, 1, 5)]

OWN = """
import os
import time


class Slow:
    '''First come, first served, by somebody who needs a while for each decision.'''

    ask = "always"

    def __init__(self, seconds: float = 0.01):
        self.seconds = seconds

    def decide(self, view):
        time.sleep(self.seconds)
        for job in list(view.queue):
            if not view.start(job):
                break


class Hung:
    ask = "always"

    def decide(self, view):
        if view.now_us > 0:
            time.sleep(1000)


class Broken:
    ask = "always"

    def decide(self, view):
        if view.now_us > 0:
            raise ValueError("no idea")


class Whimsical(Slow):
    '''Starts every other job, decided by the noise of the machine.'''

    def decide(self, view):
        for job in list(view.queue):
            if os.urandom(1)[0] % 2 or not view.running:
                view.start(job)


def doubled(jobs):
    '''Twice the wait.'''
    return 2 * jobs.wait
"""


@pytest.fixture
def folder(tmp_path):
    write_swf(tmp_path / "t.swf", JOBS)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def define(folder: Path, grid: str, **top: object) -> Path:
    path = folder / "e.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"name": "x", **top}.items()]
    path.write_text("\n".join([*lines, "[grid]", 'workloads = ["t.swf"]', "platforms = [4]", grid]))
    return path


def statuses(directory: Path) -> dict[str, str]:
    return {
        f"{record['policy']}.{record['seed']}": record["status"]
        for record in ExperimentResult(directory).records
    }


def inodes(directory: Path) -> dict[str, tuple[int, int]]:
    """Return what tells whether a cell's results were written again."""
    found = {}
    for path in directory.glob("cells/*/jobs.csv"):
        with contextlib.suppress(FileNotFoundError):
            found[path.parent.name] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def cells_of_processes(directory: Path) -> list[psutil.Process]:
    """Return all processes that have to do with cells of an experiment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and any(
                str(directory) in part for part in process.cmdline()
            ):
                found.append(process)
    return found


def test_a_cell_that_hangs_is_ended(folder):
    experiment = Experiment(
        "x",
        workloads=[folder / "t.swf"],
        platforms=[4],
        policies=[{"policy": f"{folder}/own.py:Hung", "name": "Hung"}],
        out=folder / "out",
        time_limit=4,
    )

    (record,) = experiment.run(plots=False).failed

    assert record["message"] == "ended: it took longer than 4 s (time_limit)"
    assert not cells_of_processes(folder / "out")


def test_what_fails_or_errs_keeps_no_other_cell_from_its_end(folder):
    experiment = Experiment(
        "x",
        workloads=[folder / "t.swf"],
        platforms=[4],
        policies=["easy", {"policy": f"{folder}/own.py:Broken", "name": "Broken"}],
        commands={"left": ["true"]},
        out=folder / "out",
        analysis={"metrics": [f"{folder}/own.py:doubled"]},
    )
    told = []

    result = experiment.run(jobs=2, plots=False, ended=told.append)

    records = {record["policy"]: record for record in result.records}
    messages = {name: record["message"] for name, record in records.items()}
    assert {name: record["status"] for name, record in records.items()} == {
        "easy": "complete",
        "Broken": "failed",
        "left": "failed",
    }
    assert "no idea" in messages["Broken"]
    assert "'true' exited with status 0 before the run was over" in messages["left"]
    assert sorted(end.number for end in told) == [1, 2, 3]
    assert not cells_of_processes(folder / "out")

    # What is known of the cell that is complete is what its files say.
    cell = folder / "out" / "cells" / records["easy"]["name"]
    found = records["easy"]["metrics"]
    expected = measures(open_run(cell))
    assert {name: found[name] for name in expected if not math.isnan(expected[name])} == {
        name: value for name, value in expected.items() if not math.isnan(value)
    }
    assert found["doubled.mean"] == 2 * summary_of(cell)["wait"]["mean"]
    assert found["process.memory_peak"] >= found["process.memory_mean"] > 10
    assert found["process.cpu_seconds"] > 0
    schema = json.loads((PROJECT / "schemas" / "cell.schema.json").read_text())
    for path in (folder / "out").glob("cells/*/cell.json"):
        jsonschema.validate(json.loads(path.read_text()), schema)

    # It can all be asked in SQL.
    with contextlib.closing(sqlite3.connect(folder / "out" / "experiment.sqlite")) as database:
        query = (
            "SELECT value FROM cells JOIN metrics ON cell = cells.name "
            "WHERE policy = 'easy' AND metrics.name = 'wait.mean'"
        )
        assert database.execute(query).fetchall() == [(found["wait.mean"],)]

    # Whoever has not succeeded is tried again, and nobody else.
    before = inodes(folder / "out")
    again = []
    experiment.run(plots=False, jobs=3, ended=again.append)
    assert {end.record["policy"] for end in again} == {"Broken", "left"}
    assert inodes(folder / "out")[records["easy"]["name"]] == before[records["easy"]["name"]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """An experiment of four cells of a second or two each, and its tables."""
    folder = tmp_path_factory.mktemp("calm")
    generate(folder / "t.swf", 100)
    (folder / "own.py").write_text(OWN)
    grid = 'policies = ["easy", {policy = "own.py:Slow", name = "slow"}]\nseeds = [1, 2]'
    path = define(folder, grid, out="calm")
    path.write_text(path.read_text().replace("platforms = [4]", "platforms = [100]"))
    answer = parley("experiment", "run", path, "--no-plots", "--jobs", 2)
    assert answer.returncode == 0, answer.stderr
    return folder


def test_what_was_killed_in_the_middle_goes_on_and_ends_as_if_undisturbed(undisturbed, tmp_path):
    definition, out = undisturbed / "e.toml", tmp_path / "out"
    command = [*PARLEY, "experiment", "run", definition, "--out", out, "--no-plots", "-j", "2"]
    runner = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(out.glob("cells/*/cell.json"))) >= 1)
    wait_for(lambda: cells_of_processes(out))
    runner.kill()
    runner.wait()
    # Not even what the kernel alone has ended leaves anybody behind.
    wait_for(lambda: not cells_of_processes(out), 15)
    complete = {path.parent.name for path in out.glob("cells/*/cell.json")}
    before = inodes(out)
    assert 1 <= len(complete) < 4

    answer = parley("experiment", "run", definition, "--out", out, "--no-plots", "-j", "2")

    assert answer.returncode == 0, answer.stderr
    assert f"{len(complete)} of 4 cells are complete already" in answer.stderr
    assert answer.stderr.count(": complete in") == 4 - len(complete)
    after = inodes(out)
    assert {name: after[name] for name in complete} == {name: before[name] for name in complete}
    for table in ("schedule.csv", "schedule.md", "schedule.tex"):
        expected = (undisturbed / "calm" / "tables" / table).read_bytes()
        assert (out / "tables" / table).read_bytes() == expected


def test_ctrl_c_leaves_what_is_complete_and_no_process(undisturbed, tmp_path):
    definition, out = undisturbed / "e.toml", tmp_path / "out"
    command = [*PARLEY, "experiment", "run", definition, "--out", out, "-j", "2"]
    runner = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(out.glob("cells/*/cell.json")))
    runner.send_signal(signal.SIGINT)
    _, said = runner.communicate(timeout=PATIENCE)

    assert runner.returncode == 130
    assert "the same command goes on from here" in said
    assert "Traceback" not in said
    assert not cells_of_processes(out)
    status = parley("experiment", "status", out).stdout
    assert "complete" in status
    assert "not running" in status


def test_two_experiments_in_one_directory_are_one_too_many(undisturbed, tmp_path):
    definition, out = undisturbed / "e.toml", tmp_path / "out"
    command = [*PARLEY, "experiment", "run", definition, "--out", out, "--no-plots", "-q"]
    runner = subprocess.Popen([*map(str, command)])
    wait_for(lambda: list(out.glob("cells/*/status.json")))
    second = parley("experiment", "run", definition, "--out", out)
    seen = parley("experiment", "status", out).stdout
    page = parley("watch", out, "--once")
    runner.terminate()
    runner.wait(PATIENCE)

    assert second.returncode == 2
    assert f"an experiment is running there already (process {runner.pid})" in second.stderr
    assert second.stderr.count("\n") == 1
    assert "1 running" in seen
    assert page.returncode == 0


def test_nothing_runs_again_of_what_is_complete_though_the_database_is_lost(undisturbed, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(undisturbed / "calm", out)
    expected = ExperimentResult(out).records
    (out / "experiment.sqlite").write_bytes(b"SQLite format 3\0" + b"rubbish" * 1000)

    with pytest.raises(InputError, match="not a sound database"):
        ExperimentResult(out)
    (out / "experiment.sqlite").unlink()
    with pytest.raises(InputError, match="holds no experiment"):
        ExperimentResult(out)
    result = Experiment.read(undisturbed / "e.toml", out=out).run(
        plots=False, ended=lambda end: pytest.fail(str(end))
    )

    assert result.records == expected


def test_a_changed_definition_is_noticed_and_replaces_nothing_unasked(folder):
    def experiment(seeds, **scenario):
        return Experiment(
            "x",
            workloads=[folder / "t.swf"],
            platforms=[4],
            policies=["fifo"],
            seeds=seeds,
            out=folder / "out",
            scenario=scenario,
        )

    experiment([1]).run(plots=False)
    before = inodes(folder / "out")
    with pytest.raises(UsageError, match="1 of 2 cells are complete, but of other settings"):
        experiment([1, 2], run={"on_overrun": "kill"}).run(plots=False)
    assert inodes(folder / "out") == before

    result = experiment([2]).run(plots=False)
    assert statuses(folder / "out") == {"fifo.2": "complete"}
    assert len(result.left_over) == 1
    assert set(before.items()) <= set(inodes(folder / "out").items())

    forced = experiment([1], run={"on_overrun": "kill"}).run(plots=False, force=True)
    assert forced.complete
    assert inodes(folder / "out").keys() > before.keys()
    assert not set(before.items()) <= set(inodes(folder / "out").items())


@pytest.mark.long
def test_other_rules_of_judging_measure_anew_and_run_nothing(folder):
    def experiment(**analysis):
        return Experiment(
            "x",
            workloads=[folder / "t.swf"],
            platforms=[4],
            policies=["fifo"],
            out=folder / "out",
            analysis=analysis,
        )

    (whole,) = experiment().run(plots=False).records
    before = inodes(folder / "out")
    (cut,) = experiment(warmup="3s").run(plots=False).records

    assert inodes(folder / "out") == before
    assert whole["metrics"]["wait.count"] == 5
    assert cut["metrics"]["wait.count"] == 2
    assert cut["metrics"]["process.cpu_seconds"] == whole["metrics"]["process.cpu_seconds"]
    assert cut["wall_seconds"] == whole["wall_seconds"]


def test_a_metric_that_errs_costs_no_run(folder):
    (folder / "metric.py").write_text("def mine(jobs):\n    return jobs.nothing\n")
    experiment = Experiment(
        "x",
        workloads=[folder / "t.swf"],
        platforms=[4],
        policies=["fifo"],
        out=folder / "out",
        analysis={"metrics": [f"{folder}/metric.py:mine"]},
    )
    (failed,) = experiment.run(plots=False).records
    before = inodes(folder / "out")
    (folder / "metric.py").write_text("def mine(jobs):\n    return jobs.wait + 1\n")
    (complete,) = experiment.run(plots=False).records

    assert failed["status"] == "failed"
    assert "metric.py:mine" in failed["message"]
    assert "nothing" in failed["message"]
    assert inodes(folder / "out") == before
    assert complete["status"] == "complete"
    assert complete["metrics"]["mine.mean"] == complete["metrics"]["wait.mean"] + 1
    assert complete["metrics"]["process.cpu_seconds"] == failed["metrics"]["process.cpu_seconds"]


@pytest.mark.long
def test_a_dispatcher_in_a_process_of_its_own_is_measured_apart(folder):
    result = Experiment(
        "x",
        workloads=[folder / "t.swf"],
        platforms=[4],
        policies=[
            {"policy": f"{folder}/own.py:Slow", "external": True, "parameters": {"seconds": 0.2}}
        ],
        out=folder / "out",
    ).run(plots=False)

    (record,) = result.records
    assert record["status"] == "complete", record["message"]
    assert record["metrics"]["process.dispatcher_memory_peak"] > 5
    assert record["metrics"]["process.dispatcher_seconds"] > 1
    assert record["metrics"]["dispatcher_share"] > 0.5


@pytest.mark.long
def test_repetitions_that_differ_are_told_of(folder):
    generate(folder / "t.swf", 60)
    result = Experiment(
        "x",
        workloads=[folder / "t.swf"],
        platforms=[100],
        policies=[f"{folder}/own.py:Whimsical"],
        repetitions=2,
        out=folder / "out",
    ).run(plots=False, jobs=2)

    assert result.disagreeing() == ["t on 100-nodes with own-Whimsical+first-fit"]
    assert "is not deterministic" in parley("experiment", "status", folder / "out").stderr


def test_a_disk_that_is_full_ends_it_in_one_line_and_nothing_is_lost(undisturbed, tmp_path):
    """No file may grow beyond so many bytes: the rows of a cell do, the database does not."""
    out = tmp_path / "out"
    definition = tmp_path / "e.toml"
    generate(tmp_path / "t.swf", 3000)
    text = (undisturbed / "e.toml").read_text()
    definition.write_text(text.replace('{policy = "own.py:Slow", name = "slow"}', '"fifo"'))
    arguments = ["experiment", "run", definition, "--out", out, "--no-plots"]

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))

    answer = parley(
        *arguments, preexec_fn=limited, env={**os.environ, "COVERAGE_PROCESS_START": ""}
    )

    assert answer.returncode == 1
    last = answer.stderr.splitlines()[-1]
    assert "jobs.csv: cannot be written: File too large" in last
    assert "3 cells were not begun" in last
    assert "Traceback" not in answer.stderr
    (left,) = out.glob("cells/*/jobs.csv")
    with left.open(newline="") as file:
        assert {len(row) for row in csv.reader(file)} == {26}
    assert statuses(out)["easy.1"] == "failed"


def test_a_directory_that_cannot_be_one_is_told_in_one_line(folder):
    (folder / "out").write_text("")
    experiment = Experiment(
        "x", workloads=[folder / "t.swf"], platforms=[4], policies=["fifo"], out=folder / "out"
    )

    with pytest.raises(UsageError, match="is a file"):
        experiment.run()


@pytest.mark.long
def test_every_plot_is_drawn_for_every_workload(folder):
    generate(folder / "t.swf", 200)
    result = Experiment(
        "x",
        workloads=[{"name": name, "swf": str(folder / "t.swf")} for name in ("a", "b")],
        platforms=[100],
        policies=["fifo", "sjf"],
        out=folder / "out",
    ).run(jobs=2)

    from parley_server.results.plots import PLOTS

    expected = {f"{plot.name}.{kind}" for plot in PLOTS for kind in ("png", "svg")}
    for workload in "ab":
        plots = folder / "out" / "plots" / f"{workload}.100-nodes"
        assert {path.name for path in plots.iterdir()} == expected
    whole = {path.name for path in (folder / "out" / "plots").iterdir() if path.is_file()}
    assert whole == {f"{name}.{kind}" for name in ("schedule", "cost") for kind in ("png", "svg")}
    drawn = {path: path.stat().st_mtime_ns for path in (folder / "out" / "plots").rglob("*.png")}
    again = ExperimentResult(folder / "out")
    assert again.drawn
    assert not again.failed
    only = parley("experiment", "plot", result.directory, "--plot", "wait-cdf", "--format", "png")
    assert [Path(line).name for line in only.stdout.splitlines()] == ["wait-cdf.png"] * 2
    changed = {path for path, at in drawn.items() if path.stat().st_mtime_ns != at}
    assert {path.name for path in changed} == {"wait-cdf.png"}


@pytest.mark.long
def test_the_time_left_is_shown_on_a_terminal(undisturbed, tmp_path):
    from tests.server.cli.test_watch import Terminal

    terminal = Terminal(
        *("experiment", "run", undisturbed / "e.toml", "--out", tmp_path / "out", "--no-plots")
    )
    try:
        terminal.read_until(r"time\s+left\s+unknown;\s+running:\s+t\.100-nodes\.\w+\.first-fit")
        terminal.read_until(r"1 of 4 cells complete,\s+about\s+[\d.]+\s+\w+\s+left")
    finally:
        terminal.process.terminate()
        terminal.process.wait(PATIENCE)
        terminal.close()
