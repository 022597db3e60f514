"""What a transcript holds: the whole dialogue, byte for byte, and never a token."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from parley_conformance import ScriptedDispatcher
from parley_protocol.codec import decode
from parley_protocol.transcript import TranscriptReader, check_dialogue
from parley_server.api import run
from tests.hosting import JsonDispatcher
from tests.serving import SNAPSHOT, assert_refused, decide, go_on, scenario_on, serving
from tests.support import write_swf

if TYPE_CHECKING:
    from pathlib import Path

JOBS = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 3, 20), (40, 10, 4, 20)]

DIALECTS = pytest.mark.parametrize(
    "kind", [ScriptedDispatcher, JsonDispatcher], ids=["MessagePack", "JSON"]
)


class Recording:
    """A socket that keeps what goes through it, with its direction."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.frames: list[tuple[str, bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def send_multipart(self, frames: Any) -> None:
        self.frames.append(("<", frames[-1]))
        self._socket.send_multipart(frames)

    def recv_multipart(self) -> list[bytes]:
        frames = self._socket.recv_multipart()
        self.frames.append((">", frames[-1]))
        return frames


def recording(peer: ScriptedDispatcher) -> list[tuple[str, bytes]]:
    """Let a peer's frames be kept; return the list they go to."""
    ear: Any = Recording(peer._socket)
    peer._socket = ear
    return ear.frames


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def messages_of(path: Path) -> list[dict[str, Any]]:
    return lines_of(path)[1:-1]


def checked(path: Path) -> int:
    """Return the number of messages of a transcript that is in order."""
    with path.open() as lines:
        return check_dialogue(TranscriptReader(lines).entries())


@pytest.fixture
def transcript(tmp_path):
    return tmp_path / "talk.jsonl"


@pytest.fixture
def server(tmp_path, transcript):
    scenario = scenario_on(tmp_path, JOBS)
    tables = scenario.model_dump(mode="json", exclude_none=True)
    tables["session"] = {"on_disconnect": "wait"}
    waiting = type(scenario).model_validate(tables, strict=False)
    with serving(tmp_path, waiting, transcript=transcript) as server:
        yield server


@DIALECTS
def test_a_transcript_holds_every_frame_of_the_session_in_order(server, transcript, kind):
    with kind(server.endpoint) as peer:
        frames = recording(peer)
        peer.hello(**SNAPSHOT)
        peer.say("ping", {})
        go_on(peer, peer.say("ready", {}, re=1))
    server.wait_for("1")
    lines = messages_of(transcript.with_name("talk-1.jsonl"))

    assert [line["dir"] for line in lines] == [direction for direction, _ in frames]
    assert [line["n"] for line in lines] == list(range(1, len(frames) + 1))
    for line, (_, frame) in zip(lines, frames, strict=True):
        assert line["view"] == decode(bytes.fromhex(line["bytes"]))
        if line["view"]["type"] == "welcome":
            assert line["masked"] == ["body.token"]
            assert line["view"]["body"]["token"] == ""
        else:
            assert bytes.fromhex(line["bytes"]) == frame
            assert "masked" not in line
    assert checked(transcript.with_name("talk-1.jsonl")) == len(frames)


def test_each_line_tells_the_instant_at_which_the_session_stood(server, transcript):
    with ScriptedDispatcher(server.endpoint) as peer:
        go_on(peer, peer.open(**SNAPSHOT))
    server.wait_for("1")
    lines = messages_of(transcript.with_name("talk-1.jsonl"))

    asked = [line for line in lines if line["view"]["type"] == "decision.request"]
    replied = [line for line in lines if line["view"]["type"] == "decision.reply"]
    assert all(line["now_us"] == line["view"]["body"]["now_us"] for line in asked)
    assert [line["now_us"] for line in replied] == [line["now_us"] for line in asked]


def test_sessions_side_by_side_have_transcripts_of_their_own(server, transcript):
    with ScriptedDispatcher(server.endpoint) as one, ScriptedDispatcher(server.endpoint) as two:
        requests = [one.open(**SNAPSHOT), two.open(**SNAPSHOT)]
        counts = [
            len(go_on(peer, request)) for peer, request in zip((one, two), requests, strict=True)
        ]
    server.wait_for("1", "2")

    for number, count in enumerate(counts, 1):
        path = transcript.with_name(f"talk-{number}.jsonl")
        assert checked(path) == 2 * count + 2
        names = {line["view"].get("session") for line in messages_of(path)[1:]}
        assert names == {str(number)}


@DIALECTS
def test_no_token_stands_in_a_transcript_however_often_the_session_was_resumed(
    server, transcript, kind
):
    peer = kind(server.endpoint)
    welcome = peer.hello(**SNAPSHOT)
    request = peer.ready()
    token = welcome["body"]["token"]
    for _ in range(3):
        peer.close()
        peer = kind(server.endpoint)
        answer = peer.hello(resume={"session": "1", "token": token}, **SNAPSHOT)
        token = answer["body"]["token"]
        request = peer.ready()
    go_on(peer, request)
    peer.close()
    server.wait_for("1")
    path = transcript.with_name("talk-1.jsonl")

    hellos = [line for line in messages_of(path) if line["view"]["type"] == "hello"]
    assert [line.get("masked") for line in hellos] == [None, *[["body.resume.token"]] * 3]
    assert_nowhere(path, welcome["body"]["token"], token)
    assert checked(path) > 10


