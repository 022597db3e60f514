"""A grid is all its combinations, each found possible before the first of them runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_server import Experiment
from parley_server.errors import InputError, ParleyError, UsageError
from parley_server.experiments.definition import GridSettings
from tests.support import PROJECT, parley, write_swf

JOBS = [(0, 10, 2, 20), (1, 5, 1, 20), (2, 10, 3, 20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid")
    write_swf(path / "one.swf", JOBS)
    write_swf(path / "two.swf", [*JOBS, (5, 5, 5, 5)])
    (path / "own.py").write_text(
        "class Mine:\n    ask = 'always'\n    def decide(self, view):\n        pass\n"
    )
    return path


def some(names, **more):
    return st.lists(st.sampled_from(names), min_size=1, unique=True, **more)


@settings(max_examples=20)
@given(
    workloads=some(["one.swf", "two.swf"]),
    platforms=some([4, 5, 6]),
    policies=some(["fifo", "sjf", "easy", "own.py:Mine"]),
    allocators=some(["first-fit", "best-fit"]),
    seeds=some([0, 1, 2]),
    repetitions=st.integers(1, 3),
    commands=st.booleans(),
)
def test_there_is_a_cell_for_every_combination_and_each_has_a_name_of_its_own(
    folder, workloads, platforms, policies, allocators, seeds, repetitions, commands
):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        cells = (
            Experiment(
                "x",
                workloads=workloads,
                platforms=platforms,
                policies=policies,
                allocators=allocators,
                commands={"mine": ["true"]} if commands else None,
                seeds=seeds,
                repetitions=repetitions,
            )
            .outlook()
            .cells
        )

    dispatchers = len(policies) * len(allocators) + commands
    wanted = len(workloads) * len(platforms) * dispatchers * len(seeds) * repetitions
    assert len(cells) == len({cell.name for cell in cells}) == wanted
    # The same is simulated whenever all but the repetition is the same, and only then.
    assert len({cell.digest for cell in cells}) == wanted // repetitions
    first = cells[: len(workloads) * len(platforms) * dispatchers]
    assert len({cell.row for cell in first}) == len(first)
    assert not (folder / "x").exists()


def test_a_workload_goes_with_the_platforms_it_names_and_a_policy_with_its_allocators(folder):
    experiment = Experiment(
        "x",
        workloads=[
            {"name": "a", "swf": str(folder / "one.swf"), "platforms": ["small"]},
            {"name": "b", "swf": str(folder / "two.swf"), "estimate": "exact"},
        ],
        platforms=[{"name": "small", "nodes": 5}, {"name": "large", "nodes": 9}],
        policies=["fifo", {"policy": "easy", "allocators": ["best-fit"], "name": "e"}],
        allocators=["first-fit", "worst-fit"],
    )

    found = {tuple(cell.row) for cell in experiment.outlook().cells}

    places = {("a", "small"), ("b", "small"), ("b", "large")}
    deciding = {("fifo", "first-fit"), ("fifo", "worst-fit"), ("e", "best-fit")}
    assert found == {(*place, *who) for place in places for who in deciding}


def test_what_is_added_in_python_is_as_if_it_stood_in_the_grid(folder):
    settings = {"workloads": [folder / "one.swf"], "platforms": [5], "seeds": [3]}
    added = Experiment("x", **settings)
    added.add_policies(["fifo", {"policy": "easy", "parameters": {"depth": 2}}], ["best-fit"])
    added.add_command("mine", ["true", "{endpoint}"])

    given_ = Experiment(
        "x",
        policies=["fifo", {"policy": "easy", "parameters": {"depth": 2}}],
        allocators=["best-fit"],
        commands={"mine": ["true", "{endpoint}"]},
        **settings,
    )

    assert list(added.outlook().cells) == list(given_.outlook().cells)


def test_paths_in_a_file_begin_where_the_file_lies(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "e.toml").write_text(
        'name = "here"\n[grid]\nworkloads = ["one.swf", {name = "t", swf = "two.swf"}]\n'
        'platforms = [5]\npolicies = ["own.py:Mine", {policy = "own.py:Mine", name = "again"}]\n'
    )

    experiment = Experiment.read(folder / "e.toml")

    assert experiment.directory == folder / "here"
    assert len(experiment.outlook().cells) == 4


def test_a_cell_is_another_when_what_decides_or_what_is_simulated_is(folder, tmp_path):
    code = tmp_path / "mine.py"
    trace = tmp_path / "t.swf"

    def digest(seed=0, **scenario):
        (cell,) = (
            Experiment(
                "x",
                workloads=[trace],
                platforms=[5],
                policies=[f"{code}:Mine"],
                seeds=[seed],
                scenario=scenario,
            )
            .outlook()
            .cells
        )
        return cell.digest

    code.write_text((folder / "own.py").read_text())
    write_swf(trace, JOBS)
    seen = [digest(), digest(seed=1), digest(run={"on_overrun": "kill"})]
    code.write_text((folder / "own.py").read_text() + "# changed\n")
    seen.append(digest())
    write_swf(trace, JOBS[:2])
    seen.append(digest())
    trace.rename(tmp_path / "elsewhere.swf")
    trace = tmp_path / "elsewhere.swf"
    seen.append(digest())

    assert len(set(seen)) == 5
    assert seen[-1] == seen[-2]


WRONG = [
    ('policies = ["eazy"]', "eazy", "easy"),
    ('policies = ["easy"]\nallocators = ["frist-fit"]', "frist-fit", "first-fit"),
    ('policies = [{policy = "easy", parameters = {detph = 2}}]', "detph", "depth"),
    ('policies = ["nowhere.py:Mine"]', "nowhere.py", ""),
    ('policies = ["own.py:Yours"]', "Yours", ""),
    ('policies = ["fifo", "fifo"]', "twice", ""),
    ('policies = ["fifo"]\nseeds = [1, 1]', "twice", ""),
    ('policies = ["fifo"]\nseeds = [-1]', "seeds", ""),
    ('policies = ["fifo"]\nrepetitions = 0', "repetitions", ""),
    ('policies = ["fifo"]\nreptitions = 2', "reptitions", "repetitions"),
    ("", "who decides", ""),
    ('commands = [{name = "c", command = ["no-such-program"]}]', "no-such-program", ""),
    ('commands = [{name = "c", command = []}]', "command", ""),
    ('commands = [{name = "../c", command = ["true"]}]', "name", ""),
    ('policies = ["fifo"]\nworkloads = ["none.swf"]', "none.swf", ""),
    ('policies = ["fifo"]\nworkloads = ["-"]', "none.swf|standard input|cannot be read|-", ""),
    ('policies = ["fifo"]\nworkloads = [{swf = "one.swf", slect = "all"}]', "slect", "select"),
    ('policies = ["fifo"]\nworkloads = [{swf = "one.swf", platforms = ["q"]}]', "'q'", ""),
    ('policies = ["fifo"]\nplatforms = [0]', "nodes", ""),
    ('policies = ["fifo"]\nplatforms = ["none.toml"]', "none.toml", ""),
    ('policies = ["fifo"]\nplatforms = [5, {nodes = 5}]', "two are called", ""),
    ('policies = ["fifo"]\n[scenario.run]\nseed = 5', "seeds", ""),
    ('policies = ["fifo"]\n[scenario.dispatcher]\npolicy = "easy"', "policies", ""),
    ('policies = ["fifo"]\n[scenario.run]\non_overrn = "kill"', "on_overrn", "on_overrun"),
    ('policies = ["fifo"]\n[analysis]\nwarmup = "a while"', "a while", ""),
    ('policies = ["fifo"]\n[analysis]\nmetrics = ["own.py:none"]', "none", ""),
    ('policies = ["fifo"]\n[analysis]\nmetrics = ["wiat"]', "wiat", "wait"),
]


@pytest.mark.parametrize(("grid", "told", "hint"), WRONG, ids=[grid[:60] for grid, _, _ in WRONG])
def test_a_name_that_stands_for_nothing_is_found_before_the_first_cell_runs(
    folder, tmp_path, grid, told, hint
):
    lines = grid if "workloads" in grid else f'workloads = ["one.swf"]\n{grid}'
    if not re.search(r"^platforms = \[", lines, flags=re.MULTILINE):
        lines = f"platforms = [5]\n{lines}"
    (folder / "wrong.toml").write_text(f'name = "wrong"\n[grid]\n{lines}\n')

    with pytest.raises(ParleyError) as caught:
        Experiment.read(folder / "wrong.toml", out=tmp_path / "out").run()

    message = str(caught.value)
    assert isinstance(caught.value, UsageError | InputError)
    assert re.search(told, message)
    assert hint in message
    assert "\n" not in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "name"),
        ("name = 5", "name"),
        ("[", "not TOML"),
        ('name = "x"', "grid"),
        ('name = "x"\ntime_limit = "0s"\n[grid]\npolicies = ["fifo"]', "time_limit"),
    ],
)
def test_a_file_that_is_no_experiment_is_told_in_one_line(tmp_path, text, told):
    (tmp_path / "e.toml").write_text(text)

    with pytest.raises(ParleyError, match=told) as caught:
        Experiment.read(tmp_path / "e.toml")

    assert str(tmp_path / "e.toml") in str(caught.value)


def test_the_file_on_the_page_is_an_experiment(tmp_path):
    page = (PROJECT / "server" / "EXPERIMENTS.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "e.toml").write_text(text)
    schema = json.loads((PROJECT / "schemas" / "experiment.schema.json").read_text())

    settings_ = Experiment.read(tmp_path / "e.toml").settings

    jsonschema.validate(tomllib.loads(text), schema)
    every = {*GridSettings.model_fields}
    assert {name for name in every if name in text} == every
    assert len(settings_.grid.workloads) == 2


def test_an_object_is_no_part_of_a_grid(folder):
    class Policy:
        pass

    with pytest.raises(UsageError, match=r"FILE\.py:NAME"):
        Experiment("x", workloads=[folder / "one.swf"], platforms=[5], policies=[Policy()])


def test_a_dry_run_lists_the_cells_and_leaves_nothing(folder):
    (folder / "dry.toml").write_text(
        'name = "dry"\n[grid]\nworkloads = ["one.swf"]\nplatforms = [5]\npolicies = ["fifo"]\n'
    )

    answer = parley("experiment", "run", folder / "dry.toml", "--dry-run")

    assert answer.stdout == "one.5-nodes.fifo.first-fit.s0.r1: to run\n"
    assert not (folder / "dry").exists()


def test_what_is_no_experiment_is_told_in_one_line(tmp_path):
    answer = parley("experiment", "status", tmp_path)

    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert "holds no experiment" in answer.stderr
    assert not list(Path(tmp_path).iterdir())
