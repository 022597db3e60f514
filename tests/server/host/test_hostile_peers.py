"""Whatever a peer sends: one answer with the right code, and no session suffers but its own."""

from __future__ import annotations

import gc
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import zmq

from parley_conformance import NoAnswer, ScriptedDispatcher
from parley_protocol.codec import read_server_message
from parley_server.api import load_scenario
from parley_server.service import Service
from tests.support import PARLEY, rows, summary_of, unmeasured, write_swf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from parley_server.errors import ParleyError

# That no workload stays open is a law of its own below; here it would drown all others.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file .*swf:ResourceWarning")

PATIENCE = 10.0
SECOND = 1_000_000

JOBS = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 3, 20), (40, 10, 4, 20)]
"""On four nodes the third job waits for the first."""


class Server:
    """A standing server in a thread of its own."""

    def __init__(self, folder: Path, scenarios: Sequence[Any], **options: Any) -> None:
        self.out = folder / "served"
        self.ended: dict[str, ParleyError | None] = {}
        self.fault: BaseException | None = None
        self._stop = threading.Event()
        self._service = Service(
            scenarios,
            "tcp://127.0.0.1:*",
            self.out,
            report=lambda directory, failure: self.ended.update({directory.name: failure}),
            poll=self._poll,
            **options,
        )
        self.endpoint = self._service.endpoint
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        del self._service

    def wait_for(self, *names: str) -> None:
        """Wait until the results of these runs are written."""
        wait_until(lambda: set(names) <= self.ended.keys() or self.fault is not None)
        assert self.fault is None
        assert set(names) <= self.ended.keys()

    def reason(self, name: str = "1") -> str:
        """Return why a run ended, once its results are written."""
        self.wait_for(name)
        reason: str = summary_of(self.out / name)["end"]["reason"]
        return reason

    def jobs_csv(self, name: str = "1") -> bytes:
        """Return the rows of a run that is complete."""
        assert self.reason(name) == "completed"
        return (self.out / name / "jobs.csv").read_bytes()

    def _poll(self) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _run(self) -> None:
        try:
            self._service.run()
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever ends a server is for the test
            self.fault = error


def scenario_on(
    folder: Path, jobs: Sequence[Any] = JOBS, *, nodes: int = 4, name: str = "small", **run: Any
) -> Any:
    trace = write_swf(folder / f"{name}.swf", jobs)
    settings: dict[str, Any] = {
        "platform": {"nodes": nodes},
        "workload": {"swf": str(trace)},
        "run": {"name": name, **run},
    }
    return load_scenario(None, settings)


