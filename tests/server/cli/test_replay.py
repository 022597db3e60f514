"""Recorded dialogues: checked, played again to either side, and refused where they are damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from parley_protocol.codec import encode
from parley_protocol.transcript import TranscriptWriter
from parley_server.cli.main import app
from tests.support import PARLEY, parley
from tests.surviving import wait_for, watched, workload

if TYPE_CHECKING:
    from pathlib import Path

NODES = 100
"""Few enough for a queue, so that policies differ."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def trace(folder):
    return workload(folder, 300)


def recorded(trace: Path, path: Path, *more: object, policy: str = "easy") -> Path:
    process = parley(
        *("run", "--swf", trace, "--nodes", NODES, "--policy", policy, "-q"),
        *("--out", path.with_suffix(""), "--transcript", path, *more),
    )
    assert process.returncode == 0, process.stderr
    return path


@pytest.fixture(scope="module")
def outside(trace, folder):
    """The transcript of a run over the wire."""
    return recorded(trace, folder / "outside.jsonl", "--external")


@pytest.fixture(scope="module")
def inside(trace, folder):
    """The transcript of a run in process."""
    return recorded(trace, folder / "inside.jsonl")


def replay(path: Path, *more: object, policy: str = "easy"):
    """Replay to one of the built-in policies."""
    return parley("replay", path, *more, "--", *PARLEY, "dispatch", "--policy", policy)


def views_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["view"] for line in path.read_text().splitlines()[1:-1]]


def own_words(stderr: str) -> list[str]:
    """Return what the replay itself said: a dispatcher that is left alone may complain."""
    return [line for line in stderr.splitlines() if not line.startswith("parley dispatch: ")]


# ---------------------------------------------------------------------- in order


@pytest.mark.parametrize("which", ["inside", "outside"])
def test_a_transcript_that_is_in_order_is_counted(which, request):
    path = request.getfixturevalue(which)
    process = parley("transcript", "check", path)

    assert process.returncode == 0
    assert process.stdout == f"{path}: {len(views_of(path))} messages, in order\n"
    assert process.stderr == ""


@pytest.mark.parametrize("compare", ["bytes", "canonical", "legal"])
def test_the_same_dispatcher_says_the_same_to_the_byte(outside, compare):
    process = replay(outside, "--compare", compare)
    count = sum(view["type"] in {"hello", "ready", "decision.reply"} for view in views_of(outside))

    assert process.returncode == 0, process.stderr
    assert process.stdout == f"{outside}: {count:,} messages: {count:,} the same to the byte\n"
    assert process.stderr == ""


@pytest.mark.parametrize("compare", ["canonical", "legal"])
def test_a_dispatcher_says_over_the_wire_what_it_said_in_process(inside, compare):
    process = replay(inside, "--compare", compare)

    assert process.returncode == 0, process.stderr
    assert own_words(process.stderr) == []
    assert "another" not in process.stdout
    assert "wrong" not in process.stdout


def first_other_reply(one: Path, other: Path) -> tuple[int, int]:
    """Return line and instant of the first reply that is another in two transcripts."""
    pairs = zip(views_of(one), views_of(other), strict=False)
    now = 0
    for line, (mine, theirs) in enumerate(pairs, 2):
        if mine["type"] == "decision.request":
            now = mine["body"]["now_us"]
        if (
            mine["type"] == "decision.reply"
            and mine["body"]["decisions"] != theirs["body"]["decisions"]
        ):
            return line, now
    raise AssertionError("the policies decide the same")


@pytest.mark.parametrize("compare", ["bytes", "canonical"])
def test_another_policy_is_shown_at_its_first_different_reply(trace, outside, tmp_path, compare):
    other = recorded(trace, tmp_path / "strict.jsonl", "--external", policy="strict")
    line, now = first_other_reply(outside, other)
    process = replay(outside, "--compare", compare, policy="strict")
    told = own_words(process.stderr)

    assert process.returncode == 1
    assert len(told) == 1
    where = f"parley: {outside}: line {line}, at {now / 1e6:.15g} s: body.decisions."
    assert told[0].startswith(where)
    assert "was recorded" in told[0]
    assert "1 another, but legal" in process.stdout


def test_another_policy_is_legal_too(outside):
    process = replay(outside, "--compare", "legal", policy="strict")

    assert process.returncode == 0, process.stderr
    assert "1 another, but legal" in process.stdout
    assert "messages of the record follow that were not played" in process.stdout


