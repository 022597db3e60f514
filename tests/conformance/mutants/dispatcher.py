"""A small dispatcher with everything in it that the kit looks at, and faults by name.

    python dispatcher.py [FAULT]

First come, first served on whole nodes. Without a fault it conforms. It needs pyzmq and msgpack
only, and starts in a twentieth of a second.
"""

from __future__ import annotations

import json
import os
import random
import sys

import msgpack
import zmq
from zmq.utils.monitor import recv_monitor_message

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""


class Refused(Exception):
    """The server sent an error."""


class Lost(Exception):
    """The server is gone."""


class Dispatcher:
    def __init__(self) -> None:
        self.endpoint = os.environ["PARLEY_ENDPOINT"]
        self.context = zmq.Context()
        self.json = "json" in FAULT
        self.epoch = self.asked = self.last = 0
        self.session: dict[str, object] = {}
        self.ids = 0
        self.connect()

    def connect(self) -> None:
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 500)
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.socket.connect(self.endpoint)

    # ------------------------------------------------------------------ the wire

    def write(self, message) -> bytes:
        if self.json:
            return json.dumps(message).encode()
        return msgpack.packb(message)

    def say(self, kind, body, **more):
        message = {"v": 1, "type": kind, **self.session, **more, "body": body}
        self.send([b"", self.write(message)])
        return self.hear()

    def send(self, frames) -> None:
        self.socket.send_multipart(frames)

    def read(self, frame: bytes):
        return json.loads(frame) if frame[:1] == b"{" else msgpack.unpackb(frame)

    def hear(self):
        while not self.socket.poll(100):
            self.watch()
        answer = self.read(self.socket.recv_multipart()[-1])
        if answer["type"] == "error":
            print(answer["body"]["message"], file=sys.stderr)
            raise Refused(answer["body"])
        self.last = int(answer["seq"])
        if answer["type"] in {"welcome", "decision.request"}:
            self.asked = self.last
        return answer

    def watch(self) -> None:
        if self.monitor.poll(0):
            recv_monitor_message(self.monitor)
            if not self.socket.poll(100):
                raise Lost

    # ------------------------------------------------------------------ the session

    def hello_body(self):
        return {
            "versions": ["1.0"],
            "client": {"name": "mutant", "version": "1"},
            "capabilities": {"state": "events"},
        }

    def hello(self, resume=None):
        self.session = {}
        body = self.hello_body()
        if resume is not None:
            body["resume"] = resume
        answer = self.say("hello", body)
        self.join(answer)
        return answer

    def join(self, welcome) -> None:
        self.session = {"session": welcome["session"], "epoch": welcome["epoch"]}
        self.token = welcome["body"]["token"]
        self.waits = welcome["body"]["policy"]["on_disconnect"] == "wait"
        self.most = welcome["body"]["limits"]["decisions"]
        self.random = random.Random(welcome["body"]["seed"])
        self.begin(welcome["body"]["platform"])

    def named_session(self):
        session, token = os.environ.get("PARLEY_SESSION"), os.environ.get("PARLEY_TOKEN")
        return {"session": session, "token": token} if session and token else None

    def run(self) -> int:
        resume = self.named_session()
        while True:
            try:
                return self.converse(resume)
            except Lost:
                if not getattr(self, "waits", False):
                    return 1
                resume = {"session": self.session["session"], "token": self.token}
                self.socket.close(linger=0)
                self.connect()
            except Refused as error:
                if error.args[0]["fatal"]:
                    return self.on_fatal(error.args[0])
                return self.on_refusal(error.args[0])

    def on_fatal(self, body) -> int:
        return 1

    def on_refusal(self, body) -> int:
        try:
            self.say("bye", {}, re=self.asked)
        except Refused:
            pass
        return 1

    def converse(self, resume) -> int:
        self.hello(resume)
        answer = self.ready()
        while answer["type"] == "decision.request":
            answer = self.reply(answer)
        return self.over(answer["body"]["reason"])

    def ready(self):
        return self.say("ready", {}, re=self.asked)

    def over(self, reason) -> int:
        return 0 if reason == "completed" else 1

    def reply(self, request):
        body = request["body"]
        self.take_in(body)
        decisions = self.decide(body)
        return self.answer(request, decisions)

    def answer(self, request, decisions):
        body = {"decisions": decisions, "state_version": request["body"]["state_version"]}
        return self.say("decision.reply", body, re=request["seq"])

    # ------------------------------------------------------------------ the mirror

    def begin(self, platform) -> None:
        self.resources = {kind for group in platform["groups"] for kind in group["capacity"]}
        self.capacity = {}
        for group in platform["groups"]:
            for node in range(int(group["first"]), int(group["last"]) + 1):
                self.capacity[node] = group["capacity"]
        self.jobs, self.pending, self.running, self.down = {}, [], {}, set()
        self.starts = {}

    def load(self, state) -> None:
        running = [entry["job"] for entry in state["running"]]
        self.jobs = {int(job["job"]): job for job in [*state["pending"], *running]}
        self.pending = [int(job["job"]) for job in state["pending"]]
        self.running = {
            int(entry["job"]["job"]): entry["allocation"][0] for entry in state["running"]
        }
        self.down = {
            node
            for first, last, _, service in state["nodes"]
            for node in range(int(first), int(last) + 1)
            if service == "down"
        }
        self.starts = {}

    def take_in(self, body) -> None:
        if body.get("state") is not None:
            self.load(body["state"])
            return
        at = next((outcome["at_us"] for outcome in body["outcomes"] if outcome.get("at_us")), None)
        settled = False
        for event in body["events"]:
            if not settled and (at is None or event["at_us"] > at):
                self.settle(body["outcomes"])
                settled = True
            self.happen(event)
        if not settled:
            self.settle(body["outcomes"])

    def settle(self, outcomes) -> None:
        for outcome in outcomes:
            self.outcome(outcome)
        self.starts = {}

    def outcome(self, outcome) -> None:
        job = self.starts.get(outcome["id"])
        if job is None:
            return
        number, spans = job
        if outcome["status"] == "applied" and number in self.pending:
            self.pending.remove(number)
            self.running[number] = spans

    def happen(self, event) -> None:
        match event["kind"]:
            case "job.submitted":
                self.jobs[int(event["job"]["job"])] = event["job"]
                self.pending.append(int(event["job"]["job"]))
            case "job.ended":
                self.running.pop(int(event["job"]), None)
                if event["status"] == "requeued":
                    self.pending.insert(0, int(event["job"]))
            case "node.down":
                self.down |= nodes_in(event["nodes"])
            case "node.up":
                self.down -= nodes_in(event["nodes"])

    # ------------------------------------------------------------------ the policy

    def decide(self, body):
        taken = {number: list(spans) for number, spans in self.running.items()}
        decisions = []
        for number in self.pending:
            spans = self.place(self.jobs[number]["request"][0], taken)
            if spans is None or len(decisions) == self.most:
                break
            taken[number] = spans
            self.ids += 1
            self.starts[self.ids] = (number, spans)
            decisions.append(self.start(self.ids, number, spans))
        return decisions

    def start(self, identity, number, spans):
        return {"id": identity, "kind": "start", "job": number, "allocation": [spans]}

    def place(self, group, taken):
        spans, missing = [], int(group["chunks"])
        for node in self.capacity:
            chunks = min(missing, self.room(node, group, taken))
            if chunks:
                missing -= chunks
                if spans and spans[-1][1] + 1 == node and spans[-1][2] == chunks:
                    spans[-1][1] = node
                else:
                    spans.append([node, node, chunks])
        return None if missing else spans

    def room(self, node, group, taken):
        if node in self.down:
            return 0
        free, tenants = dict(self.capacity[node]), 0
        for number, spans in taken.items():
            for first, last, chunks in spans:
                if first <= node <= last:
                    other = self.jobs[number]["request"][0]
                    if other["exclusive"]:
                        return 0
                    tenants += 1
                    for kind, amount in other["per_chunk"].items():
                        free[kind] -= chunks * amount
        asked = {kind: amount for kind, amount in group["per_chunk"].items() if amount}
        room = min((int(free.get(kind, 0) // amount) for kind, amount in asked.items()), default=1)
        return min(room, int(not tenants)) if group["exclusive"] else room


def nodes_in(ranges):
    return {node for first, last in ranges for node in range(int(first), int(last) + 1)}


if __name__ == "__main__":
    sys.exit(Dispatcher().run())
