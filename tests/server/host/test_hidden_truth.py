"""What was only known afterwards is told to nobody."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from parley_conformance import ScriptedDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

from parley_server.api import load_scenario
from parley_server.scenario import settings_of
from tests.excerpts import FORMATS, SECRETS, Row, flags
from tests.serving import (
    SECOND,
    SNAPSHOT,
    decide,
    scenario_on,
    serving,
)

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


@pytest.mark.parametrize("kind", FORMATS)
def test_no_reader_tells_what_was_only_known_afterwards(tmp_path, kind):
    start = 1_000_000
    some = [Row(n, start + n * 500, 424242, 2, 500000 + n) for n in (1, 2, 3)]
    settings = settings_of(**flags(tmp_path, kind, some))
    scenario = load_scenario(None, {**settings, "platform": {"nodes": 4}})
    with serving(tmp_path, scenario) as server, ScriptedDispatcher(server.endpoint) as peer:
        ear: Any = _Ear(peer._socket)
        peer._socket = ear
        request = peer.open(**SNAPSHOT)
        while request["type"] == "decision.request":
            request = peer.reply(request, decide(request))
        rest = b"\n".join(ear.heard)

    assert request["body"]["stats"]["completed"] == len(some)
    assert msgpack.packb(500001 * SECOND) in rest, "the search must find what is there"
    for secret in (424242, *SECRETS):
        assert [form for form in spellings(secret) if form in rest] == []


def test_columns_known_at_submission_do_travel(tmp_path):
    settings = settings_of(**flags(tmp_path, "csv", [Row(1, 5, 424242, 2, 500000)]))
    scenario = load_scenario(None, {**settings, "platform": {"nodes": 4}})
    with serving(tmp_path, scenario) as server, ScriptedDispatcher(server.endpoint) as peer:
        request = peer.open(**SNAPSHOT)
        request = peer.reply(request, [])
        (job,) = request["body"]["state"]["pending"]
        peer.say("bye", {})

    assert job["attributes"] == {"project": "p, 1"}