def scripted(folder: Path, body: str) -> tuple[object, ...]:
    """Return the command of a dispatcher that does what *body* says."""
    script = folder / "dispatcher.py"
    script.write_text(
        "import os, sys, time\n"
        "from parley_conformance import ScriptedDispatcher\n"
        'peer = ScriptedDispatcher(os.environ["PARLEY_ENDPOINT"])\n' + body
    )
    return ("--", sys.executable, script)


HELLO = (
    'peer.send({"v": 1, "type": "hello", "body": {"versions": ["1.0"], "client": '
    '{"name": "other", "version": "7"}, "capabilities": {"state": "events"}, '
    '"ask": "actionable"}})\n'
    "peer.receive()\n"
    "request = peer.ready()\n"
)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ('{"kind": "start", "job": 4711}', "job.unknown"),
        ('{"kind": "kill", "job": 4711}', "job.unknown"),
        ('{"kind": "wake", "timer": 1, "at_us": 0}', "timer."),
    ],
)
def test_an_illegal_decision_is_wrong_whatever_is_demanded(outside, tmp_path, decision, why):
    dispatcher = scripted(tmp_path, f"{HELLO}peer.reply(request, [{decision}])\n")
    process = parley("replay", outside, "--compare", "legal", *dispatcher)
    told = own_words(process.stderr)

    assert process.returncode == 1
    assert told[0].startswith(f"parley: {outside}: line 6, at 0 s: ")
    assert f"is illegal: {why}" in told[0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("peer.send_bytes(b'\\xc1')\ntime.sleep(9)", "cannot be read", id="bytes"),
        pytest.param(HELLO + "peer.say('ping', {})", "ping", id="another-message"),
        pytest.param("sys.exit(3)", "exited with status 3", id="exit"),
        pytest.param("time.sleep(30)", "no hello came in time", id="silence"),
    ],
)
def test_a_dispatcher_that_does_something_else_is_told_in_one_line(outside, tmp_path, body, words):
    process = parley("replay", outside, "--deadline", "1s", *scripted(tmp_path, body))
    told = [line for line in process.stderr.splitlines() if line.startswith("parley: ")]

    assert process.returncode == 1
    assert len(told) == 1
    assert words in told[0]
    assert "fault of our own" not in process.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param((), "to whom?", id="nobody"),
        pytest.param(("--server", "tcp://127.0.0.1:1", "--", "true"), "to whom?", id="both"),
        pytest.param(("--compare", "vaguely", "--", "true"), "canonical", id="comparison"),
        pytest.param(("--",), "command is missing", id="no-command"),
        pytest.param(("--", "no-such-program"), "no-such-program", id="no-program"),
        pytest.param(("--deadline", "soon", "--", "true"), "soon", id="deadline"),
        pytest.param(("--server", "nonsense"), "nonsense", id="endpoint"),
    ],
)
def test_wrong_usage_is_told_in_one_line(outside, arguments, words):
    process = parley("replay", outside, *arguments)

    assert process.returncode == 2
    assert process.stderr.startswith("parley: ")
    assert process.stderr.count("\n") == 1
    assert words in process.stderr


# ---------------------------------------------------------------------- to a server


@contextmanager
def serving_the(trace: Path, folder: Path, *more: object, nodes: int = NODES):
    scenario = folder / "trace.toml"
    scenario.write_text(f'[platform]\nnodes = {nodes}\n[workload]\nswf = "{trace}"\n')
    out = folder / "served"
    serve = ("serve", scenario, "--bind", "tcp://127.0.0.1:*", "--out", out)
    with watched(*serve, *more) as server:
        server.endpoint = server.first_line().removeprefix("listening at ").strip()
        yield server


@pytest.mark.parametrize("which", ["inside", "outside"])
def test_a_server_says_to_the_recorded_dispatcher_what_it_said_then(
    which, request, trace, tmp_path
):
    path = request.getfixturevalue(which)
    with serving_the(trace, tmp_path, "--sessions", 1) as server:
        process = parley("replay", path, "--server", server.endpoint)
        server.wait()
    count = sum(
        view["type"] in {"welcome", "decision.request", "session.end"} for view in views_of(path)
    )

    assert process.returncode == 0, process.stderr
    assert process.stdout == f"{path}: {count:,} messages: {count:,} canonically the same\n"
    results = tmp_path / "served" / "1" / "jobs.csv"
    assert results.read_bytes() == (path.with_suffix("") / "jobs.csv").read_bytes()


