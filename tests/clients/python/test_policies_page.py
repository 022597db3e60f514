"""The page of policies names all there are, and its commands run."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.testing import CliRunner

from parley_client import ALLOCATORS, ORDERS, POLICIES
from parley_client.catalogue import described
from parley_server.cli.main import app
from tests.support import PROJECT

PAGE = (PROJECT / "clients" / "python" / "POLICIES.md").read_text()
COMMANDS = re.findall(r"^`?parley (run .*?)`?$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ORDERS])
def test_every_rule_has_its_ties_its_cost_its_source_and_a_command(name):
    (section,) = re.findall(rf"^### {name}\n\n(.*?)\n(?=\n#)", PAGE, flags=re.MULTILINE | re.DOTALL)

    for part in ("Ties: ", "Cost: ", "Source: "):
        assert f"\n{part}" in section
    assert section.splitlines()[-1].startswith(f"`parley run examples/first.toml --policy {name} ")
    assert len(section.splitlines()) >= 5


@pytest.mark.parametrize("name", [*ORDERS, *ALLOCATORS])
def test_every_order_and_allocator_stands_on_the_page(name):
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_on_the_page_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(PROJECT)
    arguments = shlex.split(command)
    arguments[arguments.index("--out") + 1] = str(tmp_path / "run")
    answer = CliRunner().invoke(app, [*arguments, "--quiet"])

    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("name", ORDERS)
def test_the_name_of_an_order_is_strict_in_that_order(name, tmp_path, monkeypatch):
    monkeypatch.chdir(PROJECT)
    common = ["run", "examples/first.toml", "--quiet", "--out"]
    for out, flags in {
        "a": ["--policy", name],
        "b": ["--policy", "strict", "--order", name],
    }.items():
        assert CliRunner().invoke(app, [*common, str(tmp_path / out), *flags]).exit_code == 0

    assert (tmp_path / "a/jobs.csv").read_bytes() == (tmp_path / "b/jobs.csv").read_bytes()


def test_parley_policies_tells_of_each_its_parameters_and_source():
    answer = CliRunner().invoke(app, ["policies"])

    assert answer.exit_code == 0
    for one in described():
        assert one.source, one.name
        assert one.cost or one.kind == "order", one.name
        assert all(meaning for _, meaning in one.parameters.values()), one.name
        for line in one.lines():
            assert line in answer.output


def test_parley_policies_tells_of_one_alone():
    answer = CliRunner().invoke(app, ["policies", "easy"])

    assert "depth=1" in answer.output
    assert "conservative" not in answer.output
