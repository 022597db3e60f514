"""Who may import whom, and what the light parts must not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PROJECT


def test_the_contracts_between_packages_hold():
    linter = Path(sys.executable).parent / "lint-imports"
    answer = subprocess.run(
        [linter, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize(
    ("package", "unwanted"),
    [
        ("parley_client", {"numpy", "matplotlib", "parley_server"}),
        ("parley_protocol", {"numpy", "matplotlib", "zmq"}),
        ("parley_server.engine", {"numpy", "zmq", "pydantic", "msgpack"}),
        ("parley_server.cli.main", {"numpy", "matplotlib", "zmq", "pydantic", "rich", "jinja2"}),
        ("parley_server.results", {"numpy", "matplotlib", "jinja2"}),
        ("parley_server.results.measures", {"matplotlib", "jinja2"}),
        ("parley_server.api", {"numpy", "matplotlib", "rich"}),
        ("parley_server.experiments.lock", {"numpy", "matplotlib", "rich", "pydantic"}),
        ("parley_server.experiments.experiment", {"matplotlib", "rich", "jinja2"}),
    ],
)
def test_importing_a_package_does_not_import_what_it_can_do_without(package, unwanted):
    code = f"import sys, {package}; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert not unwanted & set(answer.stdout.split())


def test_the_project_speaks_of_itself_alone():
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False
    ).stdout.split(b"\0")
    if files == [b""]:
        pytest.skip("not a git checkout")
    unfinished = [
        name.decode()
        for name in filter(None, files)
        if name.endswith((b".py", b".md"))
        and name != b"tests/test_architecture.py"
        and any(mark in (PROJECT / name.decode()).read_text() for mark in ("TODO", "FIXME"))
    ]

    assert not unfinished