def test_a_server_of_another_scenario_is_shown_at_its_welcome(outside, trace, tmp_path):
    with serving_the(trace, tmp_path, nodes=NODES + 1) as server:
        process = parley("replay", outside, "--server", server.endpoint)

    assert process.returncode == 1
    assert process.stderr.startswith(f"parley: {outside}: line 3, at 0 s: body.")
    assert process.stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_told(outside):
    process = parley("replay", outside, "--server", "tcp://127.0.0.1:1", "--deadline", "0.3s")

    assert process.returncode == 1
    assert process.stderr == f"parley: {outside}: line 3, at 0 s: no answer came in time\n"


# ---------------------------------------------------------------------- tokens


def test_no_token_is_shown_to_whoever_reads_along(trace, tmp_path):
    session_file = tmp_path / "session.json"
    path = tmp_path / "talk.jsonl"
    with serving_the(trace, tmp_path, "--sessions", 1, "--trace", "--transcript", path) as server:
        dispatch = ("dispatch", "--connect", server.endpoint, "--policy", "easy")
        tokens = set()
        with watched(*dispatch, "--session-file", session_file) as client:
            wait_for(session_file.exists)
            tokens.add(json.loads(session_file.read_text())["token"])
            said = client.lines
            client.wait()
        server.wait()
        heard = "".join([*server.lines, *said, server.process.stdout.read()])
    transcript = tmp_path.joinpath("talk-1.jsonl").read_text()

    (token,) = tokens
    assert len(token) >= 32
    assert "server -> welcome" in heard
    for spelling in (token, token.encode().hex()):
        assert spelling not in heard
        assert spelling not in transcript
        for path in (tmp_path / "served" / "1").iterdir():
            assert spelling not in path.read_text()


def test_a_session_file_is_for_its_user_alone(trace, tmp_path):
    session_file = tmp_path / "session.json"
    with serving_the(trace, tmp_path, "--trace") as server:
        dispatch = ("dispatch", "--connect", server.endpoint, "--policy", "easy")
        before = os.umask(0)
        try:
            with watched(*dispatch, "--session-file", session_file):
                wait_for(session_file.exists)
                mode = session_file.stat().st_mode & 0o777
        finally:
            os.umask(before)

    assert mode == 0o600


# ---------------------------------------------------------------------- damaged


def changed_byte(lines: list[str]) -> int:
    """Change one digit of the bytes of a message."""
    text = lines[6]
    place = text.index('"bytes":"') + 60
    lines[6] = text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]
    return 7


