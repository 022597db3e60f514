"""What is killed, stopped or cut off goes on, and nobody can tell it from the results."""

from __future__ import annotations

import fcntl
import json
import random
import re
import shutil
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from parley_client.policies import POLICIES
from parley_server.api import load_resumed, run, run_scenario
from parley_server.errors import InputError
from parley_server.running import RunOptions
from tests.support import parley, rows, summary_of, write_swf
from tests.surviving import (
    NODES,
    POLICY,
    RESULTS,
    Watched,
    results_of,
    run_arguments,
    undisturbed,
    wait_for,
    watched,
    workload,
)

if TYPE_CHECKING:
    from pathlib import Path

WAITING = ("--on-disconnect", "wait")

FEW_AND_MANY = [5, pytest.param(20, marks=pytest.mark.long)]

FEW = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 3, 20), (40, 10, 4, 20), (41, 5, 1, 20)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return workload(tmp_path_factory.mktemp("workload"))


@pytest.fixture(scope="module")
def calm(trace, tmp_path_factory):
    """The directory of a run that nobody has disturbed."""
    return undisturbed(trace, tmp_path_factory.mktemp("calm") / "out", "--journal")


@pytest.fixture(scope="module")
def expected(calm):
    """What every run of the trace must leave behind, however it was disturbed."""
    return results_of(calm)


@pytest.fixture(scope="module")
def requests(calm):
    """How often the policy is asked."""
    return summary_of(calm)["measured"]["requests"]


