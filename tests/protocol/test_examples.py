"""The examples that belong together are what a server says, and their digests those of states."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter

import pytest

from parley_protocol.digest import state_digest
from parley_protocol.examples import EXAMPLES, SECOND
from parley_server.engine import (
    PAUSED,
    ChunkGroup,
    Job,
    ListSource,
    NodeGroup,
    NodesDown,
    NodesUp,
    Shape,
)
from parley_server.host.conduct import Conduct, Latency
from parley_server.host.session import Offer, Session
from tests.support import PROJECT

REQUESTS = {
    name: message["body"] for name, message in EXAMPLES.items() if "state_digest" in message["body"]
}


def digest_of(body):
    """Return the digest of the state that a request shows."""
    state = body["state"]
    free, down = Counter(), []
    for first, last, amounts, service in state["nodes"]:
        for name, amount in amounts.items():
            free[name] += amount * (last - first + 1)
        if service == "down":
            down.append((first, last))
    return state_digest(
        now_us=body["now_us"],
        pending=[job["job"] for job in state["pending"]],
        held=state["held"],
        running=[
            (entry["job"]["job"], entry["start_us"], entry["allocation"])
            for entry in state["running"]
        ],
        free=free,
        down=down,
        timers={timer["timer"]: timer["at_us"] for timer in state["timers"]},
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_the_digest_of_an_example_is_that_of_the_state_beside_it(name):
    assert REQUESTS[name]["state_digest"] == digest_of(REQUESTS[name])


def test_the_digest_of_the_specification_is_that_of_its_lines():
    page = (PROJECT / "protocol/spec/decisions.md").read_text()
    lines = re.search(r"```text\n(now .*?)```", page, re.DOTALL)[1]
    (digest,) = re.findall(r"`([0-9a-f]{64})`", page)

    assert digest == hashlib.sha256(lines.encode()).hexdigest()


class Nobody:
    """A sink that keeps nothing."""

    def collect(self, simulation):
        """Take nothing."""


def job_of(wire, runtime):
    """Return a job of the engine's from how it looks to a dispatcher."""
    (group,) = wire["request"]
    return Job(
        wire["job"],
        wire["name"],
        wire["submit_us"],
        runtime,
        wire["walltime_us"],
        (ChunkGroup(group["chunks"], Shape.of(group["per_chunk"], exclusive=group["exclusive"])),),
        **{key: wire[key] for key in ("user", "group", "queue", "partition")},
        attributes=wire.get("attributes", {}),
    )


def plain(body):
    """Return a body as it comes out of a frame."""
    return json.loads(json.dumps(body))


def decided(session, decisions, *, wall_us):
    """Return the next message to a dispatcher that took so long to decide."""
    version = session.simulation.version
    session.reply({"decisions": decisions, "state_version": version}, wall_us=wall_us)
    message = session.advance()
    while message is PAUSED:
        message = session.advance()
    return message


def test_the_resumed_request_and_what_follows_it_are_what_the_server_says():
    request, reply = (
        EXAMPLES["decision.request-resumed"]["body"],
        EXAMPLES["decision.reply"]["body"],
    )
    (first,), (second,) = request["state"]["pending"], request["state"]["running"]
    jobs = [job_of(first, 600 * SECOND), job_of(second["job"], 60 * SECOND)]
    welcome = EXAMPLES["welcome-resumed"]["body"]
    (nodes,) = welcome["platform"]["groups"]
    offer = Offer(
        name="tiny",
        digest="",
        rules=welcome["scenario"]["rules"],
        groups=[NodeGroup("nodes", 4, nodes["capacity"])],
        open_source=lambda: ListSource(jobs),
        conduct=Conduct(
            on_disconnect="wait",
            on_node_down=welcome["policy"]["on_node_down"],
            latency=Latency("scaled", factor=welcome["policy"]["latency_factor"]),
            dynamic_jobs=True,
            state_digest=True,
        ),
        changes=[NodesDown(60 * SECOND, ((0, 1), (3, 3))), NodesUp(61 * SECOND, ((0, 1),))],
    )
    hello = EXAMPLES["hello-resume"]["body"]
    session = Session(offer, Nobody())
    session.open({**hello, "resume": None, "capabilities": {"submit": True}})
    assert session.advance()["now_us"] == 0
    decided(session, [], wall_us=400_000)
    wake = {"id": 2, "kind": "wake", "timer": 1, "at_us": 61 * SECOND}
    decided(session, [{"id": 1, "kind": "start", "job": 0}, wake], wall_us=400_000)
    (brought,) = (
        decision["job"] for decision in reply["decisions"] if decision["kind"] == "submit"
    )
    decided(
        session,
        [
            {"id": 3, "kind": "start", "job": 1},
            {"id": 4, "kind": "wake", "timer": 2, "at_us": 100 * SECOND},
            {"id": 5, "kind": "wake.cancel", "timer": 3},
            {"id": 6, "kind": "submit", "job": {**brought, "name": "check"}, "at_us": 65 * SECOND},
        ],
        wall_us=20_400_000,
    )
    resumed = session.resume({**hello, "resume": {"session": "1", "token": session.token}})
    again = session.request_again(resumed=True)
    snapshot = session.snapshot()
    end = decided(session, reply["decisions"], wall_us=400_000)

    assert (resumed["granted"], resumed["limits"]) == (
        welcome["granted"],
        {key: value for key, value in welcome["limits"].items() if key != "sessions"},
    )
    assert plain(again) == plain(request)
    assert plain(snapshot) == plain(EXAMPLES["state.snapshot"]["body"])
    assert plain(end) == plain(EXAMPLES["session.end-stopped"]["body"])