def changed_view(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"session":"1"', '"session":"2"')
    return 7


def changed_instant(lines: list[str]) -> int:
    """No line contradicts itself; only the digest tells."""
    lines[6] = lines[6].replace('"now_us":', '"now_us":1', 1)
    return len(lines)


def missing_line(lines: list[str]) -> int:
    del lines[6]
    return 7


def lines_swapped(lines: list[str]) -> int:
    lines[6], lines[7] = lines[7], lines[6]
    return 7


def line_twice(lines: list[str]) -> int:
    lines.insert(6, lines[6])
    return 8


def no_footer(lines: list[str]) -> int:
    del lines[-1]
    return len(lines)


def broken_off(lines: list[str]) -> int:
    del lines[8:]
    lines[7] = lines[7][:40]
    return 8


def no_header(lines: list[str]) -> int:
    del lines[0]
    return 1


def header_of_another_version(lines: list[str]) -> int:
    lines[0] = lines[0].replace('"transcript":1', '"transcript":2')
    return 1


def something_behind(lines: list[str]) -> int:
    lines.append("{}\n")
    return len(lines)


def footer_of_another(lines: list[str]) -> int:
    footer = json.loads(lines[-1])
    lines[-1] = json.dumps({**footer, "sha256": "0" * 64}) + "\n"
    return len(lines)


def nothing(lines: list[str]) -> int:
    lines.clear()
    return 1


def no_json(lines: list[str]) -> int:
    lines[6] = "once upon a time\n"
    return 7


def no_object(lines: list[str]) -> int:
    lines[6] = "[]\n"
    return 7


def empty_line(lines: list[str]) -> int:
    lines.insert(6, "\n")
    return 7


def deep_line(lines: list[str]) -> int:
    lines[6] = "[" * 100_000 + "\n"
    return 7


def no_hex(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"bytes":"', '"bytes":"zz')
    return 7


def no_bytes(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"bytes":', '"bites":')
    return 7


def other_direction(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"dir":">"', '"dir":"="').replace('"dir":"<"', '"dir":"="')
    return 7


def direction_of_another_kind(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"dir":">"', '"dir":[]').replace('"dir":"<"', '"dir":[]')
    return 7


def mask_of_another_kind(lines: list[str]) -> int:
    lines[2] = lines[2].replace('"masked":["body.token"]', '"masked":5')
    return 3


def instant_of_another_kind(lines: list[str]) -> int:
    lines[6] = lines[6].replace('"now_us":', '"now_us":"soon","then":', 1)
    return 7


DAMAGES = [
    *(changed_byte, changed_view, missing_line, lines_swapped, line_twice, broken_off, no_header),
    *(header_of_another_version, something_behind, footer_of_another, nothing, no_json, no_object),
    *(empty_line, deep_line, no_hex, no_bytes, other_direction, direction_of_another_kind),
    *(mask_of_another_kind, instant_of_another_kind),
]


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: these are many, and none needs one of its own."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return subprocess.CompletedProcess(
        arguments, result.exit_code, stdout=result.stdout, stderr=result.stderr
    )


def assert_named(process: Any, path: Path, line: int) -> None:
    """The command ended with one clear line that names the file and the line."""
    told = own_words(process.stderr)
    assert process.returncode == 2, process.stderr
    assert len(told) == 1, told
    assert told[0].startswith(f"parley: {path}: line {line}: ")


@pytest.mark.parametrize("damage", [*DAMAGES, no_footer, changed_instant])
def test_a_damaged_line_is_named(outside, tmp_path, damage):
    lines = outside.read_text().splitlines(keepends=True)
    line = damage(lines)
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(lines))
    process = here("transcript", "check", path)

    assert_named(process, path, line)


@pytest.mark.parametrize(
    "damage", [changed_byte, missing_line, no_json, no_header, mask_of_another_kind]
)
def test_a_replay_goes_as_far_as_the_transcript_is_in_order(outside, tmp_path, damage):
    lines = outside.read_text().splitlines(keepends=True)
    line = damage(lines)
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(lines))
    process = replay(path, "--deadline", "5s")

    assert_named(process, path, line)


def test_a_transcript_without_its_footer_can_be_replayed(outside, tmp_path):
    lines = outside.read_text().splitlines(keepends=True)
    path = tmp_path / "broken-off.jsonl"
    path.write_text("".join(lines[:-7]))
    process = replay(path)

    assert process.returncode == 0, process.stderr
    assert "the same to the byte" in process.stdout


def test_what_a_server_may_not_say_there_is_named(tmp_path):
    path = tmp_path / "wrong.jsonl"
    writer = TranscriptWriter()
    lines = [writer.header(scenario={"name": "x", "digest": "0"}, software={})]
    pong = {"v": 1, "type": "pong", "session": "1", "epoch": 1, "seq": 1, "body": {}}
    lines += [writer.message(">", encode(pong), pong, now_us=0), writer.footer()]
    path.write_text("".join(lines))
    process = parley("transcript", "check", path)

    assert_named(process, path, 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"\xff\xfe\x00", "not a text file", id="binary"),
        pytest.param(b"\x00\x00\n", "line 1: not a line of JSON", id="zeroes"),
        pytest.param(b"\n", "line 1: not a line of JSON", id="empty-line"),
    ],
)
def test_a_file_that_is_no_transcript_is_told(tmp_path, content, words):
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    for arguments in (("transcript", "check", path), ("replay", path, "--", "true")):
        process = parley(*arguments)

        assert process.returncode == 2, process.stderr
        assert process.stderr.startswith(f"parley: {path}: ")
        assert words in process.stderr
        assert process.stderr.count("\n") == 1


def test_a_server_killed_in_the_midst_leaves_a_transcript_that_can_be_replayed(trace, tmp_path):
    path = tmp_path / "talk.jsonl"
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\n"
        "def decide(view):\n"
        "    time.sleep(0.002)\n"
        "    for job in view.queue:\n"
        "        view.start(job)\n"
    )
    named = ("--policy", f"{slow}:decide")
    run = ("run", "--swf", trace, "--nodes", NODES, *named, "--external", "-q")
    with watched(*run, "--out", tmp_path / "out", "--transcript", path) as server:
        wait_for(lambda: server.process.poll() is None and path.exists())
        wait_for(lambda: path.stat().st_size > 50_000)
        server.kill()
    check = parley("transcript", "check", path)
    replayed = parley("replay", path, "--", *PARLEY, "dispatch", *named)

    assert check.returncode == 2
    assert check.stderr.startswith(f"parley: {path}: line ")
    assert replayed.returncode == 0, replayed.stderr
    assert "the same to the byte" in replayed.stdout