def assert_nowhere(path: Path, *tokens: str) -> None:
    content = path.read_bytes()
    for token in tokens:
        assert len(token) >= 32
        for spelling in (token, token.encode().hex(), token.upper()):
            assert spelling.encode() not in content


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda frame: frame[:-1], id="cut-off"),
        pytest.param(lambda frame: frame + b"\xc0", id="trailing"),
        pytest.param(lambda frame: frame.replace(b"versions", b"verzions"), id="invalid"),
        pytest.param(lambda frame: frame.replace(b"hello", b"hallo"), id="unknown"),
        pytest.param(lambda frame: json.dumps(decode(frame)).encode(), id="in-the-other-encoding"),
    ],
)
def test_no_token_stands_in_a_transcript_even_in_a_frame_that_cannot_be_read(
    server, transcript, spoil
):
    with ScriptedDispatcher(server.endpoint) as peer:
        frames = recording(peer)
        welcome = peer.hello(**SNAPSHOT)
        request = peer.ready()
        token = welcome["body"]["token"]
        # The token stands in front, so that all of it is there whatever becomes of the rest.
        resume = {"session": "1", "token": token}
        body = {"resume": resume, "versions": ["1.0"], "client": {"name": "c", "version": "0"}}
        peer.send({"v": 1, "type": "hello", "body": body})
        refused = peer.receive()
        peer.send_bytes(spoil(frames[-2][1]))
        error = peer.receive()
        go_on(peer, request)
    server.wait_for("1")

    assert_refused(refused, "message.unexpected")
    assert error["type"] == "error"
    assert_nowhere(transcript.with_name("talk-1.jsonl"), token)


def test_what_cannot_be_read_stands_in_a_transcript_without_a_view(server, transcript):
    with ScriptedDispatcher(server.endpoint) as peer:
        request = peer.open(**SNAPSHOT)
        peer.send_bytes(b"\xc1\x02\x03")
        error = peer.receive()
        go_on(peer, request)
    server.wait_for("1")
    path = transcript.with_name("talk-1.jsonl")
    lines = messages_of(path)

    assert_refused(error, "encoding.malformed")
    (unread,) = [number for number, line in enumerate(lines) if line["view"] is None]
    assert lines[unread]["bytes"] == "c10203"
    assert lines[unread + 1]["view"]["body"]["code"] == "encoding.malformed"
    assert checked(path) == len(lines)


def test_a_session_that_breaks_off_has_a_whole_transcript(server, transcript):
    with ScriptedDispatcher(server.endpoint) as peer:
        peer.open()
        for _ in range(3):
            peer.send_bytes(b"\xc1")
            peer.receive()
    server.wait_for("1")
    path = transcript.with_name("talk-1.jsonl")

    assert messages_of(path)[-1]["view"]["body"]["code"] == "message.undecodable"
    assert checked(path) == len(messages_of(path))


def test_a_transcript_is_on_disk_while_the_session_goes_on(server, transcript):
    with ScriptedDispatcher(server.endpoint) as peer:
        request = peer.open(**SNAPSHOT)
        for _ in range(3):
            peer.reply(request, decide(request))
            time.sleep(1.2)
            content = transcript.with_name("talk-1.jsonl").read_text()
            if "decision.reply" in content:
                break
            request = peer.say("ping", {})

    assert "decision.reply" in content


# ---------------------------------------------------------------------- in process, on the wire


def transcript_of(folder: Path, name: str, **options: Any) -> Path:
    trace = write_swf(folder / "trace.swf", JOBS)
    path = folder / f"{name}.jsonl"
    run(swf=trace, nodes=4, policy="easy", out=folder / name, transcript=path, **options)
    return path


def said(path: Path) -> list[tuple[str, int, Any]]:
    """Return what was said, without the wall time in it."""
    told = []
    for line in messages_of(path):
        body = {key: value for key, value in line["view"]["body"].items() if key != "compute_us"}
        told.append((line["dir"], line["now_us"], {**line["view"], "body": body}))
    return told


def test_a_run_says_the_same_in_process_and_over_the_wire(tmp_path):
    inside = transcript_of(tmp_path, "inside")
    outside = transcript_of(tmp_path, "outside", external=True)

    assert checked(inside) == checked(outside) > 8
    assert said(inside) == said(outside)
    assert lines_of(inside)[0] == lines_of(outside)[0]


@pytest.mark.parametrize("external", [False, True], ids=["in-process", "external"])
def test_what_a_reply_was_charged_stands_where_decisions_take_time(tmp_path, external):
    path = transcript_of(tmp_path, "slow", external=external, session={"latency": "fixed:2s"})
    lines = messages_of(path)

    followed = [
        following for line, following in pairwise(lines) if line["view"]["type"] == "decision.reply"
    ]
    assert followed
    assert [line.get("charged_us") for line in followed] == [2_000_000] * len(followed)


def test_a_transcript_does_not_change_what_is_simulated(tmp_path):
    written = transcript_of(tmp_path, "written").with_suffix("")
    run(swf=tmp_path / "trace.swf", nodes=4, policy="easy", out=tmp_path / "plain")

    for name in ("jobs.csv", "decisions.csv"):
        assert (written / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
