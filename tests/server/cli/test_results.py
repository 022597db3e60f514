"""`parley plot`, `report`, `compare`, `metrics`, `export`: what they print, and how they refuse."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from parley_server import run
from parley_server.cli.main import app
from tests.support import parley, summary_of, write_swf


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return the directories of two runs of one workload."""
    directory = tmp_path_factory.mktemp("pair")
    lines = [(n * 3, 5 + n % 7 * 4, 1 + n % 4, 60) for n in range(60)]
    trace = write_swf(directory / "trace.swf", lines)
    for policy in ("fifo", "easy"):
        run(swf=trace, nodes=4, policy=policy, out=directory / policy)
    return directory / "fifo", directory / "easy"


@pytest.fixture
def damaged(pair, tmp_path):
    return shutil.copytree(pair[0], tmp_path / "damaged")


def here(*arguments):
    """Return what a command says that runs in this process: importing matplotlib takes seconds."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def refused(*arguments):
    """Return the one line in which a command refuses."""
    answer = here(*arguments)
    assert answer.exit_code == 2, answer.stderr
    assert answer.stderr.count("\n") == 1
    assert "Traceback" not in answer.stderr
    return answer.stderr


# ---------------------------------------------------------------------- what they print


def test_plots_are_written_where_they_are_wanted(pair, tmp_path):
    answer = parley("plot", *pair, "--plot", "wait-cdf", "--plot", "metrics", "--out", tmp_path)

    assert answer.returncode == 0, answer.stderr
    names = ["wait-cdf.png", "wait-cdf.svg", "metrics.png", "metrics.svg"]
    assert answer.stdout.splitlines() == [str(tmp_path / name) for name in names]
    assert all((tmp_path / name).stat().st_size > 5000 for name in names)


def test_a_report_is_one_file(pair, tmp_path):
    out = tmp_path / "page.html"
    answer = parley("report", pair[0], "--out", out, "--plot", "wait-box", "--title", "Mine")

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"{out}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "<h1>Mine</h1>" in out.read_text()


def test_a_comparison_is_printed(pair):
    answer = parley("compare", *pair)

    assert answer.returncode == 0
    assert answer.stderr == ""
    head, columns, wait, *_ = answer.stdout.splitlines()
    assert head == "easy, against fifo"
    assert columns.split()[:4] == ["jobs", "first", "second", "difference"]
    assert wait.split()[:2] == ["wait", "60"]
    (table,) = json.loads(here("compare", *pair, "--json").stdout)
    stated = summary_of(pair[1])["wait"]["mean"] - summary_of(pair[0])["wait"]["mean"]
    assert table["metrics"][0]["difference"]["value"] == pytest.approx(stated)


def test_runs_of_other_rules_are_compared_with_a_warning(pair, tmp_path):
    trace = pair[0].parent / "trace.swf"
    run(swf=trace, nodes=4, on_overrun="kill", out=tmp_path / "kill")

    answer = here("compare", pair[0], tmp_path / "kill")
    assert answer.exit_code == 0
    assert "fifo and kill: not the same rules: on_overrun is 'run' and 'kill'" in answer.stderr


def test_metrics_are_printed_as_a_table_and_as_json(pair):
    table = here("metrics", *pair, "--label", "A", "--label", "B")
    told = json.loads(here("metrics", *pair, "--json").stdout)

    assert table.stdout.split("\n", 1)[0].split() == ["A", "B"]
    assert [each["run"] for each in told] == ["fifo", "easy"]
    for each, directory in zip(told, pair, strict=True):
        assert each["jobs"]["wait"]["mean"] == summary_of(directory)["wait"]["mean"]
        assert each["metrics"]["utilisation"] == pytest.approx(summary_of(directory)["utilisation"])
    by = json.loads(here("metrics", pair[0], "--by", "size", "--json").stdout)
    assert list(by[0]["classes"]["wait"]) == ["1", "2", "3-4"]


def test_metrics_without_a_run_are_documented():
    answer = here("metrics")

    assert answer.exit_code == 0
    assert "bounded_slowdown: max(1, turnaround / max(execution, 10 s))" in answer.stdout


def test_an_export_lies_beside_the_run(damaged):
    answer = here("export", damaged, "--to", "machine-states")

    assert answer.stdout == f"{damaged / 'machine_states.csv'}\n"
    header = (damaged / "machine_states.csv").read_text().partition("\n")[0]
    assert header == "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"


# ---------------------------------------------------------------------- how they refuse


def test_what_is_no_run_is_refused(pair, tmp_path):
    assert "there is no such directory" in refused("report", tmp_path / "absent")
    assert "holds no run (no jobs.csv)" in refused("plot", tmp_path)
    assert "2 labels for 1 runs" in refused("metrics", pair[0], "--label", "A", "--label", "B")
    assert "takes two runs or more" in refused("compare", pair[0])
    assert "is a directory" in refused("report", pair[0], "--out", tmp_path)


def test_a_run_that_is_cut_off_is_refused_and_read_in_part(damaged):
    content = (damaged / "jobs.csv").read_bytes()
    (damaged / "jobs.csv").write_bytes(content[:-20])

    assert "jobs.csv: line 61: ends in the middle of a row" in refused("metrics", damaged)
    (damaged / "summary.json").unlink()
    assert "still going on, or was killed (--partial reads" in refused("metrics", damaged)
    answer = here("metrics", damaged, "--partial", "--json")
    assert json.loads(answer.stdout)[0]["jobs"]["wait"]["count"] == 59


def test_names_that_stand_for_nothing_are_refused(pair):
    assert "did you mean 'gantt'" in refused("plot", pair[0], "--plot", "gant")
    assert "did you mean 'wait'" in refused("compare", *pair, "--metric", "wai")
    assert "did you mean 'user'" in refused("metrics", pair[0], "--by", "users")
    assert "known: decision, performance" in refused("plot", pair[0], "--kind", "speed")
    assert "a plot is png, svg or pdf" in refused("plot", pair[0], "--format", "bmp")
    assert "cuts off nothing" in refused("metrics", pair[0], "--warmup", "soon")
    assert "did you mean 'paje'" in refused("export", pair[0], "--to", "pajé")
