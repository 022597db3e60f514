"""Dispatchers in other languages speak the protocol and decide as the reference, to the byte."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from tests.foreign.languages import LANGUAGES, Language, require
from tests.foreign.situations import scenario
from tests.support import parley, shared
from tests.surviving import PATIENCE, results_of, wait_for, watched

pytestmark = pytest.mark.long

PROFILES = ("core", "alloc", "timer", "kill", "delta", "resume")
POLICIES = ("fifo", "easy")

languages = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
policies = pytest.mark.parametrize("policy", POLICIES)


def run(out: Path, *arguments: object, command: list[str] | None = None) -> dict[str, bytes]:
    """Return the results of a run, in process or by a command."""
    more = () if command is None else ("--", *command)
    process = parley("run", *arguments, "--out", out, "--quiet", *more, timeout=240)
    assert process.returncode == 0, process.stderr
    return results_of(out)


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """Return a function that gives the results of the reference in process, each run once."""

    @cache
    def results(*arguments: object) -> dict[str, bytes]:
        return run(tmp_path_factory.mktemp("reference") / "out", *arguments)

    return results


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """Return a function that gives a generated scenario by what is particular to it."""

    @cache
    def made(seed: int, **options) -> Path:
        return scenario(tmp_path_factory.mktemp("scenario"), seed, **options)

    return made


# ---------------------------------------------------------------------- it speaks the protocol


@languages
@policies
@pytest.mark.parametrize(
    "options", [(), ("--interval", "30", "--kill-overdue")], ids=["plain", "timed"]
)
def test_the_kit_finds_nothing_to_complain_of(language: Language, policy, options, tmp_path):
    require(language)
    report = tmp_path / "report.json"
    profiles = [part for profile in PROFILES for part in ("--profile", profile)]
    kit = parley(
        *("conform", "dispatcher", "--quiet", "--strict", *profiles, "--json", report),
        *("--", *language.command(policy, *options)),
        timeout=240,
    )

    verdicts = {case["id"]: case["verdict"] for case in json.loads(report.read_text())["cases"]}
    assert kit.returncode == 0, kit.stdout + kit.stderr
    assert set(verdicts.values()) <= {"PASS", "NOT_APPLICABLE"}
    if options:
        used = ("TIMER-FUTURE", "TIMER-FIRED", "KILL-RUNNING", "KILL-FOLLOWED")
        assert {verdicts[case] for case in used} == {"PASS"}


@languages
def test_the_smallest_one_without_the_library_is_conformant(language: Language):
    require(language)
    kit = parley(
        *("conform", "dispatcher", "--quiet", "--profile", "core"),
        *("--", *language.command("smallest")),
        timeout=240,
    )

    assert kit.returncode == 0, kit.stdout + kit.stderr


# ---------------------------------------------------------------------- it decides alike


SITUATIONS = {
    "mixed": ({"seed": 1}, ()),
    "one-kind": ({"seed": 2, "shapes": 2}, ()),
    "killed": ({"seed": 3}, ("--on-overrun", "kill")),
    "failing": ({"seed": 4, "failing": True}, ()),
    "slow": ({"seed": 5, "failing": True}, ("--latency", "fixed:7s")),
    "interval": ({"seed": 6}, ("--interval", "30s")),
}


@languages
@policies
@pytest.mark.parametrize("situation", SITUATIONS)
def test_it_decides_as_the_reference_whatever_happens(
    language: Language, policy, situation, reference, generated, tmp_path
):
    require(language)
    made, flags = SITUATIONS[situation]
    path = generated(**made)
    expected = reference(path, *flags, "--policy", policy)
    own = ["--interval", "30"] if "--interval" in flags else []
    told = () if own else flags
    record = tmp_path / "transcript.jsonl"

    found = run(
        tmp_path / "out",
        *(path, *told, "--state-digest", "--transcript", record),
        command=language.command(policy, *own),
    )

    assert found == expected
    # Its picture was the server's at every request: it never had to ask for the whole state.
    assert '"type":"state.request"' not in record.read_text()


@languages
@policies
def test_whole_nodes_of_a_trace_are_given_out_alike(
    language: Language, policy, reference, tmp_path
):
    require(language)
    trace = shared("traces", "HPC2N-2002-2.2-cln.swf.gz")
    flags = ("--swf", trace, "--nodes", 240, "--limit", 2000)
    expected = reference(*flags, "--policy", policy)

    assert run(tmp_path / "out", *flags, command=language.command(policy)) == expected


ARCHIVE = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", ("--nodes", 100)),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", ("--nodes", 240, "--limit", 20_000)),
}


@languages
@pytest.mark.parametrize("trace", ARCHIVE)
def test_backfilling_of_archive_traces_is_the_same_to_the_last_byte(
    language: Language, trace, reference, tmp_path
):
    require(language)
    name, machine = ARCHIVE[trace]
    flags = ("--swf", shared("traces", name), *machine)
    expected = reference(*flags, "--policy", "easy")

    assert run(tmp_path / "out", *flags, command=language.command("easy")) == expected


def test_with_timers_and_kills_all_languages_decide_alike(generated, tmp_path):
    built = [language for language in LANGUAGES if language.missing() is None]
    if len(built) < 2:
        require(next(language for language in LANGUAGES if language not in built))
    path = generated(7, jobs=600)
    options = ("--interval", "30", "--kill-overdue")

    for policy in POLICIES:
        results = {
            language.name: run(
                tmp_path / language.name / policy,
                *(path, "--on-overrun", "run"),
                command=language.command(policy, *options),
            )
            for language in built
        }
        first = next(iter(results.values()))

        assert b"WALLTIME" in first["jobs.csv"] or b"KILLED" in first["jobs.csv"]
        assert [name for name, found in results.items() if found != first] == []


# ---------------------------------------------------------------------- it comes back


@languages
def test_killed_at_any_moment_it_resumes_and_decides_as_if_undisturbed(
    language: Language, reference, generated, tmp_path
):
    require(language)
    path = generated(8, jobs=1500)
    expected = reference(path, "--policy", "fifo")
    draw = random.Random(language.name)
    out = tmp_path / "out"
    flags = ("--on-disconnect", "wait", "--reconnect", "30s", "--restarts", 3, "--trace")
    command = ("--out", out, "--quiet", *flags, "--", *language.command("fifo"))
    with watched("run", path, *command) as server:
        for replies in sorted(draw.sample(range(1, 900), 3)):
            wait_for(lambda replies=replies: server.reached(replies))
            child = wait_for(server.dispatcher)
            child.kill()
            wait_for(lambda child=child: not child.is_running() or server.dispatcher() != child)
        status = server.wait(3 * PATIENCE)

    assert status == 0, "".join(server.lines[-3:])
    assert results_of(out) == expected
