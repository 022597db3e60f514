"""Who starts a dispatcher that cannot run is told in one line what is missing and what helps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from parley_server.host.remedies import for_absent, for_failure
from tests.support import PROJECT, parley

SCENARIO = PROJECT / "examples" / "first.toml"


def said(tmp_path: Path, *command: object, path: str | None = None) -> tuple[int, list[str]]:
    """Return the exit status of a run with a dispatcher, and the lines of its complaint."""
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    process = parley(
        *("run", SCENARIO, "--quiet", "--out", tmp_path / "out", "--", *command), env=environment
    )
    return process.returncode, process.stderr.splitlines()


def interpreter(folder: Path, name: str) -> str:
    """Put an interpreter that fails into a folder; return a PATH with it in front."""
    folder.mkdir()
    program = folder / name
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("file", "program", "build"),
    [
        ("CMakeLists.txt", "build/mine", "cmake -S {0} -B {0}/build && cmake --build {0}/build"),
        (
            "Cargo.toml",
            "target/release/mine",
            "cargo build --release --manifest-path {0}/Cargo.toml",
        ),
        ("go.mod", "bin/mine", "(cd {0} && go build -o bin/ ./...)"),
    ],
)
def test_a_program_that_was_not_built_is_named_with_the_command_that_builds_it(
    tmp_path, file, program, build
):
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / file).touch()
    (folder / "README.md").touch()

    status, lines = said(tmp_path, folder / program)

    assert status == 2
    (line,) = lines
    assert line == (
        f"parley: there is no command '{folder / program}'; "
        f"build it: {build.format(folder)}, as {folder}/README.md has it"
    )


def test_an_interpreter_that_is_not_installed_is_named_with_its_package(tmp_path):
    assert shutil.which("java", path=str(tmp_path)) is None

    status, lines = said(tmp_path, "java", "-cp", "mine.jar", "mine.Fifo", path=str(tmp_path))

    assert status == 2
    assert lines == [
        "parley: there is no command 'java'; on Debian: apt install default-jre-headless"
    ]


def test_an_archive_that_was_not_built_is_named_with_the_command_that_builds_it(tmp_path):
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "pom.xml").touch()
    jar = folder / "target" / "mine.jar"

    status, lines = said(
        tmp_path, "java", "-cp", jar, "mine.Fifo", path=interpreter(tmp_path / "bin", "java")
    )

    assert status == 1
    assert lines[-1] == (
        "parley: the dispatcher 'java' exited with status 1 before the run was over: "
        f"{jar} is not there; build it: mvn -q -f {folder} package"
    )


def test_a_script_whose_packages_are_not_installed_is_told_how_they_are(tmp_path):
    folder = tmp_path / "client"
    (folder / "dispatchers").mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    script = folder / "dispatchers" / "mine.mjs"
    script.touch()

    status, lines = said(tmp_path, "node", script, path=interpreter(tmp_path / "bin", "node"))

    assert status == 1
    assert lines[-1] == (
        "parley: the dispatcher 'node' exited with status 1 before the run was over: "
        f"{folder}/node_modules is not there; build it: npm install --prefix {folder}"
    )


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd, to see what is loaded")
def test_a_shared_library_that_is_missing_is_named(tmp_path):
    # Any program will do: it now asks for a library that there is not.
    program = tmp_path / "mine"
    program.write_bytes(
        Path(shutil.which("true")).resolve().read_bytes().replace(b"libc.so.6\0", b"libq.so.6\0")
    )
    program.chmod(0o755)

    status, lines = said(tmp_path, program)

    assert status == 1
    assert lines[-1].endswith("before the run was over: libq.so.6 not found")


def test_a_failure_whose_files_are_all_there_is_not_explained_away(tmp_path):
    script = tmp_path / "mine.py"
    script.touch()

    assert for_failure(["python", str(script)], 1) == ""
    assert for_failure(["./mine", "--connect", "tcp://127.0.0.1:5555"], 1) == ""
    assert for_failure(["./mine"], 127) == ""
    assert for_absent("no-such-thing") == ""
    assert for_absent("/no/such/thing") == ""
