"""Dispatchers in other languages speak the protocol and decide as the reference, to the byte."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from parley_server.api import run
from tests.foreign.languages import LANGUAGES, Language, require
from tests.foreign.situations import scenario
from tests.support import parley, shared
from tests.surviving import PATIENCE, results_of, wait_for, watched

pytestmark = pytest.mark.long

PROFILES = ("core", "alloc", "timer", "kill", "delta", "resume")
POLICIES = ("fifo", "easy")

languages = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
policies = pytest.mark.parametrize("policy", POLICIES)


def outcome(out: Path, **settings: Any) -> dict[str, bytes]:
    """Return the results of a run, in process or by a command."""
    run(out=out, **settings)
    return results_of(out)


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """Return a function that gives the results of the reference in process, each run once."""
    known: dict[str, dict[str, bytes]] = {}

    def results(**settings: Any) -> dict[str, bytes]:
        key = repr(sorted(settings.items()))
        if key not in known:
            known[key] = outcome(tmp_path_factory.mktemp("reference") / "out", **settings)
        return known[key]

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


SITUATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mixed": ({"seed": 1}, {}),
    "one-kind": ({"seed": 2, "shapes": 2}, {}),
    "killed": ({"seed": 3}, {"on_overrun": "kill"}),
    "failing": ({"seed": 4, "failing": True}, {}),
    "slow": ({"seed": 5, "failing": True}, {"session": {"latency": "fixed:7s"}}),
    "interval": ({"seed": 6}, {"parameters": {"interval": "30s"}}),
    "slow-interval": (
        {"seed": 7},
        {"parameters": {"interval": "30s"}, "session": {"latency": "fixed:40s"}},
    ),
}


@languages
@policies
@pytest.mark.parametrize("situation", SITUATIONS)
def test_it_decides_as_the_reference_whatever_happens(
    language: Language, policy, situation, reference, generated, tmp_path
):
    require(language)
    made, settings = SITUATIONS[situation]
    path = generated(**made)
    expected = reference(scenario=path, policy=policy, **settings)
    options = ["--interval", "30"] if "parameters" in settings else []
    told = {name: value for name, value in settings.items() if name != "parameters"}
    told["session"] = {**told.get("session", {}), "state_digest": True}
    record = tmp_path / "transcript.jsonl"

    found = outcome(
        tmp_path / "out",
        scenario=path,
        command=language.command(policy, *options),
        transcript=record,
        **told,
    )

    assert found == expected
    # Its picture was the server's at every request: it never had to ask for the whole state.
    assert '"type":"state.request"' not in record.read_text()


@languages
def test_shared_nodes_are_filled_alike_by_a_trace(language: Language, reference, tmp_path):
    require(language)
    trace = shared("traces", "HPC2N-2002-2.2-cln.swf.gz")
    settings = {"swf": trace, "nodes": 120, "per_node": {"core": 2}, "request": "processors"}
    settings["limit"] = 4000
    expected = reference(policy="fifo", **settings)

    assert outcome(tmp_path / "out", command=language.command("fifo"), **settings) == expected


ARCHIVE: dict[str, tuple[str, dict[str, Any]]] = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", {"nodes": 100}),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", {"nodes": 240, "limit": 20_000}),
}


@pytest.mark.timeout(900)
@languages
@pytest.mark.parametrize("trace", ARCHIVE)
def test_backfilling_of_archive_traces_is_the_same_to_the_last_byte(
    language: Language, trace, reference, tmp_path
):
    require(language)
    name, machine = ARCHIVE[trace]
    settings = {"swf": shared("traces", name), **machine}
    expected = reference(policy="easy", **settings)

    assert outcome(tmp_path / "out", command=language.command("easy"), **settings) == expected


@policies
def test_with_timers_and_kills_all_languages_decide_alike(policy, generated, tmp_path):
    built = [language for language in LANGUAGES if language.missing() is None]
    if len(built) < len(LANGUAGES):
        require(next(language for language in LANGUAGES if language not in built))
    path = generated(7, jobs=600)
    results = {
        language.name: outcome(
            tmp_path / language.name,
            scenario=path,
            command=language.command(policy, "--interval", "30", "--kill-overdue"),
        )
        for language in built
    }

    first = next(iter(results.values()))
    assert b"KILLED" in first["jobs.csv"]
    assert [name for name, found in results.items() if found != first] == []


# ---------------------------------------------------------------------- it comes back


@languages
def test_killed_at_any_moment_it_resumes_and_decides_as_if_undisturbed(
    language: Language, reference, generated, tmp_path
):
    require(language)
    path = generated(8, jobs=1500)
    expected = reference(scenario=path, policy="fifo")
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
