"""No session suffers from another, nor from whatever a stranger does."""

from __future__ import annotations

import gc
import resource
import signal
import socket
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import zmq

from parley_conformance import ScriptedDispatcher
from tests.support import rows, summary_of, unmeasured

if TYPE_CHECKING:
    from collections.abc import Iterator

from tests.payloads import UNDECODABLE
from tests.serving import (
    PATIENCE,
    SECOND,
    SNAPSHOT,
    Server,
    assert_completes,
    assert_refused,
    decide,
    go_on,
    scenario_on,
    serve_command,
    serving,
    wait_until,
)

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
        payloads = iter(payload for _, payload in UNDECODABLE.values())
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

    assert_refused(stranger, "session.unknown")
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

    assert_refused(answer, "encoding.duplicate_key")


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
