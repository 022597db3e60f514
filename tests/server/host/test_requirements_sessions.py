"""What the specification demands of sessions and of the dialogue, held against a live server."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest

from parley_conformance import ScriptedDispatcher
from parley_protocol import FROM_CLIENT, Dialect, decode, encode
from parley_protocol.codec import dialect_of
from parley_protocol.messages import CLIENT_MESSAGES, EVENT_KINDS
from parley_server.host import session as session_module
from tests.offering import (
    PLAIN,
    at_first_jobs,
    codes_of,
    events_of,
    offered,
    outcomes_of,
    second_of,
    state_of,
)
from tests.serving import assert_refused, serving

PATIENCE = 0.2
"""Seconds within which the impatient of the scenarios below want their replies."""

HURRIED = {"deadline": f"{PATIENCE}s"}


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    many = [(10 * number, 5, 1, 10) for number in range(60)]
    waiting = {"on_disconnect": "wait", "reconnect": "20s"}
    scenarios = [
        offered(folder, "plain"),
        offered(folder, "dynamic", session={"dynamic_jobs": True}),
        offered(folder, "waiting", session={**waiting, "dynamic_jobs": True}),
        offered(folder, "impatient", **HURRIED),
        offered(folder, "lenient", many, session={"on_timeout": "empty"}, **HURRIED),
        offered(folder, "detaching", session={**waiting, "on_timeout": "detach"}, **HURRIED),
    ]
    with serving(folder, *scenarios) as server:
        yield server


@pytest.fixture
def connect(standing):
    """Return new connections to the server; they are closed at the end."""
    peers = []

    def connected(**options):
        peers.append(ScriptedDispatcher(standing.endpoint, **options))
        return peers[-1]

    yield connected
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(connect):
    return connect()


@contextmanager
def alone(folder, name, jobs=PLAIN, **settings):
    """A server with one scenario, whose first session is therefore its first run."""
    with (
        serving(folder, offered(folder, name, jobs, **settings)) as server,
        ScriptedDispatcher(server.endpoint) as peer,
    ):
        yield server, peer


def start(job):
    """Return the decision to start a job wherever there is room."""
    return {"kind": "start", "job": job}


def resume_of(welcome):
    """Return what a hello says to take up the session of a welcome."""
    return {"session": welcome["session"], "token": welcome["body"]["token"]}


# ---------------------------------------------------------------------- hello and welcome


def test_the_version_that_both_speak_is_chosen(peer):
    welcome = peer.hello(versions=["7.3", "1.0", "1.1"])

    assert welcome["type"] == "welcome"
    assert welcome["body"]["version"] == "1.0"


def test_what_a_hello_leaves_out_has_its_default(connect):
    silent = connect()
    silent.send(
        {
            "v": 1,
            "type": "hello",
            "body": {"versions": ["1.0"], "client": {"name": "c", "version": "1"}},
        }
    )
    plain = silent.receive()["body"]
    asking = connect().hello(
        scenario="dynamic",
        ask="actionable",
        wants=["job.ended", "job.submitted"],
        capabilities={"state": "snapshot", "decisions": "atomic", "submit": True, "fly": True},
    )["body"]

    assert plain["granted"] == {"state": "events", "decisions": "each", "submit": False}
    assert (plain["ask"], set(plain["wants"])) == ("always", EVENT_KINDS)
    assert plain["scenario"]["name"] == "plain"
    assert asking["granted"] == {"state": "snapshot", "decisions": "atomic", "submit": True}
    assert (asking["ask"], asking["wants"]) == ("actionable", ["job.ended", "job.submitted"])


def test_no_capability_is_granted_that_was_not_asked_for(peer):
    welcome = peer.hello(scenario="dynamic")

    assert welcome["body"]["granted"]["submit"] is False


def test_every_hello_begins_a_run_of_its_own(connect):
    one, other = connect(), connect()

    first, second = one.open(scenario="plain"), other.open(scenario="plain")
    peer_one = one.reply(one.reply(first), [start(0), start(1)])
    peer_other = other.reply(second)

    assert one.session["session"] != other.session["session"]
    assert (second_of(peer_one), second_of(peer_other)) == (10, 0)


def test_the_first_request_is_that_of_time_0_with_the_state_before_any_job(peer):
    peer.hello(scenario="plain")
    request = peer.ready()

    assert (second_of(request), events_of(request)) == (0, [(0, "session.start")])
    assert request["body"]["attempt"] == 1
    assert request["body"]["state"]["pending"] == request["body"]["state"]["running"] == []
    assert request["body"]["state"]["exhausted"] is False


def test_the_start_of_the_session_is_told_whatever_is_wanted(peer):
    request = peer.open(scenario="plain", wants=["job.ended"])

    assert events_of(request) == [(0, "session.start")]


def test_a_connection_may_be_used_for_another_session_after_the_end(peer):
    peer.open(scenario="plain")
    end = peer.say("bye", {})
    welcome = peer.hello(scenario="plain")

    assert (end["type"], end["body"]["reason"]) == ("session.end", "bye")
    assert welcome["type"] == "welcome"
    assert peer.ready()["type"] == "decision.request"


def test_stats_count_each_job_once(peer):
    request = at_first_jobs(peer, "plain")
    request = peer.reply(request, [start(0), {"kind": "reject", "job": 1}])
    request = peer.reply(request, [{"kind": "kill", "job": 0}])
    end = peer.reply(request, [{"kind": "stop"}])

    stats = end["body"]["stats"]
    assert stats == {
        "submitted": 3,
        "completed": 0,
        "failed": 0,
        "timed_out": 0,
        "killed": 1,
        "rejected": 1,
        "requeues": 0,
    }


# ---------------------------------------------------------------------- numbers of messages


def test_every_message_of_the_server_has_the_next_number(connect):
    peer, heir = connect(), connect()
    welcome = peer.hello(scenario="waiting")
    answers = [welcome, peer.ready()]
    answers.append(peer.say("ping", {}))
    answers.append(peer.say("ready", {}))
    answers.append(peer.say("decision.reply", {}, re=2))
    answers.append(peer.say("state.request", {}, re=2))
    answers.append(peer.say("progress", {}, re=2))
    answers.append(heir.hello(resume=resume_of(welcome)))
    answers.append(heir.ready())

    assert [answer["seq"] for answer in answers] == list(range(1, 10))
    assert [answer["type"] for answer in answers] == [
        *("welcome", "decision.request", "pong", "error", "error"),
        *("state.snapshot", "progress.ack", "welcome", "decision.request"),
    ]


@pytest.mark.parametrize("kind", ["ping", "state.request", "progress", "bye"])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_said_beside_a_reply_names_the_request_or_the_last_message(peer, kind, last):
    request = peer.open(scenario="plain")
    pong = peer.say("ping", {})

    answer = peer.say(kind, {}, re=pong["seq"] if last else request["seq"])

    assert answer["type"] in {"pong", "state.snapshot", "progress.ack", "session.end"}


@pytest.mark.parametrize("kind", ["decision.reply", "ping", "state.request", "progress", "bye"])
def test_an_answer_to_an_earlier_or_a_later_message_is_refused(peer, kind):
    request = at_first_jobs(peer, "plain")
    body = {"decisions": [], "state_version": request["body"]["state_version"]}

    stale = peer.say(kind, body, re=request["seq"] - 1)
    future = peer.say(kind, body, re=request["seq"] + 7)

    assert_refused(stale, "sequence.stale", path="re")
    assert_refused(future, "sequence.future", path="re")
    assert stale["body"]["supported"] == future["body"]["supported"] == [str(request["seq"])]
    assert peer.reply(request)["type"] == "decision.request"


def test_a_reply_answers_the_request_and_not_what_was_said_in_between(peer):
    request = at_first_jobs(peer, "plain")
    pong = peer.say("ping", {})
    body = {"decisions": [], "state_version": request["body"]["state_version"]}

    wrong = peer.say("decision.reply", body, re=pong["seq"])
    right = peer.say("decision.reply", body, re=request["seq"])

    assert_refused(wrong, "sequence.stale", path="re")
    assert right["type"] == "decision.request"


def test_a_message_of_another_session_is_refused(connect):
    peer, other = connect(), connect()
    request = peer.open(scenario="plain")
    other.open(scenario="plain")

    named = peer.say("ping", {}, session=other.session["session"])
    unnamed = peer.say("ping", {}, session="no such session")

    assert_refused(named, "session.unknown", path="session")
    assert_refused(unnamed, "session.unknown", path="session")
    assert peer.reply(request)["type"] == "decision.request"
    assert other.say("ping", {})["type"] == "pong"


def test_whoever_has_no_session_is_told_why_and_gets_no_numbers(connect):
    peer = connect()
    ended = connect()
    ended.open(scenario="plain")
    ended.say("bye", {})
    peer.open(scenario="plain")

    def said(**changes):
        answer = connect().say("ping", {}, **{"session": "x", "epoch": 1, "re": 1, **changes})
        assert not {"session", "epoch", "seq"} & answer.keys()
        return answer

    assert_refused(said(**ended.session), "session.over", fatal=True)
    assert_refused(said(**{**peer.session, "epoch": 0}), "epoch.stale", fatal=True)
    assert_refused(said(**peer.session), "session.unknown", path="session")
    assert_refused(said(session="no such session"), "message.unexpected")
    assert peer.say("ping", {})["type"] == "pong"


def test_compute_us_has_no_effect(connect):
    ends = []
    for compute_us in (0, 10**9):
        peer = connect()
        request = peer.open(scenario="plain")
        while request["type"] == "decision.request":
            version = request["body"]["state_version"]
            started = [
                {"id": 0, **start(event["job"]["job"])}
                for event in request["body"]["events"]
                if event["kind"] == "job.submitted"
            ]
            body = {"decisions": started, "state_version": version, "compute_us": compute_us}
            request = peer.say("decision.reply", body, re=request["seq"])
        ends.append({**request, "session": None})

    assert ends[0] == ends[1]


# ---------------------------------------------------------------------- turns


def test_a_server_says_nothing_unasked(peer):
    at_first_jobs(peer, "plain")

    assert not peer._socket.poll(300)


def test_every_message_gets_one_answer(peer):
    request = at_first_jobs(peer, "plain")
    for _ in range(5):
        peer.send({"v": 1, "type": "ping", **peer.session, "re": request["seq"], "body": {}})

    answers = [peer.receive()["type"] for _ in range(5)]

    assert answers == ["pong"] * 5
    assert not peer._socket.poll(100)


# ---------------------------------------------------------------------- encodings


def said_in(peer, dialect, message):
    """Send a message in a dialect; return the frame of the answer."""
    peer.send_bytes(encode(message, dialect))
    return peer._socket.recv_multipart()[-1]


def hello_of(**changes):
    """Return a hello."""
    body = {"versions": ["1.0"], "client": {"name": "c", "version": "1"}, **changes}
    return {"v": 1, "type": "hello", "body": body}


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_a_session_is_held_in_the_encoding_of_its_hello(peer, dialect):
    other = next(item for item in Dialect if item is not dialect)
    frames = [said_in(peer, dialect, hello_of(scenario="plain"))]
    envelope = {"v": 1, "session": decode(frames[0])["session"], "epoch": 1}
    frames.append(said_in(peer, dialect, {**envelope, "type": "ready", "re": 1, "body": {}}))
    ping = {**envelope, "type": "ping", "re": 2, "body": {}}

    frames.append(said_in(peer, other, ping))
    frames.append(said_in(peer, dialect, ping))
    frames.append(said_in(peer, dialect, {**envelope, "type": "bye", "re": 2, "body": {}}))

    assert {dialect_of(frame) for frame in frames} == {dialect}
    types = [decode(frame)["type"] for frame in frames]
    assert types == ["welcome", "decision.request", "error", "pong", "session.end"]
    assert decode(frames[2])["body"]["code"] == "encoding.dialect"


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
def test_an_error_to_a_stranger_is_in_the_encoding_of_what_it_answers(peer, dialect):
    frame = said_in(peer, dialect, hello_of(versions=["9.0"]))

    assert dialect_of(frame) is dialect
    assert decode(frame)["body"]["code"] == "version.unsupported"


def test_a_session_may_be_resumed_in_the_other_encoding(connect):
    peer, heir = connect(), connect()
    welcome = peer.hello(scenario="waiting")
    peer.ready()

    frame = said_in(heir, Dialect.JSON, hello_of(resume=resume_of(welcome)))

    assert dialect_of(frame) is Dialect.JSON
    assert json.loads(frame)["body"]["resumed"] is True


# ---------------------------------------------------------------------- deadlines


def test_a_missed_deadline_ends_the_session_unasked(tmp_path):
    with alone(tmp_path, "impatient", **HURRIED) as (server, peer):
        began = time.monotonic()
        request = peer.open()

        error = peer.receive()

        assert request["body"]["deadline_ms"] == PATIENCE * 1000
        assert time.monotonic() - began >= PATIENCE
        assert_refused(error, "deadline.missed", fatal=True)
        assert server.reason() == "deadline_missed"


def test_a_ready_that_does_not_come_misses_the_deadline_too(peer):
    peer.hello(scenario="lenient")

    assert_refused(peer.receive(), "deadline.missed", fatal=True)


def test_progress_sets_the_deadline_back(peer):
    request = peer.open(scenario="impatient")
    for _ in range(5):
        time.sleep(PATIENCE / 2)
        answer = peer.say("progress", {"note": "still at it"})
        assert (answer["type"], answer["body"]["deadline_ms"]) == ("progress.ack", PATIENCE * 1000)

    assert peer.reply(request)["type"] == "decision.request"


def test_a_late_reply_is_told_so_with_the_request_that_waits(peer):
    request = peer.open(scenario="lenient")
    request = peer.reply(request)
    time.sleep(4 * PATIENCE)
    ping = peer.say("ping", {}, re=request["seq"])
    ack = peer.say("progress", {}, re=request["seq"])

    later = peer.reply(request, [{"id": 5, **start(0)}, {"id": 4, **start(99)}])
    applied = peer.reply(later, [start(0)])

    assert (ping["type"], ack["body"]) == ("pong", {"deadline_ms": 0})
    assert second_of(later) > second_of(request)
    assert outcomes_of(later) == [(5, "decision.late"), (4, "decision.late")]
    assert codes_of(applied) == ["applied"]


def test_nothing_of_a_late_reply_is_applied(peer):
    request = peer.reply(peer.open(scenario="lenient"))
    time.sleep(3 * PATIENCE)

    later = peer.reply(request, [{"kind": "reject", "job": 0}, {"kind": "hold", "job": 0}])
    state = state_of(peer)

    assert codes_of(later) == ["decision.late"] * 2
    assert state["pending"][0]["job"] == 0
    assert state["held"] == []


def test_a_late_reply_to_a_run_that_has_ended_gets_its_end(tmp_path):
    lenient = {"session": {"on_timeout": "empty"}, **HURRIED}
    with alone(tmp_path, "fading", [(0, 9, 1)], **lenient) as (server, peer):
        request = peer.open()
        assert server.reason() == "stalled"

        end = peer.reply(request, [start(0)])

        assert (end["type"], end["body"]["reason"]) == ("session.end", "stalled")


def test_a_dispatcher_that_is_late_is_given_up_for_one_that_resumes(connect):
    peer, heir = connect(), connect()
    welcome = peer.hello(scenario="detaching")
    request = peer.ready()
    time.sleep(4 * PATIENCE)

    late = peer.reply(request)
    resumed = heir.hello(resume=resume_of(welcome))
    again = heir.ready()

    assert_refused(late, "epoch.stale", fatal=True)
    assert resumed["body"]["resumed"] is True
    assert again["body"]["now_us"] == request["body"]["now_us"]


# ---------------------------------------------------------------------- lost, and resumed


def test_a_session_whose_dispatcher_vanished_fails_where_nobody_is_waited_for(tmp_path):
    with alone(tmp_path, "plain") as (server, peer):
        peer.open()
        peer.close()

        assert server.reason() == "dispatcher_lost"


def test_a_session_that_nobody_resumes_in_time_is_failed(tmp_path):
    brief = {"on_disconnect": "wait", "reconnect": "0.2s"}
    with alone(tmp_path, "brief", session=brief) as (server, peer):
        welcome = peer.hello()
        peer.ready()
        peer.close()

        assert server.reason() == "dispatcher_lost"
        with ScriptedDispatcher(server.endpoint) as heir:
            assert_refused(heir.hello(resume=resume_of(welcome)), "session.over", fatal=True)


def test_a_session_whose_dispatcher_vanished_is_kept_and_resumed(connect):
    peer = connect()
    welcome = peer.hello(scenario="waiting")
    request = at_first = peer.reply(peer.ready())
    request = peer.reply(at_first, [{"id": 3, **start(0)}, {"id": 9, **start(99)}])
    peer.close()
    time.sleep(0.3)

    heir = connect()
    resumed = heir.hello(resume=resume_of(welcome), ask="actionable", wants=[])
    again = heir.ready()

    assert (resumed["session"], resumed["epoch"]) == (welcome["session"], 2)
    assert resumed["body"]["resumed"] is True
    assert resumed["body"]["token"] != welcome["body"]["token"]
    for field in ("ask", "wants", "scenario", "platform", "seed"):
        assert resumed["body"][field] == welcome["body"][field]
    for field in ("now_us", "events", "outcomes", "state_version"):
        assert again["body"][field] == request["body"][field]
    assert (request["body"]["attempt"], again["body"]["attempt"]) == (1, 2)
    assert [job["job"]["job"] for job in again["body"]["state"]["running"]] == [0]


def test_capabilities_stay_but_for_the_state(connect):
    peer, heir = connect(), connect()
    asked = {"submit": True, "decisions": "atomic"}
    welcome = peer.hello(scenario="waiting", capabilities=asked)
    plain = peer.reply(peer.ready())

    resumed = heir.hello(resume=resume_of(welcome), capabilities={"state": "snapshot"})
    full = heir.reply(heir.ready())

    assert "state" not in plain["body"]
    assert resumed["body"]["granted"] == {**asked, "state": "snapshot"}
    assert "state" in full["body"]


def test_another_token_or_session_resumes_nothing(connect):
    peer = connect()
    welcome = peer.hello(scenario="waiting")
    request = peer.ready()
    good = resume_of(welcome)

    answers = [
        connect().hello(resume={**good, "token": token})
        for token in ("", good["token"][:-1], good["token"].upper() + "x")
    ]
    answers.append(connect().hello(resume={**good, "session": "999"}))
    answers.append(connect().hello(resume={**good, "session": "no such session"}))

    for answer in answers:
        assert_refused(answer, "session.token", fatal=True)
    assert peer.reply(request)["type"] == "decision.request"


def test_a_token_is_void_once_it_was_used(connect):
    peer = connect()
    welcome = peer.hello(scenario="waiting")
    peer.ready()
    heir = connect()
    resumed = heir.hello(resume=resume_of(welcome))

    again = connect().hello(resume=resume_of(welcome))
    third = connect().hello(resume=resume_of(resumed))

    assert_refused(again, "session.token", fatal=True)
    assert third["epoch"] == 3


def test_an_old_client_is_fenced_and_changes_nothing(connect):
    peer, heir = connect(), connect()
    welcome = peer.hello(scenario="waiting")
    request = peer.reply(peer.ready())
    heir.hello(resume=resume_of(welcome))
    again = heir.ready()

    late = peer.reply(request, [start(0)])
    old = heir.say("ping", {}, epoch=1)
    future = heir.say("ping", {}, epoch=3)
    state = state_of(heir)

    assert_refused(late, "epoch.stale", fatal=True)
    assert_refused(old, "epoch.stale")
    assert_refused(future, "epoch.future")
    assert state["running"] == []
    assert codes_of(heir.reply(again, [start(0)])) == ["applied"]


def test_a_session_that_has_ended_cannot_be_resumed(connect):
    peer = connect()
    welcome = peer.hello(scenario="waiting")
    peer.ready()
    peer.say("bye", {})

    answer = connect().hello(resume=resume_of(welcome))

    assert_refused(answer, "session.over", fatal=True)


def test_a_session_may_be_resumed_before_its_first_request(connect):
    peer, heir = connect(), connect()
    welcome = peer.hello(scenario="waiting")

    heir.hello(resume=resume_of(welcome))
    request = heir.ready()

    assert events_of(request) == [(0, "session.start")]
    assert "state" in request["body"]


def decided(request):
    """Return what a dispatcher decides from nothing but the state: start what fits, in order."""
    state = request["body"]["state"]
    free = sum((last - first + 1) * amounts["core"] for first, last, amounts, _ in state["nodes"])
    started = []
    for job in state["pending"]:
        free -= job["request"][0]["chunks"]
        if free >= 0:
            started.append(start(job["job"]))
    return started


def test_a_run_that_was_resumed_all_the_time_is_as_if_undisturbed(tmp_path):
    snapshots = {"capabilities": {"state": "snapshot"}}
    with alone(tmp_path, "waiting", session={"on_disconnect": "wait"}) as (server, calm):
        request = calm.open(**snapshots)
        while request["type"] == "decision.request":
            request = calm.reply(request, decided(request))
        peer = ScriptedDispatcher(server.endpoint)
        welcome = peer.hello(**snapshots)
        request, resumed = peer.ready(), 0
        while request["type"] == "decision.request":
            heir = ScriptedDispatcher(server.endpoint)
            welcome = heir.hello(resume=resume_of(welcome), **snapshots)
            again = heir.ready()
            peer.close()
            resumed += 1
            peer, request = heir, heir.reply(again, decided(again))
        peer.close()

        assert resumed >= 5
        assert server.jobs_csv("2") == server.jobs_csv("1")


# ---------------------------------------------------------------------- limits


def test_the_limits_that_are_announced_are_those_that_are_enforced(peer):
    limits = peer.hello(scenario="plain")["body"]["limits"]

    assert limits["message_bytes"] == FROM_CLIENT.message_bytes >= 2**20
    assert limits["depth"] == FROM_CLIENT.depth == 32
    assert limits["string_bytes"] == FROM_CLIENT.string_bytes >= 65_536
    assert limits["array_items"] == FROM_CLIENT.array_items >= 65_536
    assert limits["decisions"] == session_module.MAX_DECISIONS >= 10_000
    assert limits["undecodable"] == session_module.STRIKES


def test_a_reply_with_too_many_decisions_is_refused_as_a_whole(peer, monkeypatch):
    monkeypatch.setattr(session_module, "MAX_DECISIONS", 2)
    request = at_first_jobs(peer, "plain")

    most = [start(0), start(1), start(1)]
    refused = peer.reply(request, most)
    state = state_of(peer)
    taken = peer.reply(request, most[:2])

    assert_refused(refused, "limit.decisions", path="body.decisions")
    assert refused["body"]["supported"] == ["2"]
    assert state["running"] == []
    assert codes_of(taken) == ["applied", "applied"]


def test_a_message_beyond_the_limit_is_told_so(peer):
    request = at_first_jobs(peer, "plain")
    long = "x" * 200_000
    note = {"note": "n", **{f"k{number}": long for number in range(84)}}

    answer = peer.say("progress", note)

    assert_refused(answer, "limit.message")
    assert peer.reply(request)["type"] == "decision.request"


def test_a_connection_with_a_frame_beyond_all_bounds_is_cut(tmp_path):
    with alone(tmp_path, "plain") as (server, peer):
        peer.open()

        peer.send_bytes(bytes(4 * FROM_CLIENT.message_bytes + 1))

        assert server.reason() == "dispatcher_lost"
        with ScriptedDispatcher(server.endpoint) as other:
            assert other.hello()["type"] == "welcome"


@pytest.mark.parametrize(
    "bad",
    [
        b"\xc1",
        b"\x80\x80",
        encode({"v": 1}),
        b'{"v":1}',
        encode({"k": "x" * (FROM_CLIENT.string_bytes + 1)}),
        b"\x81\xa1k" + b"\x91" * 40,
    ],
    ids=["malformed", "trailing", "invalid", "the other encoding", "too long", "too deep"],
)
def test_the_third_message_that_cannot_be_read_ends_the_session(peer, bad):
    at_first_jobs(peer, "plain")
    answers = []
    for frame in (bad, encode({"v": 1, "type": "guess"}), bad, bad):
        peer.send_bytes(frame)
        answers.append(peer.receive())

    # A message of an unknown type can be read.
    assert [answer["body"]["fatal"] for answer in answers] == [False, False, False, True]
    assert answers[1]["body"]["code"] == "message.unknown"
    assert answers[1]["body"]["supported"] == sorted(CLIENT_MESSAGES)
    assert_refused(answers[-1], "message.undecodable", fatal=True)
