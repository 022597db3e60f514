"""A small dispatcher with everything in it that the kit looks at, and faults by name.

    python dispatcher.py [FAULT]     FAULTS at the end names them

First come, first served on whole nodes. Without a fault it conforms. It needs pyzmq and msgpack
only, and starts in a twentieth of a second.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import msgpack
import zmq
from zmq.utils.monitor import recv_monitor_message


class Refused(Exception):
    """The server sent an error."""


class Lost(Exception):
    """The server is gone."""


class Dispatcher:
    json = False
    atomic = False

    def __init__(self) -> None:
        self.endpoint = os.environ["PARLEY_ENDPOINT"]
        self.context = zmq.Context()
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


# ---------------------------------------------------------------------- faults


class PingsFirst(Dispatcher):
    def hello_body(self):
        if not self.session and not getattr(self, "pinged", False):
            self.pinged = True
            self.aside({"v": 1, "type": "ping", "session": "", "epoch": 0, "re": 0, "body": {}})
        return super().hello_body()

    def aside(self, message) -> None:
        """Send something and take no notice of the answer."""
        self.send([b"", self.write(message)])
        self.socket.poll(3000)
        self.socket.recv_multipart()


class Versions(Dispatcher):
    def hello_body(self):
        return {**super().hello_body(), "versions": ["2.0"]}


class WantsTheMoon(Dispatcher):
    def hello_body(self):
        return {**super().hello_body(), "wants": [*KINDS, "moon.full"]}


class Nameless(Dispatcher):
    def hello_body(self):
        return {**super().hello_body(), "client": {"name": "mutant"}}


class _Altered(Dispatcher):
    """Changes messages of one type."""

    kind = "decision.reply"

    def alter(self, message):
        raise NotImplementedError

    def write(self, message) -> bytes:
        if message["type"] == self.kind:
            message = self.alter(dict(message))
        return super().write(message)


class WithoutV(_Altered):
    def alter(self, message):
        del message["v"]
        return message


class WithoutBody(_Altered):
    kind = "ready"

    def alter(self, message):
        del message["body"]
        return message


class SessionOne(_Altered):
    def alter(self, message):
        return {**message, "session": "1"}


class EpochText(_Altered):
    def alter(self, message):
        return {**message, "epoch": str(message["epoch"])}


class EpochOne(Dispatcher):
    def join(self, welcome):
        super().join(welcome)
        self.session["epoch"] = 1


class ReZero(_Altered):
    def alter(self, message):
        return {**message, "re": message["re"] - 1}


class StaleVersion(_Altered):
    def alter(self, message):
        body = message["body"]
        return {**message, "body": {**body, "state_version": max(0, body["state_version"] - 1)}}


class AsksAside(Dispatcher):
    """Pings before each reply, and takes no notice of the answer."""

    def ping_re(self):
        return self.asked

    def answer(self, request, decisions):
        self.say_aside("ping", {}, re=self.ping_re())
        return super().answer(request, decisions)

    def say_aside(self, kind, body, **more):
        message = {"v": 1, "type": kind, **self.session, **more, "body": body}
        PingsFirst.aside(self, message)


class PingsAmiss(AsksAside):
    def ping_re(self):
        return self.asked + 5


class ProgressTooSoon(AsksAside):
    def answer(self, request, decisions):
        return Dispatcher.answer(self, request, decisions)

    def ready(self):
        self.say_aside("progress", {}, re=self.asked)
        return super().ready()


class _Bytes(Dispatcher):
    def garble(self, frame, message) -> bytes:
        raise NotImplementedError

    def write(self, message) -> bytes:
        return self.garble(super().write(message), message)


class SaysAnArray(AsksAside):
    def answer(self, request, decisions):
        if request["body"]["now_us"] == 0:
            self.send([b"", b"\x93\x01\x02\x03"])
            self.socket.poll(3000)
            self.socket.recv_multipart()
        return Dispatcher.answer(self, request, decisions)


class Trailing(_Bytes):
    def garble(self, frame, message):
        return frame + b"\n"


class TwiceTheKey(_Bytes):
    def garble(self, frame, message):
        return bytes([frame[0] + 1]) + b"\xa1v\x01" + frame[1:]


class Binary(_Altered):
    def alter(self, message):
        return {**message, "session": str(message["session"]).encode()}

    def write(self, message):
        if message["type"] == self.kind:
            return msgpack.packb(self.alter(dict(message)), use_bin_type=True)
        return super().write(message)


class Latin(_Bytes):
    def garble(self, frame, message):
        return frame.replace(b"\xa6mutant", b"\xa6mut\xe4nt")


class Huge(Dispatcher):
    def hello_body(self):
        return {**super().hello_body(), "pid": 2**60}


class NotANumber(Dispatcher):
    def hello_body(self):
        return {**super().hello_body(), "load": float("nan")}


class SpeaksBoth(_Bytes):
    def garble(self, frame, message):
        return json.dumps(message).encode() if message["type"] == "ready" else frame


class ThreeFrames(Dispatcher):
    def send(self, frames):
        super().send([b"", b"part", *frames[1:]])


class _InPlain(Dispatcher):
    """Knows which dialogue it is in."""

    scene = ""

    def join(self, welcome):
        self.scene = welcome["body"]["scenario"]["name"]
        super().join(welcome)


class Impatient(_InPlain):
    """Sends a heartbeat while it waits."""

    beating = False

    def watch(self):
        super().watch()
        if self.scene == "plain" and self.session and not self.beating:
            self.beating = True
            message = {"v": 1, "type": "ping", **self.session, "re": self.asked, "body": {}}
            self.send([b"", self.write(message)])


class LeavesAtWelcome(_InPlain):
    def ready(self):
        if self.scene == "plain":
            sys.exit(1)
        return super().ready()


class CrashesInPlain(_InPlain):
    def take_in(self, body):
        super().take_in(body)
        if self.scene == "plain" and body["now_us"] > 12_000_000:
            os.abort()


class PingsAfterEnd(AsksAside):
    def answer(self, request, decisions):
        return Dispatcher.answer(self, request, decisions)

    def over(self, reason):
        message = {"v": 1, "type": "ping", **self.session, "re": self.last, "body": {}}
        self.send([b"", self.write(message)])
        return super().over(reason)


class AfraidOfLarge(Dispatcher):
    """Neither starts nor rejects a job of four nodes."""

    def decide(self, body):
        kept = self.pending
        self.pending = [n for n in kept if self.jobs[n]["request"][0]["chunks"] < 4]
        try:
            return super().decide(body)
        finally:
            self.pending = kept


class Snapshots(Dispatcher):
    """Keeps nothing in mind."""

    def hello_body(self):
        return {**super().hello_body(), "capabilities": {"state": "snapshot"}}


class SameIds(Snapshots):
    def start(self, identity, number, spans):
        return {**super().start(identity, number, spans), "id": 0}


class Slow(_InPlain):
    def answer(self, request, decisions):
        if self.scene == "plain" and request["body"]["now_us"] == 5_000_000:
            time.sleep(2.2)
        return super().answer(request, decisions)


class PrintsToken(Dispatcher):
    def join(self, welcome):
        print(welcome, flush=True)
        super().join(welcome)


class Unmerged(Dispatcher):
    def place(self, group, taken):
        spans = super().place(group, taken)
        if spans is None:
            return None
        return [[n, n, c] for first, last, c in spans for n in range(first, last + 1)]


class _Reads(Dispatcher):
    """Gives up at a frame or a message that it does not like."""

    def dislikes(self, frame, message) -> bool:
        raise NotImplementedError

    def read(self, frame):
        message = super().read(frame)
        if self.dislikes(frame, message):
            print("what is this?", file=sys.stderr)
            sys.exit(3)
        return message


class NoWideMaps(_Reads):
    def dislikes(self, frame, message):
        return frame[0] == 0xDF


class IntegersOnly(_Reads):
    def dislikes(self, frame, message):
        return isinstance(message.get("seq"), float)


class InOrder(_Reads):
    def dislikes(self, frame, message):
        keys = list(message)
        return keys.index("type") > keys.index("body")


class NoNil(_Reads):
    def dislikes(self, frame, message):
        return message["body"].get("deadline_ms", 0) is None


class NoUnknownFields(_Reads):
    def dislikes(self, frame, message):
        return "x_first" in message


class AsciiNames(_Reads):
    def dislikes(self, frame, message):
        jobs = [e["job"] for e in message["body"].get("events", ()) if e["kind"] == "job.submitted"]
        return any(not job["name"].isascii() for job in jobs)


class ShortTimes(_Reads):
    def dislikes(self, frame, message):
        return message["body"].get("now_us", 0) >= 2**50


class KnownEvents(Dispatcher):
    def happen(self, event):
        if event["kind"] not in KINDS:
            sys.exit(3)
        super().happen(event)


class Json(Dispatcher):
    """Has no MessagePack."""

    json = True


class NaiveJson(_Reads):
    json = True

    def dislikes(self, frame, message):
        return b'"type":"' not in frame


class Shallow(_Reads):
    def dislikes(self, frame, message):
        return frame.count(b"\x91\x91\x91\x91") > 3


class SmallBuffer(_Reads):
    def dislikes(self, frame, message):
        return len(frame) > 2**20


class NeedsJobs(_Reads):
    def dislikes(self, frame, message):
        events = [event["kind"] for event in message["body"].get("events", ())]
        return events == ["session.start", "workload.exhausted"]


class NeedsRequest(Dispatcher):
    def ready(self):
        answer = super().ready()
        if answer["type"] != "decision.request":
            self.say("state.request", {}, re=self.last)
        return answer


class Unlimited(Dispatcher):
    def join(self, welcome):
        super().join(welcome)
        self.most = 10**9


class Wordy(_InPlain):
    def answer(self, request, decisions):
        if self.scene == "plain" and decisions:
            decisions[0]["reason"] = "x" * 300_000
        return super().answer(request, decisions)


class _Stubborn(Dispatcher):
    """Says its last reply again after some errors."""

    codes: tuple[str, ...] = ()

    def answer(self, request, decisions):
        self.kept = (request, decisions)
        return super().answer(request, decisions)

    def on_fatal(self, body):
        if body["code"] in self.codes:
            try:
                self.answer(*self.kept)
            except (Refused, Lost):
                pass
        return 1


class GoesByCode(_Stubborn):
    codes = ("site.curfew",)


class IgnoresStale(_Stubborn):
    codes = ("epoch.stale",)


class ReadyAnyway(Dispatcher):
    def on_fatal(self, body):
        if not self.session:
            message = {"v": 1, "type": "ready", "session": "", "epoch": 1, "re": 1, "body": {}}
            self.send([b"", self.write(message)])
        return 1


class HangsAfterError(Dispatcher):
    def on_refusal(self, body):
        time.sleep(60)
        return 1


class SaysNothing(Dispatcher):
    def hear(self):
        out, sys.stderr = sys.stderr, open(os.devnull, "w")
        try:
            return super().hear()
        finally:
            sys.stderr = out


class AlwaysZero(Dispatcher):
    def over(self, reason):
        return 0


class _Touchy(Dispatcher):
    """Gives up at some outcomes."""

    def hurts(self, outcome, body) -> bool:
        raise NotImplementedError

    def take_in(self, body):
        if any(self.hurts(outcome, body) for outcome in body["outcomes"]):
            sys.exit(3)
        super().take_in(body)


class NoRefusals(_Touchy):
    def hurts(self, outcome, body):
        return outcome["status"] == "rejected"


class NotAllRefused(_Touchy):
    def hurts(self, outcome, body):
        refused = [one for one in body["outcomes"] if one["status"] == "rejected"]
        plain = all(one["code"] == "node.busy" for one in refused)
        return plain and len(refused) > 1 and len(refused) == len(body["outcomes"])


class KnownCodes(_Touchy):
    def hurts(self, outcome, body):
        return str(outcome.get("code")).startswith("site.")


class NeverLate(_Touchy):
    def hurts(self, outcome, body):
        return outcome.get("code") == "decision.late"


class Atomic(Dispatcher):
    """Has its replies taken as a whole."""

    def hello_body(self):
        capabilities = {"state": "events", "decisions": "atomic"}
        return {**super().hello_body(), "capabilities": capabilities}


class AtomicTouchy(Atomic, _Touchy):
    """Has them taken as a whole, and gives up when they are not."""

    def hurts(self, outcome, body):
        return outcome.get("code") == "decision.rolled_back"


class OncePerInstant(Dispatcher):
    def take_in(self, body):
        if body["attempt"] > 1 and body.get("state") is None:
            sys.exit(3)
        super().take_in(body)


class Forgets(Dispatcher):
    """A job whose start was refused is not tried again."""

    def outcome(self, outcome):
        job = self.starts.get(outcome["id"])
        super().outcome(outcome)
        if job is not None and outcome["status"] == "rejected" and job[0] in self.pending:
            self.pending.remove(job[0])


class NoRequeues(_Reads):
    def dislikes(self, frame, message):
        return any(e.get("status") == "requeued" for e in message["body"].get("events", ()))


class NoFailures(_Reads):
    def dislikes(self, frame, message):
        return any(e.get("status") == "failed" for e in message["body"].get("events", ()))


class BlindToFailures(Dispatcher):
    def happen(self, event):
        if event["kind"] != "node.down":
            super().happen(event)


class ForgetsRequeued(Dispatcher):
    def happen(self, event):
        super().happen(event)
        if event.get("status") == "requeued":
            self.pending.remove(event["job"])


class OneTooMany(_InPlain):
    """Its first allocation of shared nodes holds a chunk too many."""

    wrong = False

    def start(self, identity, number, spans):
        decision = super().start(identity, number, spans)
        if self.scene == "shared" and not self.wrong:
            self.wrong = True
            decision["allocation"] = [[*spans[:-1], [*spans[-1][:2], spans[-1][2] + 1]]]
        return decision


class CountsCores(Dispatcher):
    """Looks at one resource only."""

    def room(self, node, group, taken):
        slim = {"core": group["per_chunk"].get("core", 0)}
        return super().room(node, {**group, "per_chunk": slim}, taken)


class EqualNodes(Dispatcher):
    """Thinks that every node has every resource."""

    def begin(self, platform):
        super().begin(platform)
        for node in self.capacity:
            for kind in self.resources:
                if kind not in self.capacity[node]:
                    sys.exit(3)


class NoAccelerators(Dispatcher):
    def place(self, group, taken):
        return None if "gpu" in group["per_chunk"] else super().place(group, taken)


class StartsTwice(_InPlain):
    def decide(self, body):
        decisions = super().decide(body)
        if self.scene == "plain" and decisions:
            decisions.append({**decisions[0], "id": 10**6 + self.ids})
        return decisions


class Overcommits(_InPlain):
    """Its second start of the plain dialogue is put on nodes that are taken."""

    def start(self, identity, number, spans):
        decision = super().start(identity, number, spans)
        if self.scene == "plain" and identity == 2:
            decision["allocation"] = [[[0, 1, 1]]]
        return decision


class NoLatency(_Touchy):
    def hurts(self, outcome, body):
        return outcome.get("at_us") is not None


class AsksForState(AsksAside):
    """Compares digests, and asks for the state where they differ."""

    def differs(self, digest) -> bool:
        return digest == "0" * 64

    def state_re(self):
        return self.asked

    def answer(self, request, decisions):
        digest = request["body"].get("state_digest")
        if digest is not None and self.differs(digest):
            answer = self.say("state.request", {}, re=self.state_re())
            self.load(answer["body"]["state"])
        return Dispatcher.answer(self, request, decisions)


class WrongDigests(AsksForState):
    def differs(self, digest):
        return True


class AsksAmiss(AsksForState):
    def state_re(self):
        return self.asked - 1


class Wakes(_InPlain):
    """Sets a timer with its first reply."""

    def wakes(self, body):
        return [{"id": 1, "kind": "wake", "timer": 1, "at_us": body["now_us"] + 2_000_000}]

    def answer(self, request, decisions):
        if self.scene in {"plain", "again", "hash-seed", "locale", "time-zone"}:
            if request["body"]["events"][:1] == [{"kind": "session.start", "at_us": 0}]:
                self.ids += 1
                decisions = [*self.wakes(request["body"]), *decisions]
        return super().answer(request, decisions)


class WakesNow(Wakes):
    def wakes(self, body):
        return [{"id": 1, "kind": "wake", "timer": 1, "at_us": body["now_us"]}]


class CancelsAmiss(Wakes):
    def wakes(self, body):
        return [{"id": 1, "kind": "wake.cancel", "timer": 1}]


class AfraidOfTimers(Wakes):
    def happen(self, event):
        if event["kind"] == "timer.fired" and self.scene == "plain":
            sys.exit(3)
        super().happen(event)


class Kills(_InPlain):
    """Kills a job at 5 s, once."""

    done = False

    def victim(self):
        return next(iter(self.running), 0)

    def answer(self, request, decisions):
        if self.scene in PLAINS and request["body"]["now_us"] == 5_000_000 and not self.done:
            self.done = True
            decisions = [*decisions, {"id": 10**6, "kind": "kill", "job": self.victim()}]
        return super().answer(request, decisions)


class KillsAnybody(Kills):
    def victim(self):
        return 77


class AfraidOfDeath(Kills):
    def happen(self, event):
        if event.get("status") == "killed" and self.scene == "plain":
            sys.exit(3)
        super().happen(event)


class Boasts(Dispatcher):
    def hello_body(self):
        capabilities = {"state": "events", "submit": True}
        return {**super().hello_body(), "capabilities": capabilities}


class Forgetful(Dispatcher):
    def named_session(self):
        return None


class HalfResumes(Dispatcher):
    def named_session(self):
        session, token = (os.environ.get(f"PARLEY_{name}") for name in ("SESSION", "TOKEN"))
        return {"session": session or "", "token": token} if token else None


class LeavesResumed(Dispatcher):
    def take_in(self, body):
        if body["attempt"] > 1 and body.get("state") is not None and os.environ.get("PARLEY_TOKEN"):
            sys.exit(3)
        super().take_in(body)


class KeepsItsPicture(Dispatcher):
    """A state does not make it forget what it held before."""

    def begin(self, platform):
        if not hasattr(self, "pending"):
            super().begin(platform)

    def load(self, state):
        jobs, pending = dict(self.jobs), list(self.pending)
        super().load(state)
        self.jobs = {**jobs, **self.jobs}
        self.pending = sorted({*pending, *self.pending})


class Tireless(Dispatcher):
    """Says hello anew when its session cannot be resumed."""

    codes = ("session.over",)

    def on_fatal(self, body):
        if body["code"] in self.codes:
            return self.converse(None)
        return 1


class TirelessWithToken(Tireless):
    codes = ("session.token",)


class Deaf(Dispatcher):
    """Does not look whether the server is there."""

    def watch(self):
        pass


class _Whimsical(Dispatcher):
    """Decides by something that is not in the dialogue."""

    def whim(self) -> bool:
        raise NotImplementedError

    def decide(self, body):
        decisions = super().decide(body)
        if len(decisions) > 1 and self.whim():
            decisions = decisions[::-1]
        return decisions


class Random(_Whimsical):
    def whim(self):
        # Another in each process, and the other one in the next.
        return os.getpid() % 2 == 0 or os.urandom(1)[0] % 2 == 0

    def start(self, identity, number, spans):
        return {**super().start(identity, number, spans), "reason": os.urandom(4).hex()}


class ByHash(_Whimsical):
    def whim(self):
        return os.environ.get("PYTHONHASHSEED") == "4711"


class ByLocale(_Whimsical):
    def whim(self):
        return os.environ.get("LC_ALL") == "C"


class ByZone(_Whimsical):
    def whim(self):
        return time.localtime(0).tm_gmtoff == 19800


KINDS = (
    *("job.ended", "job.started", "job.submitted", "node.down", "node.up"),
    *("session.start", "timer.fired", "workload.exhausted"),
)

PLAINS = frozenset({"plain", "again", "hash-seed", "locale", "time-zone"})


def named(name: str) -> str:
    """Return the name of a fault: `NoWideMaps` is no-wide-maps."""
    return "".join(f"-{mark.lower()}" if mark.isupper() else mark for mark in name).lstrip("-")


FAULTS = {
    named(name): value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Dispatcher) and not name.startswith("_")
}


def main(arguments) -> int:
    return FAULTS[arguments[0] if arguments else "dispatcher"]().run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
