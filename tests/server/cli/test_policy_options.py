"""Policies and their parameters on the command line, in a scenario and from Python."""

from __future__ import annotations

import tomllib

import pytest
from typer.testing import CliRunner

from parley_client import Easy
from parley_server import run
from parley_server.cli.main import app
from parley_server.errors import UsageError
from tests.support import summary_of, write_swf

OWN = """
class Mine:
    def __init__(self, most: int = 2):
        self.most = most

    def decide(self, view):
        for job in view.queue:
            if len(view.running) < self.most:
                view.start(job)


def function(view, most=1):
    Mine(most).decide(view)


class Nowhere:
    def allocate(self, job, cluster):
        return None


broken = 7
"""

JOBS = [(0, 50, 3, 60), (1, 30, 4, 90), (2, 20, 2, 20), (3, 10, 1, 300), (4, 10, 1, 10)]


@pytest.fixture
def folder(tmp_path):
    write_swf(tmp_path / "trace.swf", JOBS)
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path


def parley(folder, *flags, out="out"):
    common = ["run", "--swf", str(folder / "trace.swf"), "--nodes", "4", "--quiet"]
    return CliRunner().invoke(app, [*common, "--out", str(folder / out), *map(str, flags)])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--policy", "esay"], "no policy 'esay' (did you mean 'easy'?)"),
        (["--policy", "easy", "--allocator", "bestfit"], "(did you mean 'best-fit'?)"),
        (["--policy", "easy", "--order", "sfj"], "no order 'sfj' (did you mean 'sjf'?)"),
        (["--policy", "easy", "--depth", "0"], "depth is a whole number, at least 1"),
        (["--policy", "strict", "--depth", "2"], "no parameter 'depth'"),
        (["--policy", "easy", "--set", "depth"], "NAME=VALUE"),
        (["--policy", "easy", "--depth", "2", "--set", "depth=3"], "given twice"),
        (["--policy", "easy", "--interval", "often"], "interval is a time"),
        (["--policy", "{}/none.py:Mine"], "no such file"),
        (["--policy", "{}/mine.py:Yours"], "has no 'Yours'; there are: Mine, Nowhere, function"),
        (["--policy", "{}/mine.py:broken"], "is no policy"),
        (["--policy", "{}/mine.py:Mine", "--set", "least=1"], "no parameter 'least'"),
        (["--policy", "easy", "--allocator", "{}/mine.py:Nowhere"], "cannot work with allocator"),
        (["--policy", "conservative", "--order", "{}/mine.py"], "FILE.py:NAME"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_is_written(folder, flags, words):
    answer = parley(folder, *(flag.replace("{}", str(folder)) for flag in flags))

    assert answer.exit_code == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not (folder / "out").exists()


def test_a_policy_of_one_s_own_is_named_by_where_it_stands(folder):
    assert parley(folder, "--policy", f"{folder}/mine.py:Mine", "--set", "most=1").exit_code == 0
    assert parley(folder, "--policy", f"{folder}/mine.py:function", out="b").exit_code == 0

    assert (folder / "out/jobs.csv").read_bytes() == (folder / "b/jobs.csv").read_bytes()


def test_paths_in_a_scenario_begin_at_its_file_and_flags_change_single_parameters(folder):
    scenario = folder / "scenario.toml"
    scenario.write_text(
        '[platform]\nnodes = 4\n[workload]\nswf = "trace.swf"\n'
        '[dispatcher]\npolicy = "mine.py:Mine"\nparameters = { most = 1 }\n'
    )
    one = run(scenario, out=folder / "one")
    three = run(scenario, out=folder / "three", parameters={"most": 3})
    easy = run(scenario, out=folder / "easy", policy="easy")

    def resolved(result):
        return tomllib.loads(result.files.scenario.read_text())["dispatcher"]

    assert resolved(one)["policy"] == f"{folder}/mine.py:Mine"
    assert resolved(one)["parameters"] == {"most": 1}
    assert resolved(three)["parameters"] == {"most": 3}
    assert "parameters" not in resolved(easy)
    assert one.summary["makespan"] > three.summary["makespan"]


def test_names_on_the_command_line_and_objects_from_python_are_the_same(folder):
    flags = ["--order", "sjf", "--depth", "2", "--backfill-order", "largest"]
    assert parley(folder, "--policy", "easy", *flags).exit_code == 0
    result = run(
        swf=folder / "trace.swf",
        nodes=4,
        policy=Easy(order="sjf", depth=2, backfill_order="largest"),
        out=folder / "python",
    )

    assert result.files.jobs.read_bytes() == (folder / "out/jobs.csv").read_bytes()
    assert summary_of(folder / "out")["dispatcher"]["parameters"] == {
        "order": "sjf",
        "depth": 2,
        "backfill_order": "largest",
    }


def test_parameters_of_an_object_are_its_own(folder):
    with pytest.raises(UsageError, match="an object has its own"):
        run(
            swf=folder / "trace.swf",
            nodes=4,
            policy=Easy(),
            parameters={"depth": 2},
            out=folder / "out",
        )