def instants_of_death(draw: random.Random, kills: int, requests: int) -> list[int]:
    """Return after how many replies to kill; there is enough left to be done after the last."""
    return sorted(draw.sample(range(1, requests * 7 // 10), kills))


# ---------------------------------------------------------------------- the dispatcher dies


@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_child_that_is_killed_again_and_again_decides_as_if_undisturbed(
    trace, expected, requests, tmp_path, kills
):
    draw = random.Random(kills)
    out = tmp_path / "out"
    flags = (*WAITING, "--restarts", kills, "--external", "--trace")
    killed: list[int] = []
    with watched(*run_arguments(trace, out, *flags)) as server:
        for number, replies in enumerate(instants_of_death(draw, kills, requests)):
            if number % 3 == 0:
                # While it starts, or has just begun: whenever that is.
                wait_for(server.dispatcher)
                time.sleep(draw.uniform(0, 0.35))
            else:
                wait_for(lambda replies=replies: server.reached(replies))
            child = wait_for(server.dispatcher)
            killed.append(child.pid)
            child.kill()
            wait_for(lambda child=child: not child.is_running() or server.dispatcher() != child)
        status = server.wait()

    assert status == 0, "".join(server.lines[-3:])
    assert len(set(killed)) == kills
    assert results_of(out) == expected


def test_a_child_that_is_killed_more_often_than_it_is_started_again_fails_the_run(
    trace, expected, tmp_path
):
    out = tmp_path / "out"
    flags = (*WAITING, "--restarts", 1, "--external", "--trace")
    with watched(*run_arguments(trace, out, *flags)) as server:
        for replies in (100, 200):
            wait_for(lambda replies=replies: server.reached(replies))
            child = wait_for(server.dispatcher)
            child.kill()
            wait_for(lambda child=child: not child.is_running() or server.dispatcher() != child)
        status = server.wait()

    assert status == 1
    assert "was ended by SIGKILL before the run was over" in server.lines[-1]
    assert summary_of(out)["end"]["reason"] == "dispatcher_exited"
    table = (out / "jobs.csv").read_bytes()
    finished = [line for line in table.splitlines() if b",COMPLETED_SUCCESSFULLY," in line]
    assert finished
    assert set(finished) <= set(expected["jobs.csv"].splitlines())


@contextmanager
def standing_server(trace: Path, folder: Path, *more: object):
    """`parley serve` with a scenario that waits for those who are gone."""
    scenario = folder / "waiting.toml"
    scenario.write_text(
        f'[platform]\nnodes = {NODES}\n[workload]\nswf = "{trace}"\n'
        '[run]\nname = "waiting"\n[session]\non_disconnect = "wait"\n'
    )
    serve = ("serve", scenario, "--bind", "tcp://127.0.0.1:*", "--out", folder / "served")
    with watched(*serve, "--trace", *more) as server:
        server.endpoint = server.first_line().removeprefix("listening at ").strip()
        yield server


def dispatching(endpoint: str, session_file: Path) -> tuple[object, ...]:
    return ("dispatch", "--connect", endpoint, *POLICY, "--session-file", session_file)


@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_dispatcher_with_a_session_file_goes_on_where_it_was_killed(
    trace, expected, requests, tmp_path, kills
):
    draw = random.Random(100 + kills)
    session_file = tmp_path / "session.json"
    with standing_server(trace, tmp_path, "--sessions", 1) as server:
        for number, replies in enumerate(instants_of_death(draw, kills, requests)):
            client = Watched(*dispatching(server.endpoint, session_file))
            if number % 3 == 1:
                time.sleep(draw.uniform(0, 0.35))
            else:
                wait_for(lambda replies=replies: server.reached(replies))
                assert session_file.exists()
            assert client.process.poll() is None, client.lines
            client.kill()
            client.close()
        with watched(*dispatching(server.endpoint, session_file)) as client:
            assert client.wait() == 0, client.lines
        status = server.wait()

    assert status == 0, "".join(server.lines[-3:])
    assert not session_file.exists()
    assert results_of(tmp_path / "served" / "1") == expected
    assert not (tmp_path / "served" / "2").exists()


@pytest.mark.parametrize("late", [False, True], ids=["in-the-midst", "after-the-end"])
def test_a_stopped_dispatcher_that_wakes_up_later_is_fenced(
    trace, expected, requests, tmp_path, late
):
    session_file = tmp_path / "session.json"
    with (
        standing_server(trace, tmp_path) as server,
        watched(*dispatching(server.endpoint, session_file)) as old,
    ):
        wait_for(lambda: server.reached(requests // 10))
        old.process.send_signal(signal.SIGSTOP)
        with watched(*dispatching(server.endpoint, session_file)) as new:
            if late:
                assert new.wait() == 0, new.lines
            else:
                wait_for(lambda: any("resumed" in line for line in server.lines))
                far_enough = server.replies + 50
                wait_for(lambda: server.reached(far_enough))
            in_the_midst = new.process.poll() is None
            old.process.send_signal(signal.SIGCONT)
            fenced = old.wait()
            succeeded = new.wait()

    assert (fenced, succeeded) == (1, 0)
    assert in_the_midst is not late
    assert len(old.lines) == 1
    assert old.lines[0].startswith("parley dispatch: the server says ")
    assert ("session.over" if late else "epoch.stale") in old.lines[0]
    assert results_of(tmp_path / "served" / "1") == expected
    assert not session_file.exists()


# ---------------------------------------------------------------------- the server dies


@pytest.mark.parametrize("flags", [(), ("--external",)], ids=["in-process", "external"])
@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_server_that_is_killed_again_and_again_ends_as_if_undisturbed(
    trace, calm, expected, tmp_path, kills, flags
):
    draw = random.Random(200 + kills)
    out = tmp_path / "out"
    journal = out / "journal.jsonl"
    whole = (calm / "journal.jsonl").stat().st_size
    arguments = run_arguments(trace, out, "--journal", *flags)
    for number, size in enumerate(sorted(draw.sample(range(whole * 7 // 10), kills))):
        with watched(*arguments) as server:
            if number % 3 == 1:
                # While it starts, or repeats what the journal holds, or a little later.
                time.sleep(draw.uniform(0.1, 0.4))
            else:
                wait_for(
                    lambda size=size: journal.exists() and journal.stat().st_size >= size,
                )
            assert server.process.poll() is None, server.lines
            server.kill()
        if (out / "scenario.toml").exists():
            arguments = ["run", "--resume", out, "-q"]
    process = parley(*arguments)

    assert process.returncode == 0, process.stderr
    assert arguments[1] == "--resume"
    assert results_of(out) == expected
    assert summary_of(out)["end"]["complete"] is True
    assert summary_of(out)["jobs"] == summary_of(calm)["jobs"]


def test_a_run_goes_on_with_another_dispatcher_in_another_process(trace, calm, expected, tmp_path):
    out = broken_off(calm, tmp_path / "out", lines=1500)
    process = parley("run", "--resume", out, "-q", "--external")

    assert process.returncode == 0, process.stderr
    assert results_of(out) == expected


REMEMBERING = frozenset(
    {
        *("conservative", "conservative-none", "conservative-submit-order"),
        *("delayed", "prioritised", "timed-run"),
    }
)
"""Policies that keep more in mind than the state of the machine and the queue tells."""


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - REMEMBERING - {"reject"}))
def test_a_policy_that_looks_at_the_state_alone_goes_on_as_if_undisturbed(tmp_path, policy):
    whole, out = resumed_in_the_middle(tmp_path, policy)

    assert results_of(out) == results_of(whole)


@pytest.mark.parametrize("policy", sorted(REMEMBERING))
def test_a_policy_that_remembers_goes_on_as_if_undisturbed(tmp_path, policy):
    whole, out = resumed_in_the_middle(tmp_path, policy)

    assert results_of(out) == results_of(whole)


def resumed_in_the_middle(folder: Path, policy: str) -> tuple[Path, Path]:
    """Return the directories of a run and of its twin that broke off in the middle."""
    whole = folder / "whole"
    run(swf=workload(folder, 500), nodes=100, policy=policy, out=whole, journal=True)
    out = broken_off(whole, folder / "out", lines=350)
    resume(out)
    return whole, out


# ---------------------------------------------------------------------- journals


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The directory of a small run with its journal."""
    folder = tmp_path_factory.mktemp("few")
    trace = write_swf(folder / "few.swf", FEW)
    run(swf=trace, nodes=4, policy="easy", out=folder / "out", journal=True)
    return folder / "out"


def broken_off(whole: Path, out: Path, *, lines: int | None = None) -> Path:
    """Return a copy of a run as a SIGKILL may have left it; so much of its journal is there."""
    shutil.copytree(whole, out)
    (out / "summary.json").unlink()
    journal = out / "journal.jsonl"
    if lines is not None:
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))
    return out


def resume(out: Path) -> None:
    run_scenario(load_resumed(out, {}), RunOptions(resume=True))


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_a_journal_that_is_cut_anywhere_in_its_last_two_records_is_resumed(few, tmp_path, step):
    whole = (few / "journal.jsonl").read_bytes()
    *most, last = whole.splitlines(keepends=True)
    before = len(b"".join(most[:-1]))
    # The seams between records in any case, and both sides of them.
    seams = [end + side for end in (before, len(whole) - len(last)) for side in (-1, 0, 1)]
    for size in sorted({*seams, len(whole) - 1, *range(before, len(whole) + 1, step)}):
        out = broken_off(few, tmp_path / str(size))
        (out / "journal.jsonl").write_bytes(whole[:size])
        resume(out)

        assert results_of(out) == results_of(few), f"cut at byte {size} of {len(whole)}"
        assert summary_of(out)["end"]["complete"] is True


def test_a_journal_that_is_cut_in_its_first_line_is_begun_anew(few, tmp_path):
    whole = (few / "journal.jsonl").read_bytes()
    for size in range(0, whole.index(b"\n") + 1, 29):
        out = broken_off(few, tmp_path / str(size))
        (out / "journal.jsonl").write_bytes(whole[:size])
        resume(out)

        assert results_of(out) == results_of(few), f"cut at byte {size}"
        assert (out / "journal.jsonl").read_bytes().startswith(whole[: whole.index(b"\n")])


def test_a_resumed_journal_can_be_resumed_again(few, tmp_path):
    out = broken_off(few, tmp_path / "out", lines=4)
    for _ in range(3):
        resume(out)
        journal = out / "journal.jsonl"
        journal.write_bytes(journal.read_bytes()[:-5])
    resume(out)

    assert results_of(out) == results_of(few)


def marked(content: bytes, line: int) -> bytes:
    """Return a journal with one digit in one of its lines changed."""
    lines = content.splitlines(keepends=True)
    lines[line - 1] = re.sub(
        rb'"version":(\d+)', lambda found: b'"version":%d' % (int(found[1]) + 1), lines[line - 1]
    )
    return b"".join(lines)


def changed_middle(content: bytes) -> bytes:
    return marked(content, 4)


def missing_middle(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:3] + lines[4:])


def swapped_middle(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:3], lines[4], lines[3], *lines[5:]])


def zeroes_in_the_middle(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    lines[3] = bytes(len(lines[3]) - 1) + b"\n"
    return b"".join(lines)


def twice_in_the_middle(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:3], lines[2], *lines[3:]])


@pytest.mark.parametrize(
    "damage",
    [changed_middle, missing_middle, swapped_middle, zeroes_in_the_middle, twice_in_the_middle],
)
def test_a_damaged_line_in_the_middle_is_refused_and_nothing_is_lost(few, tmp_path, damage):
    out = broken_off(few, tmp_path / "out")
    journal = out / "journal.jsonl"
    damaged = damage(journal.read_bytes())
    journal.write_bytes(damaged)
    process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert process.stderr.startswith(f"parley: {journal}: line 4: damaged")
    assert process.stderr.count("\n") == 1
    assert journal.read_bytes() == damaged


def test_what_a_damaged_journal_advises_helps(few, tmp_path):
    out = broken_off(few, tmp_path / "out")
    journal = out / "journal.jsonl"
    journal.write_bytes(marked(journal.read_bytes(), 4))
    with pytest.raises(InputError, match="cut the file there"):
        resume(out)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    resume(out)

    assert results_of(out) == results_of(few)


def test_the_journal_of_a_run_on_another_trace_is_refused_and_nothing_is_lost(tmp_path):
    trace = write_swf(tmp_path / "few.swf", FEW)
    out = tmp_path / "out"
    run(swf=trace, nodes=4, policy="easy", out=out, journal=True)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    write_swf(trace, [*FEW, (50, 5, 1, 20)])
    process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert process.stderr.startswith(f"parley: {out / 'journal.jsonl'}: line 1: ")
    assert "has the trace, the platform or a setting changed" in process.stderr
    assert process.stderr.count("\n") == 1
    kept = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {name: kept[name] for name in (*RESULTS, "journal.jsonl")} == {
        name: before[name] for name in (*RESULTS, "journal.jsonl")
    }


def test_a_trace_that_is_gone_is_told_and_nothing_is_lost(tmp_path):
    trace = write_swf(tmp_path / "few.swf", FEW)
    out = tmp_path / "out"
    run(swf=trace, nodes=4, policy="easy", out=out, journal=True)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    trace.unlink()
    process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert "few.swf" in process.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_run_that_still_goes_on_is_not_resumed(few, tmp_path):
    out = broken_off(few, tmp_path / "out")
    with (out / "journal.jsonl").open("r+b") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        before = (out / "jobs.csv").read_bytes()
        process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert "another process writes there" in process.stderr
    assert (out / "jobs.csv").read_bytes() == before


@pytest.mark.parametrize("flags", [(), ("--external",)], ids=["in-process", "external"])
def test_a_finished_run_that_is_resumed_is_as_it_was(few, tmp_path, flags):
    out = tmp_path / "out"
    shutil.copytree(few, out)
    process = parley("run", "--resume", out, *flags)

    assert process.returncode == 0, process.stderr
    assert results_of(out) == results_of(few)
    assert summary_of(out)["end"] == summary_of(few)["end"]


def test_a_directory_without_a_journal_is_not_resumed_and_nothing_is_lost(few, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(few, out)
    (out / "journal.jsonl").unlink()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert process.stderr == (
        f"parley: {out / 'journal.jsonl'}: there is no journal; was the run made with --journal?\n"
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("there", [False, True], ids=["missing", "empty"])
def test_a_directory_without_a_run_is_not_resumed(tmp_path, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
    process = parley("run", "--resume", out)

    assert process.returncode == 2
    assert process.stderr == f"parley: {out}: holds no run to be resumed (no scenario.toml)\n"
    assert out.exists() is there


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("--nodes", 5), id="machine"),
        pytest.param(("--on-overrun", "kill"), id="rule"),
        pytest.param(("--seed", 5), id="seed"),
        pytest.param(("--latency", "fixed:5s"), id="latency"),
        pytest.param(("--on-reject", "fail"), id="conduct"),
    ],
)
def test_a_resumed_run_takes_no_other_simulation(few, tmp_path, change):
    out = broken_off(few, tmp_path / "out", lines=4)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    process = parley("run", "--resume", out, *change)

    assert process.returncode == 2
    assert f"{str(change[0])[2:]} cannot be another in a run that has begun" in process.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_resumed_run_counts_its_requests_on(few, tmp_path):
    out = broken_off(few, tmp_path / "out", lines=4)
    timing = out / "timing.csv"
    timing.write_bytes(b"".join(timing.read_bytes().splitlines(keepends=True)[:4]))
    resume(out)

    numbers = [int(row["request"]) for row in rows(timing)]
    assert numbers == list(range(1, summary_of(few)["measured"]["requests"] + 1))


def test_every_line_of_a_journal_is_json_and_every_reply_stands_in_one(few):
    lines = [json.loads(line) for line in (few / "journal.jsonl").read_text().splitlines()]

    assert lines[0]["journal"] == 1
    assert len(lines) - 1 == summary_of(few)["measured"]["requests"]
    assert all("decisions" in line for line in lines[1:])
