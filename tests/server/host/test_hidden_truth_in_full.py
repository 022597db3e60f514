"""What was only known afterwards stands in no message of any kind, in neither encoding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import zmq

from parley_protocol.messages import SERVER_MESSAGES
from parley_server.api import load_scenario
from tests.server.host.test_hidden_truth import spellings
from tests.serving import SECOND, serving
from tests.support import write_swf

if TYPE_CHECKING:
    from pathlib import Path

# Submit, runtime, nodes, estimate. The estimates are unmistakable, and told; the runtimes are
# unmistakable, and are not. No end falls on a number of seconds that looks like a runtime.
JOBS = [
    (1000, 424242, 2, 500000),
    (1500, 535353, 2, 600000),
    (2000, 646464, 4, 700000),
    (2500, 757575, 1, 800000),
]
SECRETS = (424242, 535353, 646464, 757575, 777777, 888888, 999999)

FORMATS = {
    "messagepack": (msgpack.packb, msgpack.unpackb),
    "json": (lambda value: json.dumps(value).encode(), json.loads),
}


class Hearer:
    """A dispatcher by pyzmq alone, which keeps every byte that comes to it."""

    def __init__(self, endpoint: str, form: str) -> None:
        self._pack, self._unpack = FORMATS[form]
        self._context = zmq.Context()
        self._endpoint = endpoint
        self._session: dict[str, Any] = {}
        self._seq = 0
        self.heard: list[bytes] = []
        self.kinds: set[str] = set()
        self._connect()

    def _connect(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, 10_000)
        self._socket.connect(self._endpoint)

    def reconnect(self) -> None:
        self._socket.close()
        self._connect()

    def say(self, kind: str, body: Any, **envelope: Any) -> Any:
        message = {"v": 1, "type": kind, "re": self._seq, **self._session, "body": body}
        self._socket.send_multipart([b"", self._pack({**message, **envelope})])
        frames = self._socket.recv_multipart()
        self.heard.extend(frames)
        answer = self._unpack(frames[-1])
        self.kinds.add(answer["type"])
        self._seq = answer.get("seq", self._seq)
        if answer["type"] == "welcome":
            self._session = {"session": answer["session"], "epoch": answer["epoch"]}
        return answer

    def close(self) -> None:
        self._socket.close()
        self._context.term()


def scenario_in(folder: Path) -> Any:
    trace = write_swf(folder / "trace.swf", JOBS)
    path = folder / "scenario.toml"
    path.write_text(
        f"""
        [platform]
        nodes = 4
        [workload]
        swf = "{trace}"
        [run]
        on_node_down = "requeue"
        [session]
        state_digest = true
        on_disconnect = "wait"
        dynamic_jobs = true
        [[node_changes]]
        at = "3000s"
        nodes = "0"
        state = "down"
        [[node_changes]]
        at = "3500s"
        nodes = "0"
        state = "up"
        """
    )
    return load_scenario(path, {})


@pytest.mark.parametrize("form", FORMATS)
def test_no_message_of_any_kind_in_any_encoding_carries_it(tmp_path, form):
    with serving(tmp_path, scenario_in(tmp_path)) as server:
        hearer = Hearer(server.endpoint, form)
        client = {"name": "hearer", "version": "0"}
        hello = {
            "versions": ["1.0"],
            "client": client,
            "capabilities": {"state": "snapshot", "submit": True},
        }
        welcome = hearer.say("hello", hello)
        hearer.say("nonsense", {})
        request = hearer.say("ready", {}, re=welcome["seq"])
        waiting: set[int] = set()
        seen: set[str] = set()
        resumed = False
        while request["type"] == "decision.request":
            body, awaited = request["body"], request["seq"]
            seen |= {event["kind"] for event in body["events"]}
            waiting = {job["job"] for job in body["state"]["pending"]}
            hearer.say("ping", {}, re=awaited)
            hearer.say("state.request", {}, re=awaited)
            hearer.say("progress", {"note": "thinking"}, re=awaited)
            if not resumed and body["now_us"] >= 2000 * SECOND:
                resumed = True
                hearer.reconnect()
                token = {"session": welcome["session"], "token": welcome["body"]["token"]}
                hearer.say("hello", {**hello, "resume": token})
                request = hearer.say("ready", {})
                assert request["body"]["attempt"] == 2
                continue
            decisions = [
                {"id": index, "kind": "start", "job": job} for index, job in enumerate(waiting)
            ]
            decisions.append({"id": 99, "kind": "start", "job": 12345})
            reply = {"decisions": decisions, "state_version": body["state_version"]}
            request = hearer.say("decision.reply", reply, re=awaited)
        rest = b"\n".join(hearer.heard)
        hearer.close()

    assert request["body"]["stats"]["completed"] == len(JOBS)
    assert hearer.kinds == set(SERVER_MESSAGES)
    assert seen >= {"job.submitted", "job.ended", "node.down", "node.up", "workload.exhausted"}
    for told in (500000, 600000, 700000, 800000):
        assert any(spelling in rest for spelling in spellings(told)), "what is there must be found"
    for secret in SECRETS:
        assert [spelling for spelling in spellings(secret) if spelling in rest] == []
