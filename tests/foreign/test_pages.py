"""What the pages say of the dispatchers in other languages is what happens."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.examples.test_examples import README, workplace
from tests.foreign.languages import LANGUAGES, Language, require
from tests.support import PROJECT

__all__ = ["workplace"]


def commands(name: str) -> list[tuple[str, str]]:
    """Return each command of a language on the examples' page, with its output."""
    found = []
    for block in re.findall(rf"```console {name}\n(.*?)```", README, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_every_example_in_a_language_prints_what_its_page_says(language: Language, workplace):
    require(language)
    (workplace / "clients").symlink_to(PROJECT / "clients")
    environment = {**os.environ, "PATH": f"{workplace / 'bin'}:{os.environ['PATH']}"}
    printed = []
    for command, _ in commands(language.name):
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

    assert printed == commands(language.name)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_the_examples_start_each_language_as_the_front_page_does(language: Language):
    start = f"-- {' '.join(language.programs['easy'])}"
    front = (PROJECT / "README.md").read_text()

    assert any(start in command for command, _ in commands(language.name))
    assert start in front
    assert f"clients/{language.name}/README.md" in front


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_a_page_begins_with_the_command_that_builds(language: Language):
    page = PROJECT / "clients" / language.name / "README.md"
    if not page.exists():
        require(language)
    first = re.search(r"^```\w*\n(.*?)\n```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    build = language.build.strip("()").split(" && ")[0]

    assert "\n" not in first.group(1)
    assert build.removesuffix(" package") in first.group(1)
