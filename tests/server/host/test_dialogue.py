"""What comes out of turn, what a hello may ask for, and what is in order."""

from __future__ import annotations

import msgpack
import pytest

from parley_conformance import ScriptedDispatcher
from parley_protocol.codec import read_server_message
from parley_protocol.messages import CLIENT_MESSAGES
from tests.serving import (
    JOBS,
    SECOND,
    SNAPSHOT,
    assert_completes,
    assert_refused,
    decide,
    go_on,
    instants,
    scenario_on,
    serving,
)

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
    assert answer["body"]["supported"] == sorted(CLIENT_MESSAGES)
    assert_completes(peer, request)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"session": "another"}, "session.unknown", id="session"),
        pytest.param({"session": ""}, "session.unknown", id="no-session"),
        pytest.param({"epoch": 2}, "epoch.future", id="epoch-after"),
        pytest.param({"epoch": 0}, "epoch.stale", id="epoch-before"),
        pytest.param({"re": 0}, "sequence.stale", id="re-before"),
        pytest.param({"re": 99}, "sequence.future", id="re-after"),
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

    assert_refused(answer, "sequence.stale")
    assert [outcome["status"] for outcome in following["body"]["outcomes"]] == ["applied"]
    assert_completes(peer, following)


def test_whoever_speaks_on_after_the_end_is_told(peer):
    go_on(peer, peer.open(**SNAPSHOT))
    answer = peer.say("ping", {})

    assert_refused(answer, "session.over", fatal=True)


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
