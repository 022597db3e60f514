"""Every command in the examples' README prints what stands below it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PROJECT

README = (PROJECT / "examples" / "README.md").read_text()
FRONT = (PROJECT / "README.md").read_text()


def commands() -> list[tuple[str, str]]:
    """Return each command with its output, in the order in which they stand."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.fixture
def workplace(tmp_path) -> Path:
    """A copy of the examples, with `parley` and `python` being those under test."""
    folder = tmp_path
    shutil.copytree(PROJECT / "examples", folder / "examples")
    programs = folder / "bin"
    programs.mkdir()
    for name, module in (("python", ""), ("parley", " -m parley_server.cli.main")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        script.chmod(0o755)
    return folder


def test_every_example_prints_what_its_page_says(workplace):
    environment = {**os.environ, "PATH": f"{workplace / 'bin'}:{os.environ['PATH']}"}
    printed = []
    for command, _ in commands():
        answer = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=workplace,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        printed.append((command, answer.stdout))
        assert not answer.stderr

    assert printed == commands()
    assert len(printed) >= 7


def test_every_example_stands_on_the_page():
    names = {path.name for path in (PROJECT / "examples").iterdir() if path.is_file()}
    named = {name for name in names if name in README}

    assert names - named == {"README.md"} - named


def test_the_dispatcher_of_the_front_page_is_the_one_among_the_examples():
    code = (PROJECT / "examples" / "shortest_first.py").read_text()
    shown = re.search(r"```python\n(.*?)```", FRONT, flags=re.DOTALL)

    assert code.endswith(shown.group(1))


def test_a_newcomer_finds_exactly_two_commands_on_the_front_page():
    assert len(re.findall(r"^\$ ", FRONT, flags=re.MULTILINE)) == 2


def test_the_smallest_dispatcher_needs_thirty_lines_and_nothing_of_parleys():
    code = (PROJECT / "examples" / "smallest.py").read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", code, flags=re.MULTILINE))

    assert len(code.splitlines()) <= 30
    assert imported == {"os", "msgpack", "zmq"}


def test_links_of_the_pages_lead_somewhere():
    for page in PROJECT.rglob("*.md"):
        others = {"runs", "node_modules"}
        if any(part.startswith(".") or part in others for part in page.parts):
            continue
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