@contextmanager
def serving(folder: Path, *scenarios: Any, **options: Any) -> Iterator[Server]:
    server = Server(folder, scenarios or [scenario_on(folder)], **options)
    try:
        yield server
    finally:
        server.close()
        # What stays open is to be found here, not in the midst of another test.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    assert server.fault is None


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def lone(server):
    """A peer with a server of its own."""
    with ScriptedDispatcher(server.endpoint) as peer:
        yield peer


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A server for all tests that ask nothing of it afterwards: to end one takes its time."""
    with serving(tmp_path_factory.mktemp("standing")) as server:
        yield server


@pytest.fixture
def peer(standing):
    with ScriptedDispatcher(standing.endpoint) as peer:
        yield peer


@contextmanager
def serve_command(
    folder: Path, *more: str, deadline: str = "60s", jobs: Sequence[Any] = JOBS, **options: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command `parley serve` as a child process, and where it listens."""
    write_swf(folder / "small.swf", jobs)
    scenario = folder / "small.toml"
    scenario.write_text(
        '[platform]\nnodes = 1000\n[workload]\nswf = "small.swf"\n'
        f'[run]\nname = "small"\ndeadline = "{deadline}"\n'
    )
    arguments = ["serve", str(scenario), "--bind", "tcp://127.0.0.1:*", "--out", folder / "served"]
    process = subprocess.Popen(
        [*PARLEY, *map(str, arguments), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix("listening at ").strip()
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


# ---------------------------------------------------------------------- an honest dispatcher

SNAPSHOT = {"capabilities": {"state": "snapshot"}}


def decide(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Start what fits, strictly in order, from nothing but the state in the request."""
    state = request["body"]["state"]
    free = sum((last - first + 1) * amounts["core"] for first, last, amounts, _ in state["nodes"])
    decisions = []
    for job in state["pending"]:
        free -= sum(group["chunks"] for group in job["request"])
        if free < 0:
            break
        decisions.append({"kind": "start", "job": job["job"]})
    return decisions


def go_on(peer: ScriptedDispatcher, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Decide to the end; return the requests, and the last message."""
    messages = [request]
    while messages[-1]["type"] == "decision.request":
        messages.append(peer.reply(messages[-1], decide(messages[-1])))
    return messages


def instants(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [
        message["body"]["now_us"] // SECOND
        for message in messages
        if message["type"] == "decision.request"
    ]


def assert_completes(peer: ScriptedDispatcher, request: dict[str, Any]) -> None:
    end = go_on(peer, request)[-1]
    assert end["type"] == "session.end"
    assert end["body"]["reason"] == "completed"
    assert end["body"]["stats"]["completed"] == len(JOBS)


def assert_refused(
    answer: Mapping[str, Any], code: str, *, fatal: bool = False, path: str | None = None
) -> None:
    """The answer is an error of this code, and itself a message of the protocol."""
    read_server_message(dict(answer))
    assert answer["type"] == "error"
    assert answer["body"]["code"] == code
    assert answer["body"]["fatal"] is fatal
    if path is not None:
        assert answer["body"].get("path") == path


# ---------------------------------------------------------------------- what cannot be decoded


def nested(depth: int) -> bytes:
    """Return a map whose maps and arrays are nested so deep, itself included."""
    value: Any = []
    for _ in range(depth - 2):
        value = [value]
    return msgpack.packb({"deep": value})


UNDECODABLE = {
    "garbage": b"\xde\xad\xbe\xef",
    "text": b"hello, server",
    "never-used-byte": b"\xc1",
    "nothing": b"",
    "trailing-bytes": msgpack.packb({"v": 1}) + b"\x00",
    "cut-off": msgpack.packb({"type": "hello"})[:-1],
    "extension": msgpack.packb({"x": msgpack.ExtType(5, b"abc")}),
    "timestamp": b"\x81\xa1x\xd6\xff" + struct.pack(">I", 1),
    "bin": msgpack.packb({"x": b"abc"}),
    "bin-key": msgpack.packb({b"x": 1}),
    "number-key": msgpack.packb({1: 1}),
    "duplicate-keys": b"\x82\xa1x\x01\xa1x\x02",
    "duplicate-types": b"\x82\xa4type\xa5hello\xa4type\xa3bye",
    "too-deep": nested(33),
    "much-too-deep": b"\x81\xa1x" + b"\x91" * 100_000 + b"\x01",
    "endless-array": b"\xdd\xff\xff\xff\xff",
    "endless-map": b"\xdf\xff\xff\xff\xff",
    "endless-string": b"\xdb\xff\xff\xff\xff",
    "endless-array-inside": b"\x81\xa1x\xdd\xff\xff\xff\xff\x01",
    "array": msgpack.packb([1, 2]),
    "number": b"\x07",
    "nil": b"\xc0",
    "not-utf8": b"\x81\xa1x\xa2\xc3\x28",
    "surrogate": b"\x81\xa1x\xa3\xed\xa0\x80",
    "nan": msgpack.packb({"x": float("nan")}),
    "infinity": msgpack.packb({"x": float("-inf")}),
    "beyond-2^53": msgpack.packb({"x": 2**53}),
    "beyond--2^53": msgpack.packb({"x": -(2**53)}),
}

undecodable = pytest.mark.parametrize("payload", UNDECODABLE.values(), ids=UNDECODABLE.keys())


@undecodable
def test_what_cannot_be_decoded_before_hello_is_refused_and_a_hello_still_taken(peer, payload):
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")
    assert_completes(peer, peer.open(**SNAPSHOT))


@undecodable
def test_what_cannot_be_decoded_instead_of_ready_is_refused_and_the_session_survives(peer, payload):
    welcome = peer.hello(**SNAPSHOT)
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")
    assert_completes(peer, peer.say("ready", {}, re=welcome["seq"]))


@undecodable
def test_what_cannot_be_decoded_instead_of_a_reply_is_refused_and_the_session_survives(
    peer, payload
):
    request = peer.open(**SNAPSHOT)
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")
    assert_completes(peer, request)


def test_a_message_as_deep_as_is_allowed_is_taken(peer):
    hello = {"versions": ["1.0"], "client": {"name": "deep", "version": "0"}}
    # The envelope and the body are two maps around the unknown field.
    payload = msgpack.packb({"v": 1, "type": "hello", "body": {**hello, "x": 0}})
    peer.send_bytes(payload[:-1] + b"\x91" * 29 + b"\x90")
    answer = peer.receive()

    assert answer["type"] == "welcome"


def test_a_message_one_deeper_than_is_allowed_is_refused(peer):
    hello = {"versions": ["1.0"], "client": {"name": "deep", "version": "0"}}
    payload = msgpack.packb({"v": 1, "type": "hello", "body": {**hello, "x": 0}})
    peer.send_bytes(payload[:-1] + b"\x91" * 30 + b"\x90")
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([b"\x80"], id="no-empty-frame"),
        pytest.param([b"a", b"b", b"c"], id="three-frames"),
        pytest.param([b"", b"\x80", b"\x80"], id="two-payloads"),
        pytest.param([b""], id="no-payload"),
        pytest.param([b"", b"", b"\x80"], id="two-empty-frames"),
    ],
)
def test_frames_in_another_order_are_refused_and_the_session_survives(peer, frames):
    request = peer.open(**SNAPSHOT)
    peer.send_frames(frames)
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")
    assert_completes(peer, request)


def test_three_undecodable_messages_end_the_session(server, lone):
    lone.open(**SNAPSHOT)
    answers = []
    for payload in (b"\xc1", b"\x07", b"\xde\xad"):
        lone.send_bytes(payload)
        answers.append(lone.receive())

    assert_refused(answers[0], "encoding.malformed")
    assert_refused(answers[1], "encoding.malformed")
    assert_refused(answers[2], "message.undecodable", fatal=True)
    assert server.reason() == "protocol_error"


def test_three_undecodable_messages_before_hello_are_a_fatal_error(peer):
    for _ in range(3):
        peer.send_bytes(b"\xc1")
        answer = peer.receive()

    assert_refused(answer, "message.undecodable", fatal=True)


def test_undecodable_messages_are_counted_whatever_stands_between_them(server, lone):
    request = lone.open(**SNAPSHOT)
    for _ in range(2):
        lone.send_bytes(b"\xc1")
        lone.receive()
        pong = lone.say("ping", {})
        request = lone.reply(request, decide(request))
    lone.send_bytes(b"\xc1")
    answer = lone.receive()

    assert pong["type"] == "pong"
    assert_refused(answer, "message.undecodable", fatal=True)
    assert server.reason() == "protocol_error"


# ---------------------------------------------------------------------- what is no message

MISSING = object()

FAULTS = [
    (("v",), MISSING, "v"),
    (("v",), 2, "v"),
    (("v",), True, "v"),
    (("session",), MISSING, "session"),
    (("session",), 7, "session"),
    (("epoch",), MISSING, "epoch"),
    (("epoch",), "1", "epoch"),
    (("epoch",), True, "epoch"),
    (("re",), MISSING, "re"),
    (("re",), True, "re"),
    (("re",), -1, "re"),
    (("re",), 1.5, "re"),
    (("type",), MISSING, "type"),
    (("type",), 7, "type"),
    (("type",), ["hello"], "type"),
    (("body",), MISSING, "body"),
    (("body",), None, "body"),
    (("body",), [], "body"),
    (("body", "decisions"), MISSING, "body.decisions"),
    (("body", "decisions"), None, "body.decisions"),
    (("body", "decisions"), {}, "body.decisions"),
    (("body", "decisions", 0), 7, "body.decisions.0"),
    (("body", "decisions", 1, "id"), MISSING, "body.decisions.1.id"),
    (("body", "decisions", 1, "id"), True, "body.decisions.1.id"),
    (("body", "decisions", 1, "id"), -1, "body.decisions.1.id"),
    (("body", "decisions", 0, "kind"), MISSING, "body.decisions.0"),
    (("body", "decisions", 0, "kind"), 7, "body.decisions.0"),
    (("body", "decisions", 0, "job"), MISSING, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), True, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), "0", "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), 0.5, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), None, "body.decisions.0.job"),
    (("body", "decisions", 0, "allocation", 0, 0), [0, 1], "body.decisions.0.allocation.0.0.2"),
    (("body", "decisions", 0, "allocation", 0, 0, 2), True, "body.decisions.0.allocation.0.0.2"),
    (("body", "decisions", 0, "allocation"), "0-1", "body.decisions.0.allocation"),
    (("body", "decisions", 1, "at_us"), MISSING, "body.decisions.1.at_us"),
    (("body", "decisions", 1, "timer"), False, "body.decisions.1.timer"),
    (("body", "state_version"), MISSING, "body.state_version"),
    (("body", "state_version"), True, "body.state_version"),
    (("body", "state_version"), "1", "body.state_version"),
    (("body", "compute_us"), True, "body.compute_us"),
    (("body", "compute_us"), -5, "body.compute_us"),
]


def full_reply(peer: ScriptedDispatcher, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply in which every field stands."""
    decisions = [
        {"id": 0, "kind": "start", "job": 0, "allocation": [[[0, 1, 1]]]},
        {"id": 1, "kind": "wake", "timer": 3, "at_us": 7 * SECOND},
    ]
    body = {
        "decisions": decisions,
        "state_version": request["body"]["state_version"],
        "compute_us": 1,
    }
    return {"v": 1, "type": "decision.reply", **peer.session, "re": request["seq"], "body": body}


def changed(value: Any, path: Sequence[Any], new: object) -> Any:
    """Return a copy of nested maps and arrays with one place in it changed."""
    copy = value.copy()
    if len(path) > 1:
        copy[path[0]] = changed(value[path[0]], path[1:], new)
    elif new is MISSING:
        del copy[path[0]]
    else:
        copy[path[0]] = new
    return copy


@pytest.mark.parametrize(
    ("where", "new", "path"),
    [
        pytest.param(*fault, id=f"{'.'.join(map(str, fault[0]))}-{type(fault[1]).__name__}-{index}")
        for index, fault in enumerate(FAULTS)
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named_and_the_session_survives(peer, where, new, path):
    request = peer.reply(peer.open(**SNAPSHOT))
    peer.send(changed(full_reply(peer, request), where, new))
    answer = peer.receive()

    assert_refused(answer, "message.invalid", path=path)
    assert_completes(peer, request)


def as_floats(value: Any) -> Any:
    """Return nested data with each integer as a float, as JavaScript may send it."""
    match value:
        case bool():
            return value
        case int():
            return float(value)
        case list():
            return [as_floats(item) for item in value]
        case dict():
            return {key: as_floats(item) for key, item in value.items()}
        case _:
            return value


def test_a_float_without_fraction_is_taken_wherever_an_integer_is_due(peer):
    request = peer.reply(peer.open(**SNAPSHOT))
    peer.send(as_floats(full_reply(peer, request)))
    answer = peer.receive()

    assert answer["type"] == "decision.request"
    assert [outcome["status"] for outcome in answer["body"]["outcomes"]] == ["applied"] * 2
    assert_completes(peer, answer)


def test_fields_that_are_not_defined_are_passed_over(peer):
    request = peer.open(**SNAPSHOT)
    body = {"decisions": [], "state_version": request["body"]["state_version"], "mood": "fine"}
    answer = peer.say("decision.reply", body, re=request["seq"], weather=["rain"])

    assert_completes(peer, answer)


# ---------------------------------------------------------------------- what comes out of turn


@pytest.mark.parametrize("kind", ["ready", "decision.reply", "ping", "bye"])
def test_a_message_before_hello_is_refused_and_a_hello_still_taken(peer, kind):
    bodies = {"decision.reply": {"decisions": [], "state_version": 0}}
    answer = peer.say(kind, bodies.get(kind, {}), session="x", epoch=1)

    assert_refused(answer, "message.unexpected")
    assert answer["body"]["supported"] == ["hello"]
    assert_completes(peer, peer.open(**SNAPSHOT))


def test_a_second_hello_is_refused_in_every_state_and_the_session_survives(peer):
    welcome = peer.hello(**SNAPSHOT)
    first = peer.hello()
    request = peer.say("ready", {}, re=welcome["seq"])
    second = peer.hello()

    assert_refused(first, "message.unexpected")
    assert_refused(second, "message.unexpected")
    assert "decision.reply" in second["body"]["supported"]
    assert_completes(peer, request)


def test_a_reply_before_ready_is_refused_and_the_session_survives(peer):
    welcome = peer.hello(**SNAPSHOT)
    answer = peer.say("decision.reply", {"decisions": [], "state_version": 0})

    assert_refused(answer, "message.unexpected")
    assert_completes(peer, peer.say("ready", {}, re=welcome["seq"]))


def test_a_second_ready_is_refused_and_the_session_survives(peer):
    request = peer.open(**SNAPSHOT)
    answer = peer.say("ready", {})

    assert_refused(answer, "message.unexpected")
    assert_completes(peer, request)


@pytest.mark.parametrize("kind", ["dance", "welcome", "decision.request", "session.end", "error"])
def test_a_message_that_no_client_may_send_is_refused_and_the_session_survives(peer, kind):
    request = peer.open(**SNAPSHOT)
    answer = peer.say(kind, {})

    assert_refused(answer, "message.unknown", path="type")
    assert answer["body"]["supported"] == ["bye", "decision.reply", "hello", "ping", "ready"]
    assert_completes(peer, request)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"session": "another"}, "session.unknown", id="session"),
        pytest.param({"session": ""}, "session.unknown", id="no-session"),
        pytest.param({"epoch": 2}, "session.unknown", id="epoch"),
        pytest.param({"re": 0}, "sequence.mismatch", id="re-before"),
        pytest.param({"re": 99}, "sequence.mismatch", id="re-after"),
    ],
)
def test_an_answer_to_something_else_is_refused_and_the_session_survives(peer, change, code):
    request = peer.open(**SNAPSHOT)
    body = {"decisions": [], "state_version": request["body"]["state_version"]}
    answer = peer.say("decision.reply", body, **{"re": request["seq"], **change})

    assert_refused(answer, code)
    assert_completes(peer, request)


def test_an_answer_to_another_state_is_refused_and_nothing_of_it_carried_out(peer):
    request = peer.reply(peer.open(**SNAPSHOT))
    decisions = [{"id": 0, "kind": "reject", "job": 0}]
    body = {"decisions": decisions, "state_version": request["body"]["state_version"] + 1}
    answer = peer.say("decision.reply", body, re=request["seq"])

    assert_refused(answer, "state.version", path="body.state_version")
    assert_completes(peer, request)


def test_a_reply_sent_twice_is_carried_out_once(peer):
    request = peer.reply(peer.open(**SNAPSHOT))
    decisions = [{"id": 0, "kind": "start", "job": 0}]
    body = {"decisions": decisions, "state_version": request["body"]["state_version"]}
    following = peer.say("decision.reply", body, re=request["seq"])
    answer = peer.say("decision.reply", body, re=request["seq"])

    assert_refused(answer, "sequence.mismatch")
    assert [outcome["status"] for outcome in following["body"]["outcomes"]] == ["applied"]
    assert_completes(peer, following)


def test_whoever_speaks_on_after_the_end_is_told(peer):
    go_on(peer, peer.open(**SNAPSHOT))
    answer = peer.say("ping", {})

    assert_refused(answer, "message.unexpected")


# ---------------------------------------------------------------------- hello

HELLO_FAULTS = [
    ({"versions": []}, "message.invalid", "body.versions", False),
    ({"versions": "1.0"}, "message.invalid", "body.versions", False),
    ({"versions": [1.0]}, "message.invalid", "body.versions.0", False),
    ({"client": None}, "message.invalid", "body.client", False),
    ({"client": {"name": "x"}}, "message.invalid", "body.client.version", False),
    ({"ask": "never"}, "message.invalid", "body.ask", False),
    ({"capabilities": {"state": "mind"}}, "message.invalid", "body.capabilities.state", False),
    ({"wants": ["job.ended", 7]}, "message.invalid", "body.wants.1", False),
    ({"versions": ["0.9", "2.0"]}, "version.unsupported", "body.versions", True),
    ({"scenario": "large"}, "scenario.unknown", "body.scenario", True),
    ({"wants": ["job.dreamt"]}, "wants.unknown", "body.wants", True),
]


@pytest.mark.parametrize(
    ("change", "code", "path", "fatal"),
    [pytest.param(*fault, id=f"{fault[2]}-{index}") for index, fault in enumerate(HELLO_FAULTS)],
)
def test_a_hello_that_cannot_be_granted_is_refused_and_a_better_one_taken(
    peer, change, code, path, fatal
):
    answer = peer.hello(**change)

    assert_refused(answer, code, path=path, fatal=fatal)
    assert_completes(peer, peer.open(**SNAPSHOT))


@pytest.mark.parametrize(
    ("change", "supported"),
    [
        pytest.param({"versions": ["2.0"]}, ["1.0"], id="version"),
        pytest.param({"scenario": "third"}, ["small", "second"], id="scenario"),
    ],
)
def test_a_refused_hello_is_told_what_would_do(tmp_path, change, supported):
    scenarios = [scenario_on(tmp_path), scenario_on(tmp_path, name="second")]
    with serving(tmp_path, *scenarios) as server, ScriptedDispatcher(server.endpoint) as peer:
        answer = peer.hello(**change)

    assert answer["body"]["fatal"] is True
    assert answer["body"]["supported"] == supported


def test_a_hello_gets_the_scenario_it_names_or_the_first(tmp_path):
    scenarios = [scenario_on(tmp_path), scenario_on(tmp_path, nodes=9, name="second")]
    with (
        serving(tmp_path, *scenarios) as server,
        ScriptedDispatcher(server.endpoint) as one,
        ScriptedDispatcher(server.endpoint) as other,
    ):
        welcomes = [one.hello(), other.hello(scenario="second")]

    assert [welcome["body"]["scenario"]["name"] for welcome in welcomes] == ["small", "second"]
    assert [welcome["body"]["platform"]["node_count"] for welcome in welcomes] == [4, 9]


def test_a_session_beyond_the_limit_is_refused(tmp_path):
    with (
        serving(tmp_path, sessions=1) as server,
        ScriptedDispatcher(server.endpoint) as one,
        ScriptedDispatcher(server.endpoint) as other,
    ):
        request = one.open(**SNAPSHOT)
        answer = other.hello()

        assert_refused(answer, "limit.sessions", fatal=True)
        assert_completes(one, request)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"versions": ["x" * 60_000, "y" * 60_000]}, id="versions"),
        pytest.param({"wants": ["x" * 65_536]}, id="wants"),
        pytest.param({"scenario": "x" * 65_536}, id="scenario"),
    ],
)
def test_an_error_is_a_message_of_the_protocol_however_long_its_cause(peer, change):
    answer = peer.hello(**change)

    read_server_message(answer)
    assert answer["body"]["fatal"] is True
    assert len(answer["body"]["message"]) < 1000


# ---------------------------------------------------------------------- what is in order


def test_an_unknown_decision_is_refused_by_itself(peer):
    request = peer.reply(peer.open(**SNAPSHOT))
    decisions = [
        {"kind": "start", "job": 0},
        {"kind": "levitate", "job": 0, "height": [1, 2, 3]},
        {"kind": "wake", "timer": 1, "at_us": 3 * SECOND},
    ]
    answer = peer.reply(request, decisions)

    outcomes = answer["body"]["outcomes"]
    assert [outcome["status"] for outcome in outcomes] == ["applied", "rejected", "applied"]
    assert outcomes[1]["code"] == "decision.unsupported"
    assert answer["body"]["now_us"] == 3 * SECOND
    assert_completes(peer, answer)


def test_a_ping_gets_a_pong_in_every_state_and_the_answer_after_it_still_works(peer):
    welcome = peer.hello(**SNAPSHOT)
    pongs = [peer.say("ping", {}), peer.say("ping", {})]
    request = peer.say("ready", {}, re=welcome["seq"])
    while request["type"] == "decision.request":
        pongs.append(peer.say("ping", {}))
        request = peer.reply(request, decide(request))

    assert {pong["type"] for pong in pongs} == {"pong"}
    assert request["body"]["reason"] == "completed"


@pytest.mark.parametrize("asked", [False, True], ids=["instead-of-ready", "instead-of-a-reply"])
def test_a_bye_ends_the_session(server, lone, asked):
    lone.hello()
    if asked:
        lone.ready()
    answer = lone.say("bye", {"reason": "had enough"})

    assert answer["type"] == "session.end"
    assert answer["body"]["reason"] == "bye"
    assert server.reason() == "dispatcher_left"


def test_a_plain_req_socket_is_served(server):
    with ScriptedDispatcher(server.endpoint, kind="REQ") as peer:
        peer.send_bytes(b"\xc1")
        refused = peer.receive()
        assert_completes(peer, peer.open(**SNAPSHOT))

    assert_refused(refused, "encoding.malformed")


def test_every_frame_before_the_empty_one_comes_back(peer):
    hello = {"versions": ["1.0"], "client": {"name": "correlated", "version": "0"}}
    payload = msgpack.packb({"v": 1, "type": "hello", "body": hello})
    peer.send_frames([b"\x00\x00\x00\x07", b"route", b"", payload])
    peer._socket.poll(10_000)
    frames = peer._socket.recv_multipart()

    assert frames[:3] == [b"\x00\x00\x00\x07", b"route", b""]
    assert msgpack.unpackb(frames[3])["type"] == "welcome"
    assert len(frames) == 4


def test_only_wanted_events_are_told_and_only_they_cause_a_request(tmp_path):
    with (
        serving(tmp_path, scenario_on(tmp_path, nodes=50)) as server,
        ScriptedDispatcher(server.endpoint) as peer,
    ):
        welcome = peer.hello(wants=["job.submitted"], **SNAPSHOT)
        messages = go_on(peer, peer.ready())

    told = [event["kind"] for message in messages[1:-1] for event in message["body"]["events"]]
    assert welcome["body"]["wants"] == ["job.submitted"]
    assert told == ["job.submitted"] * len(JOBS)
    assert instants(messages) == [0, 0, 5, 6, 40]


FULL = [(0, 10, 2), (1, 10, 2), (2, 10, 2)]
"""On two nodes each job fills the machine."""


@pytest.mark.parametrize(
    ("ask", "asked_at"),
    [("always", [0, 0, 1, 2, 10, 20, 30]), ("actionable", [0, 0, 10, 20])],
)
def test_a_dispatcher_is_asked_as_its_hello_says(tmp_path, ask, asked_at):
    with (
        serving(tmp_path, scenario_on(tmp_path, FULL, nodes=2)) as server,
        ScriptedDispatcher(server.endpoint) as peer,
    ):
        messages = go_on(peer, peer.open(ask=ask, **SNAPSHOT))

    assert instants(messages) == asked_at
    assert messages[-1]["body"]["stats"]["completed"] == len(FULL)


def test_events_that_were_kept_back_come_later_with_their_instants(tmp_path):
    with (
        serving(tmp_path, scenario_on(tmp_path, FULL, nodes=2)) as server,
        ScriptedDispatcher(server.endpoint) as peer,
    ):
        messages = go_on(peer, peer.open(ask="actionable", **SNAPSHOT))

    told = [(event["kind"], event["at_us"] // SECOND) for event in messages[2]["body"]["events"]]
    assert told == [
        ("job.submitted", 1),
        ("job.submitted", 2),
        ("workload.exhausted", 2),
        ("job.ended", 10),
    ]


def test_a_snapshot_session_gets_the_state_with_every_request(peer):
    messages = go_on(peer, peer.open(**SNAPSHOT))[:-1]
    at_six = next(m["body"]["state"] for m in messages if m["body"]["now_us"] == 6 * SECOND)

    assert all(message["body"].get("state") for message in messages)
    assert [job["name"] for job in at_six["pending"]] == ["3"]
    assert [entry["job"]["name"] for entry in at_six["running"]] == ["1", "2"]
    assert [entry["allocation"] for entry in at_six["running"]] == [[[[0, 1, 1]]], [[[2, 3, 1]]]]
    assert at_six["nodes"] == [[0, 3, {"core": 0}, "up"]]


def test_an_events_session_gets_the_state_with_its_first_request_alone(peer):
    requests = [peer.open()]
    while requests[-1]["body"]["now_us"] < 40 * SECOND:
        requests.append(peer.reply(requests[-1]))

    assert ["state" in request["body"] for request in requests] == [True, *[False] * 4]


# ---------------------------------------------------------------------- side by side


def test_two_sessions_in_turn_are_as_alone_while_others_are_silent(server):
    with (
        ScriptedDispatcher(server.endpoint) as one,
        ScriptedDispatcher(server.endpoint) as other,
        ScriptedDispatcher(server.endpoint) as silent,
        ScriptedDispatcher(server.endpoint),
    ):
        requests = {one: one.open(**SNAPSHOT), other: other.open(**SNAPSHOT)}
        waiting = silent.open(**SNAPSHOT)
        while any(request["type"] == "decision.request" for request in requests.values()):
            for peer, request in requests.items():
                requests[peer] = peer.reply(request, decide(request))
        served = [server.jobs_csv("1"), server.jobs_csv("2")]
        assert_completes(silent, waiting)

    assert served[0] == served[1] == server.jobs_csv("3")


def misbehave(endpoint: str, payload: bytes) -> None:
    """Open a session, do in it whatever is refused and little else, and vanish."""
    with ScriptedDispatcher(endpoint) as hostile:
        request = hostile.open()
        for body in ({}, {"decisions": [], "state_version": 99}):
            hostile.say("decision.reply", body, re=request["seq"])
        hostile.say("decision.reply", {"decisions": []}, session="another")
        hostile.say("ready", {})
        hostile.hello(scenario="another")
        request = hostile.reply(request, [{"kind": "start", "job": job} for job in range(-3, 300)])
        hostile.reply(request, [{"kind": "kill", "job": job} for job in range(-3, 300)])
        for _ in range(3):
            hostile.send_bytes(payload)
            hostile.receive()
        hostile.send_frames([b"no", b"empty", b"frame"])


def test_a_hostile_peer_disturbs_no_other_session(server):
    with ScriptedDispatcher(server.endpoint) as alone:
        go_on(alone, alone.open(**SNAPSHOT))
    with ScriptedDispatcher(server.endpoint) as honest:
        request = honest.open(**SNAPSHOT)
        payloads = iter(UNDECODABLE.values())
        while request["type"] == "decision.request":
            misbehave(server.endpoint, next(payloads))
            request = honest.reply(request, decide(request))

    assert request["body"]["reason"] == "completed"
    assert server.jobs_csv("2") == server.jobs_csv("1")
    assert server.reason("3") == "protocol_error"


def test_another_peer_cannot_speak_in_a_session_that_is_not_its_own(lone, server):
    request = lone.open(**SNAPSHOT)
    with ScriptedDispatcher(server.endpoint) as thief:
        stranger = thief.say("bye", {}, **lone.session)
        thief.hello()
        guest = thief.say("bye", {}, **lone.session)

    assert_refused(stranger, "message.unexpected")
    assert_refused(guest, "session.unknown")
    assert_completes(lone, request)


def test_bytes_that_are_not_zeromq_disturb_nobody(server, lone):
    request = lone.open(**SNAPSHOT)
    host, _, port = server.endpoint.removeprefix("tcp://").rpartition(":")
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 500, b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(noise)

    assert_completes(lone, request)


def test_a_run_whose_folder_cannot_be_made_disturbs_no_other_session(server, lone):
    request = lone.open(**SNAPSHOT)
    (server.out / "2").write_text("in the way")
    with ScriptedDispatcher(server.endpoint, timeout=3) as unlucky:
        answer = unlucky.hello()

    assert_refused(answer, "server.failed", fatal=True)
    assert_completes(lone, request)


def test_a_dispatcher_that_vanishes_is_missed_before_its_deadline(server):
    with ScriptedDispatcher(server.endpoint) as peer:
        peer.open()

    # Its deadline is a minute away; the closed connection tells at once.
    assert wait_until(lambda: "1" in server.ended, 3)
    assert server.reason() == "dispatcher_lost"


def test_a_dispatcher_that_is_late_is_told_and_disturbs_no_other(tmp_path):
    scenarios = [scenario_on(tmp_path, deadline="1s"), scenario_on(tmp_path, name="patient")]
    with (
        serving(tmp_path, *scenarios) as server,
        ScriptedDispatcher(server.endpoint) as late,
        ScriptedDispatcher(server.endpoint) as honest,
    ):
        late.open()
        request = honest.open(scenario="patient", **SNAPSHOT)
        answer = late.receive()

        assert_refused(answer, "deadline.missed", fatal=True)
        assert server.reason("1") == "deadline_missed"
        assert_completes(honest, request)


def same_key_twice(keys: int) -> bytes:
    """Return a map of so many keys of which the last stands twice."""
    names = [msgpack.packb(str(number)) + b"\x01" for number in range(keys)]
    return b"\xdf" + (keys + 1).to_bytes(4, "big") + b"".join([*names, names[-1]])


def test_a_large_map_with_a_key_that_stands_twice_keeps_nobody_waiting(tmp_path):
    # A quarter of a megabyte: far below the limit of a message.
    with serve_command(tmp_path) as (_, endpoint), ScriptedDispatcher(endpoint, timeout=3) as peer:
        peer.send_bytes(same_key_twice(40_000))
        answer = peer.receive()

    assert_refused(answer, "encoding.malformed")


@contextmanager
def flood(endpoint: str, payload: bytes) -> Iterator[None]:
    """Somebody who sends as fast as the server takes it, while the block lasts."""
    stop = threading.Event()

    def send() -> None:
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(endpoint)
            while not stop.is_set():
                if dealer.poll(100, zmq.POLLOUT):
                    dealer.send_multipart([b"", payload])
                while dealer.poll(0):
                    dealer.recv_multipart()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def test_a_flood_from_one_peer_does_not_suspend_the_deadline_of_another(tmp_path):
    with (
        serve_command(tmp_path, deadline="1s") as (_, endpoint),
        ScriptedDispatcher(endpoint, timeout=6) as silent,
    ):
        silent.open()
        with flood(endpoint, b"\xc1"), flood(endpoint, b"\x80"):
            answer = silent.receive()

    assert_refused(answer, "deadline.missed", fatal=True)


def test_a_flood_does_not_keep_a_server_from_being_interrupted(tmp_path):
    with (
        serve_command(tmp_path) as (process, endpoint),
        flood(endpoint, b"\xc1"),
        flood(endpoint, b"\x80"),
    ):
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        status = process.wait(6)

    assert status == 130


def test_a_run_that_cannot_be_written_disturbs_no_other_session(tmp_path):
    jobs = [(0, 1 + number // 300, 1) for number in range(700)] + [(1000, 1, 1)]
    limit: dict[str, Any] = {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        "env": unmeasured(),
    }
    with (
        serve_command(tmp_path, jobs=jobs, **limit) as (process, endpoint),
        ScriptedDispatcher(endpoint, timeout=5) as unlucky,
        ScriptedDispatcher(endpoint, timeout=5) as other,
    ):
        other.open(**SNAPSHOT)
        request = unlucky.open(**SNAPSHOT)
        while request["body"]["now_us"] < 3 * SECOND:
            request = unlucky.reply(request, decide(request))
        # Its rows are due for the disk within a second, while it thinks.
        answer = unlucky.receive()
        pong = other.say("ping", {})

        assert_refused(answer, "server.failed", fatal=True)
        assert pong["type"] == "pong"
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_server_tells_its_dispatchers_and_leaves_whole_rows(tmp_path, number):
    with (
        serve_command(tmp_path) as (process, endpoint),
        ScriptedDispatcher(endpoint) as peer,
    ):
        request = peer.open(**SNAPSHOT)
        while request["body"]["now_us"] < 5 * SECOND:
            request = peer.reply(request, decide(request))
        process.send_signal(number)
        answer = peer.receive()
        status = process.wait(PATIENCE)

    assert_refused(answer, "server.failed", fatal=True)
    assert status == 130
    table = rows(tmp_path / "served" / "1" / "jobs.csv")
    assert [row["final_state"] for row in table] == ["RUNNING", "SUBMITTED"]
    assert summary_of(tmp_path / "served" / "1")["end"]["reason"] == "interrupted"


# ---------------------------------------------------------------------- hidden truth


class _Ear:
    """A socket that keeps every byte it receives."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.heard: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv_multipart(self) -> list[bytes]:
        frames: list[bytes] = self._socket.recv_multipart()
        self.heard.extend(frames)
        return frames


def spellings(number: int) -> Iterator[bytes]:
    """Yield the ways to write a number of seconds: as text, whole, as a float, in microseconds."""
    for value in (number, number * SECOND, number * 1000):
        yield str(value).encode()
        yield msgpack.packb(value)
        yield msgpack.packb(float(value))
        yield struct.pack(">f", value)


@pytest.mark.parametrize("state", ["events", "snapshot"])
def test_no_message_carries_what_was_only_known_afterwards(tmp_path, state):
    # Submissions off zero: the instant of an end must not look like the runtime.
    jobs = [(1000, 424242, 2, 500000), (1500, 424242, 2, 600000), (2000, 424242, 4, 700000)]
    scenario = scenario_on(tmp_path, jobs)
    with serving(tmp_path, scenario) as server, ScriptedDispatcher(server.endpoint) as peer:
        ear: Any = _Ear(peer._socket)
        peer._socket = ear
        heard = [peer.hello(capabilities={"state": state}), peer.say("ping", {})]
        heard.append(peer.say("ready", {}, re=1))
        heard.append(peer.say("nonsense", {}))
        heard.append(peer.reply(heard[2], [{"kind": "start", "job": 9}]))
        waiting: list[int] = []
        while heard[-1]["type"] == "decision.request":
            events = heard[-1]["body"]["events"]
            waiting += [e["job"]["job"] for e in events if e["kind"] == "job.submitted"]
            starts = [{"kind": "start", "job": job} for job in waiting]
            heard.append(peer.reply(heard[-1], starts))
            done = [o["id"] for o in heard[-1]["body"]["outcomes"] if o["status"] == "applied"]
            waiting = [job for index, job in enumerate(waiting) if index not in done]
        go_on_to_bye(peer, ear)
        rest = b"\n".join(ear.heard)

    assert {message["type"] for message in heard} == {
        *("welcome", "pong", "error", "decision.request", "session.end")
    }
    assert heard[-1]["body"]["stats"]["completed"] == len(jobs)
    assert msgpack.packb(500000 * SECOND) in rest, "the search must find what is there"
    for secret in (424242, 777777, 888888, 999999):
        assert [form for form in spellings(secret) if form in rest] == []


def go_on_to_bye(peer: ScriptedDispatcher, ear: _Ear) -> None:
    """Hear what another session hears that leaves in the middle."""
    request = peer.open(**SNAPSHOT)
    while request["body"]["now_us"] < 2000 * SECOND:
        request = peer.reply(request, decide(request))
    peer.say("bye", {})
    assert ear.heard


def test_a_peer_without_a_server_gives_up(tmp_path):
    peer = ScriptedDispatcher(f"ipc://{tmp_path}/nobody", timeout=0.1)

    with peer, pytest.raises(NoAnswer):
        peer.hello()


def test_no_workload_stays_open_when_a_session_breaks_off(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server = Server(tmp_path, [scenario_on(tmp_path)])
        with ScriptedDispatcher(server.endpoint) as peer:
            peer.open()
            peer.say("bye", {})
        server.close()
        del server
        gc.collect()

    assert [str(warning.message) for warning in caught] == []
