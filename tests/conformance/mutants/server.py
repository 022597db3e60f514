"""The reference server with faults: each alters what it says, or what it hears, in one way.

python server.py FAULT ENDPOINT SCENARIOS...      FAULTS names them
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack

from parley_protocol import codec
from parley_protocol.codec import Dialect
from parley_server.api import load_scenario
from parley_server.errors import ParleyError
from parley_server.host import reception, router, session, wire
from parley_server.running import Preparation, offered_scenario
from tests.scheduling import Kept

CONTAINERS, DECISIONS = 100_000, 20_000
"""Limits that are reached with less work than those of the reference."""


class Server:
    """Changes nothing. `message` and `heard` may be changed in place."""

    codes: dict[str, str] = {}

    def __init__(self) -> None:
        self.scenario: dict[str, str] = {}
        self.welcomes: dict[str, Any] = {}

    def message(self, message, body) -> None:
        """Alter what is said."""

    def heard(self, message) -> None:
        """Alter what is heard."""

    def conduct(self, conduct):
        return conduct

    def frame(self, frame: bytes, message) -> bytes:
        return frame

    def frames(self, envelope, frame):
        return [*envelope, frame]

    def install(self) -> None:
        object.__setattr__(codec.FROM_CLIENT, "containers", CONTAINERS)
        # Containers are counted where a frame may hold so many.
        codec._COUNTED_FROM = CONTAINERS
        session.MAX_DECISIONS = DECISIONS
        encode, read = router.encode, router.read_client_message

        def encoded(message, dialect=Dialect.MESSAGEPACK):
            twin = msgpack.unpackb(msgpack.packb(message))
            self._say(twin)
            return self.frame(self.encoded(encode, twin, dialect), twin)

        def heard(message):
            self.heard(message)
            return read(message)

        def send(own, envelope, frame):
            send_multipart = own._socket.send_multipart
            for frames in self.sendings(envelope, frame):
                try:
                    send_multipart(frames, router.zmq.DONTWAIT if hasattr(router, "zmq") else 1)
                except wire.zmq.ZMQError:
                    return False
            return True

        router.encode = encoded
        router.read_client_message = heard
        wire.Wire.send = send

    def encoded(self, encode, message, dialect):
        return encode(message, dialect)

    def sendings(self, envelope, frame):
        return [self.frames(envelope, frame)]

    def _say(self, message) -> None:
        body = message["body"]
        if message["type"] == "welcome":
            self.scenario[message["session"]] = body["scenario"]["name"]
            self.welcomes[message["session"]] = body
        if message["type"] == "error" and body["code"] in self.codes:
            body["code"] = self.codes[body["code"]]
        for outcome in body.get("outcomes") or ():
            if outcome.get("code") in self.codes:
                outcome["code"] = self.codes[outcome["code"]]
        self.message(message, body)

    def plays(self, message) -> str:
        return self.scenario.get(message.get("session"), "")


def is_end(message) -> bool:
    return message["type"] == "session.end" and message["body"]["reason"] == "completed"


def events(message, kind=""):
    return [one for one in message["body"].get("events") or () if one["kind"].startswith(kind)]


# ---------------------------------------------------------------------- how it speaks


class CountsInText(Server):
    def message(self, message, body):
        if is_end(message):
            body["stats"]["requeues"] = "none"


class Trailing(Server):
    def frame(self, frame, message):
        return frame + b"\n"


class TwiceTheKey(Server):
    def frame(self, frame, message):
        return bytes([frame[0] + 1]) + b"\xa1v\x01" + frame[1:] if frame[0] != 0x7B else frame


class NotANumber(Server):
    def message(self, message, body):
        if message["type"] == "decision.request":
            body["load"] = float("inf")

    def encoded(self, encode, message, dialect):
        return encode(message, dialect)


class SkipsSeq(Server):
    def message(self, message, body):
        if is_end(message):
            message["seq"] += 1


class ErrorsUncounted(Server):
    def message(self, message, body):
        if message["type"] == "error" and "seq" in message:
            message["seq"] -= 1


class VersionNext(Server):
    def message(self, message, body):
        if message["type"] == "welcome":
            body["version"] = "1.1"


class SaysActionable(Server):
    def message(self, message, body):
        if message["type"] == "welcome" and not body["resumed"] and len(body["wants"]) == 8:
            body["wants"] = body["wants"][:7]


class Generous(Server):
    def message(self, message, body):
        if message["type"] == "welcome":
            body["granted"]["submit"] = True


class Narrow(Server):
    def message(self, message, body):
        if message["type"] == "welcome":
            body["limits"]["depth"] = 16


class EndsTwice(Server):
    """Sends the end of a complete run twice."""

    def frame(self, frame, message):
        self.twice = is_end(message)
        return frame

    def sendings(self, envelope, frame):
        return [[*envelope, frame]] * (2 if self.twice else 1)


class EndsByPong(Server):
    def message(self, message, body):
        if is_end(message):
            message.update(type="pong", body={})


class Unannounced(Server):
    """The first request does not begin with session.start."""

    def message(self, message, body):
        if message["type"] == "decision.request":
            body["events"] = [one for one in body["events"] if one["kind"] != "session.start"]


class Done(Server):
    def message(self, message, body):
        if is_end(message):
            body["reason"] = "done"


class Miscounts(Server):
    def message(self, message, body):
        if is_end(message):
            body["stats"]["rejected"] += 1


class GoesBack(Server):
    """At the second submission of a plain run, time goes back at the next end."""

    def message(self, message, body):
        if message["type"] == "decision.request" and body["now_us"] == 5_108_000_000:
            body["now_us"] = 0


class AttemptTwo(Server):
    def message(self, message, body):
        if message["type"] == "decision.request" and body["now_us"] == 5_011_000_000:
            body["attempt"] = 2


class Backwards(Server):
    def message(self, message, body):
        if len(events(message)) > 2:
            body["events"].reverse()


class Forgetful(Server):
    """Does not tell of the end of job 1."""

    def message(self, message, body):
        if message["type"] == "decision.request":
            body["events"] = [
                one for one in body["events"] if (one["kind"], one.get("job")) != ("job.ended", 1)
            ]


class Eager(Server):
    """Does not go by `ask`."""

    def heard(self, message):
        if message.get("type") == "hello":
            message["body"].pop("ask", None)


class Lazy(Server):
    """Asks where something could start only, whatever the hello says."""

    def heard(self, message):
        if message.get("type") == "hello" and "resume" not in message["body"]:
            message["body"]["ask"] = "actionable"

    def message(self, message, body):
        if message["type"] == "welcome":
            body["ask"] = "always"


class Forgets(Server):
    """With `ask: actionable` it forgets what happened where it did not ask."""

    def message(self, message, body):
        welcome = self.welcomes.get(message.get("session")) or {}
        if message["type"] == "decision.request" and welcome.get("ask") == "actionable":
            body["events"] = [one for one in body["events"] if one["at_us"] == body["now_us"]]


class TellsAll(Server):
    """Does not go by `wants`."""

    def heard(self, message):
        wants = message["body"].get("wants") if message.get("type") == "hello" else None
        if wants and set(wants) == {"job.ended", "job.submitted"}:
            wants.append("node.down")


class NeverExhausted(Server):
    def message(self, message, body):
        if message["type"] == "decision.request":
            body["events"] = [one for one in body["events"] if one["kind"] != "workload.exhausted"]


class AllCompleted(Server):
    def message(self, message, body):
        for event in events(message, "job.ended"):
            if event["status"] == "timed_out":
                event["status"] = "completed"


class Tattles(Server):
    def message(self, message, body):
        for event in events(message, "job.submitted"):
            if event["job"]["job"] == 0:
                event["job"]["attributes"] = {"expected": 3607}


class TellsOfGiants(Server):
    def message(self, message, body):
        for event in events(message, "job.submitted"):
            if event["job"]["job"] == 3 and self.plays(message) == "plain":
                giant = {**event["job"], "job": 4, "name": "5"}
                body["events"].append({**event, "job": giant})
                return


class OutcomesReversed(Server):
    def message(self, message, body):
        if len(body.get("outcomes") or ()) > 1:
            body["outcomes"].reverse()


class PlacesElsewhere(Server):
    """What it says of where it placed a job is one node off."""

    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            for spans in outcome.get("allocation") or ():
                for span in spans:
                    span[0], span[1] = span[0] + 1, span[1] + 1


class SplitsSpans(Server):
    def message(self, message, body):
        for entry in (body.get("state") or {}).get("running") or ():
            entry["allocation"] = [
                [
                    [node, node, chunks]
                    for first, last, chunks in spans
                    for node in range(first, last + 1)
                ]
                for spans in entry["allocation"]
            ]


class HidesState(Server):
    """The first request has no state, where the hello did not ask for snapshots."""

    def message(self, message, body):
        welcome = self.welcomes.get(message.get("session")) or {"granted": {}}
        events_only = welcome["granted"].get("state") == "events" and not welcome["resumed"]
        if message["type"] == "decision.request" and events_only:
            body.pop("state", None)


class StateOnce(Server):
    def message(self, message, body):
        if message["type"] == "decision.request" and message["seq"] > 4:
            if body["attempt"] == 1:
                body.pop("state", None)


class StateBehind(Server):
    """The newest pending job is not in the state."""

    def message(self, message, body):
        pending = (body.get("state") or {}).get("pending") or []
        if message["type"] == "decision.request" and len(pending) > 1:
            pending.pop()


class PendingReversed(Server):
    def message(self, message, body):
        if message["type"] == "decision.request" and body.get("state"):
            body["state"]["pending"].reverse()


class SplitsRuns(Server):
    def message(self, message, body):
        if message["type"] == "decision.request" and body.get("state"):
            body["state"]["nodes"] = [
                [node, node, *more]
                for first, last, *more in body["state"]["nodes"]
                for node in range(first, last + 1)
            ]


class FreeOnDown(Server):
    def message(self, message, body):
        for run in (body.get("state") or {}).get("nodes") or ():
            if run[3] == "down":
                run[2]["core"] = 1


class NoZeros(Server):
    def message(self, message, body):
        if message["type"] == "decision.request":
            for run in (body.get("state") or {}).get("nodes") or ():
                run[2] = {kind: amount for kind, amount in run[2].items() if amount}


class CountsWrong(Server):
    def message(self, message, body):
        if message["type"] == "decision.request":
            for run in (body.get("state") or {}).get("nodes") or ():
                if "memory" in run[2]:
                    run[2]["memory"] += 1


class SameVersion(Server):
    """`state_version` is always the same, and any is taken."""

    def __init__(self):
        super().__init__()
        self.versions: dict[str, int] = {}

    def message(self, message, body):
        if message["type"] in {"decision.request", "state.snapshot"}:
            self.versions[message["session"]] = body["state_version"]
            body["state_version"] = 7

    def heard(self, message):
        if message.get("type") == "decision.reply" and isinstance(message.get("body"), dict):
            if message["body"].get("state_version") == 7:
                message["body"]["state_version"] = self.versions.get(message.get("session"), 0)


class WrongDigest(Server):
    def message(self, message, body):
        if body.get("state_digest"):
            body["state_digest"] = "0" * 64


class AllNodes(Server):
    def message(self, message, body):
        for event in events(message, "node.down"):
            event["nodes"] = [[0, 3]]


class DownBeforeEnds(Server):
    def message(self, message, body):
        if events(message, "node.down") and self.plays(message) == "full":
            body["events"].sort(key=lambda one: one["kind"] != "node.down")


class RequeuesNobody(Server):
    def message(self, message, body):
        if self.plays(message) == "requeue":
            for event in events(message, "job.ended"):
                if event["status"] == "requeued":
                    event["status"] = "failed"


class BackInUse(Server):
    """Nodes that come back are shown as taken."""

    def message(self, message, body):
        back = [span for event in events(message, "node.up") for span in event["nodes"]]
        for run in (body.get("state") or {}).get("nodes") or ():
            if any(run[0] <= last and first <= run[1] for first, last in back):
                run[2]["core"] = 0


class NoInstant(Server):
    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            outcome.pop("at_us", None)


class StandsStill(Server):
    """Where decisions take time, requests are dated back to before they were taken."""

    def message(self, message, body):
        if message["type"] == "decision.request" and self.plays(message) == "slow":
            body["now_us"] = max(0, body["now_us"] - 5_000_000)


class PacksAll(Server):
    """Answers JSON text by MessagePack where there is a session."""

    def encoded(self, encode, message, dialect):
        return encode(message, Dialect.MESSAGEPACK if "session" in message else dialect)


class PacksErrors(Server):
    def encoded(self, encode, message, dialect):
        return encode(message, dialect if "session" in message else Dialect.MESSAGEPACK)


class TwoFrames(Server):
    def frames(self, envelope, frame):
        return [*envelope, b"part", frame]


class CutsEnvelope(Server):
    def frames(self, envelope, frame):
        return [envelope[0], b"", frame]


class DealersOnly(Server):
    """Answers without the empty frame."""

    def frames(self, envelope, frame):
        return [envelope[0], frame]


# ---------------------------------------------------------------------- what it hears


class TakesTwoFrames(Server):
    def install(self):
        super().install()
        take = router.Router._decode

        def decode(own, peer, arrival):
            return take(
                own,
                peer,
                arrival._replace(payload=arrival.payload[:1])
                if hasattr(arrival, "_replace")
                else _first_of(arrival),
            )

        router.Router._decode = decode


def _first_of(arrival):
    import dataclasses

    return dataclasses.replace(arrival, payload=arrival.payload[:1])


class _Dislikes(Server):
    """Refuses frames that it does not like, against all right."""

    def dislikes(self, frame) -> bool:
        raise NotImplementedError

    def install(self):
        super().install()
        decode = router.decode

        def picky(frame, *more):
            if self.dislikes(frame):
                raise router.ProtocolError("encoding.malformed", "what is this?")
            return decode(frame, *more)

        router.decode = picky


class NoWideMaps(_Dislikes):
    def dislikes(self, frame):
        return frame[:1] == b"\xdf"


class NaiveJson(_Dislikes):
    def dislikes(self, frame):
        return frame[:1] == b"{" and b" :\t" in frame


class InOrder(_Dislikes):
    def dislikes(self, frame):
        return frame[1:6] == b"\xa4body"


class IntegersOnly(Server):
    def heard(self, message):
        if isinstance(message.get("re"), float) or isinstance(message.get("v"), float):
            message["v"] = "one"


class WholeIntegersOnly(Server):
    def heard(self, message):
        for one in _decisions(message):
            if one.get("kind") == "submit" and 1.0 in _floats(one):
                one["job"] = None


def _floats(decision):
    return [
        amount
        for group in decision["job"]["request"]
        for amount in group["per_chunk"].values()
        if isinstance(amount, float)
    ]


def _decisions(message):
    body = message.get("body")
    decisions = body.get("decisions") if isinstance(body, dict) else None
    return [one for one in decisions or () if isinstance(one, dict)]


class NoUnknownFields(Server):
    def heard(self, message):
        if "x_first" in message:
            message["v"] = 2


class NoNil(Server):
    def heard(self, message):
        if message.get("type") == "hello" and message["body"].get("ask", "") is None:
            message["v"] = 2


class TakesTexts(Server):
    """Takes texts and booleans for numbers."""

    def heard(self, message):
        if message.get("re") is True:
            message["re"] = 1
        body = message.get("body")
        if isinstance(body, dict) and isinstance(body.get("state_version"), str):
            body["state_version"] = int(body["state_version"])


class WithoutPath(Server):
    def message(self, message, body):
        if message["type"] == "error":
            body.pop("path", None)


class Chatty(Server):
    def message(self, message, body):
        if message["type"] == "error" and body["code"] == "message.unknown":
            body["message"] = "no\nsuch message"


class KnowsNoLater(Server):
    """Refuses a reply with a decision of a later version as a whole."""

    def heard(self, message):
        if any(one.get("kind") == "resize" for one in _decisions(message)):
            message["v"] = 2


class OneVersion(Server):
    """Looks at the first version of a hello only."""

    def heard(self, message):
        if message.get("type") == "hello":
            message["body"]["versions"] = message["body"]["versions"][:1]


class LastScenario(Server):
    """A hello without `scenario` gets another than the first."""

    def heard(self, message):
        if message.get("type") == "hello" and "scenario" not in message["body"]:
            message["body"]["scenario"] = "full"


class OneRun(Server):
    """All sessions bear one name."""

    def message(self, message, body):
        if "session" in message and self.plays(message) == "plain":
            self.own = message["session"]
            message["session"] = "1"

    def heard(self, message):
        pass


class SaysHelloAgain(Server):
    """A second hello is answered by another code."""

    codes = {"message.unexpected": "message.invalid"}


class Codes(Server):
    """Answers some codes as others, with what else is in the error."""

    def __init__(self, codes):
        super().__init__()
        self.codes = codes

    def __call__(self):
        return self


class NotFatal(Server):
    """Errors that end a session do not say so."""

    def message(self, message, body):
        if message["type"] == "error" and "session" in message:
            body["fatal"] = False


class TakesAnyRe(Server):
    """Takes a reply whatever its `re`, once and again."""

    def __init__(self):
        super().__init__()
        self.due: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def message(self, message, body):
        if message["type"] == "decision.request":
            self.due[message["session"]] = message["seq"]
            self.last[message["session"]] = body["state_version"]

    def heard(self, message):
        if message.get("type") == "decision.reply" and isinstance(message.get("re"), int):
            message["re"] = self.due.get(message.get("session"), message["re"])
            if isinstance(message["body"].get("state_version"), int) and message["re"] != 1:
                version = self.last.get(message.get("session"))
                if version is not None and message["body"]["state_version"] < version:
                    message["body"]["state_version"] = version


class TakesAnyVersion(TakesAnyRe):
    """Takes a reply to any version of the state."""

    def heard(self, message):
        version = self.last.get(message.get("session"))
        if message.get("type") == "decision.reply" and version is not None:
            if isinstance(message["body"].get("state_version"), int):
                message["body"]["state_version"] = version


class WithoutSupported(Server):
    def message(self, message, body):
        if (message["type"] == "error" and "session" not in message) or body.get("fatal") is True:
            body["supported"] = []


class SilentOnDue(Server):
    def message(self, message, body):
        if message["type"] == "error" and "session" in message:
            body.pop("supported", None)


class HalfTaken(Server):
    """Applies what is right of a reply that it refuses."""

    def heard(self, message):
        decisions = _decisions(message)
        if len(decisions) > 1 and decisions[1].get("job", 0) is None:
            decisions[1]["job"] = 77


class Deafened(Server):
    """Answers ping before ready only."""

    def message(self, message, body):
        if message["type"] == "pong" and message["seq"] > 3:
            message.update(
                type="error",
                body={"code": "message.unexpected", "message": "not now", "fatal": False},
            )


class ByeStopped(Server):
    def message(self, message, body):
        if message["type"] == "session.end" and body["reason"] == "bye":
            body["reason"] = "stopped"


class OldSnapshot(Server):
    def message(self, message, body):
        if message["type"] == "state.snapshot":
            body["state_version"] = max(0, body["state_version"] - 1)


class NoTime(Server):
    def message(self, message, body):
        if message["type"] == "progress.ack":
            body["deadline_ms"] = 0


class ComputeCounts(Server):
    """Dates requests by how long their decisions took."""

    def __init__(self):
        super().__init__()
        self.late: dict[str, int] = {}

    def heard(self, message):
        if message.get("type") == "decision.reply" and isinstance(message.get("body"), dict):
            if message["body"].get("compute_us", 0) > 10**9:
                self.late[message["session"]] = 1

    def message(self, message, body):
        if message["type"] == "decision.request":
            body["now_us"] += self.late.get(message["session"], 0)


# ---------------------------------------------------------------------- what it decides


class _Rewrites(Server):
    """Changes decisions before they are looked at."""

    def rewrite(self, decision, decisions):
        raise NotImplementedError

    def heard(self, message):
        decisions = _decisions(message)
        for decision in decisions:
            self.rewrite(decision, decisions)


class PlacesItself(_Rewrites):
    """Puts every job where it likes."""

    def rewrite(self, decision, decisions):
        if decision.get("allocation") == [[[1, 1, 1], [3, 3, 1]]]:
            decision["allocation"] = None


class MergedOnly(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("allocation") == [[[0, 0, 1], [1, 1, 1]]]:
            decision["allocation"] = []


class SortsDecisions(Server):
    """Carries out starts first."""

    def heard(self, message):
        decisions = _decisions(message)
        if [one.get("kind") for one in decisions[:2]] == ["hold", "start"]:
            message["body"]["decisions"].sort(key=lambda one: one["kind"] != "start")


class GivesUpAtFirst(Server):
    """What stands behind a refused decision is not carried out."""

    def heard(self, message):
        decisions = _decisions(message)
        if any(one.get("kind") == "resize" for one in decisions):
            message["body"]["decisions"] = decisions[:2]


class StartsAnyway(_Rewrites):
    """Mends allocations that are too small, and says that it refused them."""

    def rewrite(self, decision, decisions):
        if decision.get("allocation") == [[[0, 0, 1]]] and len(decisions) == 2:
            if decisions[1]["kind"] == "kill":
                decision["allocation"] = [[[0, 1, 1]]]

    def message(self, message, body):
        outcomes = body.get("outcomes") or []
        if len(outcomes) == 2 and outcomes[1].get("code") == "job.not_running":
            outcomes[0].update(status="rejected", code="alloc.too_few")


class RejectsForNow(_Rewrites):
    """A rejected job is only held."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "reject" and decision.get("reason") == "no":
            decision["kind"] = "hold"


class NotesBind(_Rewrites):
    """An annotated job is held."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "annotate" and decision.get("reason") == "x":
            decision["kind"] = "hold"


class KillsRequeue(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "kill":
            decision["kind"] = "requeue"


class RequeuesKill(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "requeue":
            decision["kind"] = "kill"


class RunsTheRest(Server):
    """A requeued job is done earlier the second time, as the instants tell it."""

    def message(self, message, body):
        for event in events(message, "job.ended"):
            if event["at_us"] == 1_813_000_000:
                event["at_us"] -= 10_000_000


class FreesAtOnce(_Rewrites):
    """The nodes of a job that is killed are free for the same reply."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "start" and decisions[0].get("kind") == "kill":
            decision["kind"] = "annotate"


class KillsTwice(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "kill" and decision["id"] == 1:
            decision.update(kind="wake", timer=99, at_us=10**12)


class StartsHeld(_Rewrites):
    """Does not mind that a job is held."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "hold" and decisions[-1].get("kind") == "annotate":
            decision["kind"] = "annotate"


class HoldsAgain(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "hold" and decision["id"] == 1:
            decision["kind"] = "annotate"


class WakesLate(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "wake" and decision.get("timer") == 9:
            decision["at_us"] += 1_000_000


class WakesPast(_Rewrites):
    """Takes timers for before now."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "wake" and decision["at_us"] <= 0:
            decision.update(timer=50 + decision["id"], at_us=3_000_000)


class CancelsNothing(_Rewrites):
    def rewrite(self, decision, decisions):
        if decision.get("kind") == "wake.cancel" and decision["id"] == 1:
            decision.update(kind="annotate", job=0)


class SubmitsForAll(Server):
    """Grants submit to whoever has not asked for it."""

    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            if outcome.get("code") == "decision.not_granted":
                outcome.update(status="applied", code=None)


class NumbersOn(Server):
    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            if outcome.get("job") is not None:
                outcome["job"] -= 2**52 - 100


class NamesPlainly(Server):
    def message(self, message, body):
        for event in events(message, "job.submitted"):
            event["job"]["name"] = event["job"]["name"].removeprefix("dyn!")


class SubmitsLater(_Rewrites):
    """A job for now is submitted a second later."""

    def rewrite(self, decision, decisions):
        if decision.get("kind") == "submit" and "at_us" not in decision and len(decisions) == 2:
            if "name" not in decision["job"] and "at_us" in decisions[1]:
                decision["at_us"] = 1_000_000


class SubmitsAnything(Server):
    codes = {"job.name": "job.request", "job.past": "job.never_fits", "job.never_fits": "job.past"}


class ExhaustedLate(Server):
    """Tells workload.exhausted with the last submission of all, the dispatcher's included."""

    def message(self, message, body):
        if self.plays(message) != "full" or message["type"] != "decision.request":
            return
        if self.welcomes[message["session"]]["granted"]["submit"]:
            for event in events(message, "workload.exhausted"):
                event["at_us"] += 1


class StopsBehind(Server):
    """Decisions behind a stop are carried out, as the outcomes tell it."""

    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            if outcome.get("code") == "run.stopped":
                outcome.update(status="applied", code=None)


class AtomsSplit(Server):
    """An atomic reply is refused as a whole, and each decision with its own code."""

    codes = {"decision.rolled_back": "node.busy"}


class AsksOnce(Server):
    """Says that it asks the first time."""

    def message(self, message, body):
        if message["type"] == "decision.request" and body["attempt"] > 1 and not body.get("state"):
            body["attempt"] = 1


class Tolerant(Server):
    codes = {"decision.refused": "deadline.missed"}


class Stops(Server):
    """A run that can not go on is stopped, it says."""

    def message(self, message, body):
        if message["type"] == "session.end" and body["reason"] == "stalled":
            body["reason"] = "stopped"


class NeverAsksAgain(Server):
    """Dates the last request before a stall as if something had happened."""

    def message(self, message, body):
        refused = [one for one in body.get("outcomes") or () if one["status"] == "rejected"]
        if message["type"] == "decision.request" and refused and body["now_us"] == 5_011_000_000:
            body["now_us"] += 1


class EndsLater(Server):
    """The end of a job without length comes with the next instant, it says."""

    def message(self, message, body):
        for event in events(message, "job.ended"):
            if event["job"] == 3 and event["at_us"] == 10_000_000:
                event["at_us"] += 1


# ---------------------------------------------------------------------- how it lasts


class AppliesLate(Server):
    """Says of late decisions that they were applied."""

    def message(self, message, body):
        for outcome in body.get("outcomes") or ():
            if outcome.get("code") == "decision.late":
                outcome.update(status="applied", code=None)


class NoFarewell(Server):
    """Refuses the reply that comes after the run has stalled."""

    def message(self, message, body):
        ended = message["type"] == "session.end" and self.plays(message) == "hasty"
        if ended and body["reason"] == "stalled":
            told = {"code": "session.over", "message": "it is over", "fatal": True}
            message.update(type="error", body=told)


class KeepsTheLate(Server):
    """Takes what a dispatcher says that was given up."""

    codes = {"epoch.stale": "session.unknown"}

    def message(self, message, body):
        if message["type"] == "welcome" and self.plays(message) == "detached" and body["resumed"]:
            body["resumed"] = False


class WaitsForAll(Server):
    """Keeps every session whose dispatcher is gone, whatever it says."""

    def conduct(self, conduct):
        return replace(conduct, on_disconnect="wait", reconnect_us=60_000_000)

    def message(self, message, body):
        if message["type"] == "welcome" and self.plays(message) != "full":
            body["policy"]["on_disconnect"] = "fail"


class Unresumed(Server):
    def message(self, message, body):
        if message["type"] == "welcome" and self.plays(message) == "full":
            body["resumed"] = False


class EpochsByTwo(Server):
    """Counts epochs by two; whatever the client repeats is understood."""

    def message(self, message, body):
        if message.get("epoch", 0) > 2:
            message["epoch"] += 1

    def heard(self, message):
        epoch = message.get("epoch")
        if isinstance(epoch, int) and 3 < epoch < 9:
            message["epoch"] = epoch - 1


class NewTokens(Server):
    def message(self, message, body):
        if message["type"] == "welcome" and body["resumed"] and self.plays(message) == "full":
            body["token"] = body["token"][::-1]


class ResumesBare(Server):
    """The request after a resume has no state."""

    def message(self, message, body):
        if message["type"] == "decision.request" and body["attempt"] > 1:
            if self.plays(message) == "full":
                body.pop("state", None)


class ForgetsWants(Server):
    def message(self, message, body):
        if (
            message["type"] == "welcome"
            and body["resumed"]
            and body["granted"]["state"] != "events"
        ):
            body["ask"] = "actionable"


class TakesAnyToken(Server):
    """Does not look at tokens."""

    def install(self):
        super().install()
        session.hmac = type("Blind", (), {"compare_digest": staticmethod(lambda *_: True)})


class LivesOn(Server):
    """Says of an ended session that the token is wrong."""

    codes = {"session.over": "session.token"}


class Zombies(Server):
    """Says that a message of an old epoch is not fatal."""

    def message(self, message, body):
        if message["type"] == "error" and body["code"] == "epoch.stale":
            body["fatal"] = False


class FutureIsPresent(Server):
    def heard(self, message):
        if message.get("epoch") == 9:
            message["epoch"] = 1


class RunsOtherwise(Server):
    """After a resume the end is another."""

    def message(self, message, body):
        if is_end(message) and message["epoch"] > 1:
            body["stats"]["completed"] += 1


class CheapTokens(Server):
    def install(self):
        super().install()
        count = iter(range(10**9, 2 * 10**9))
        for module in (session, reception):
            if hasattr(module, "secrets"):
                fake = type(
                    "Cheap", (), {"token_hex": staticmethod(lambda *_: f"{'0' * 22}{next(count)}")}
                )
                module.secrets = fake


class PrintsTokens(Server):
    def message(self, message, body):
        if message["type"] == "welcome":
            print(body["token"], flush=True)


class DiesOfNoise(Server):
    """Ends at a frame that holds nothing."""

    def install(self):
        super().install()
        take = router.Router._take

        def fragile(own, arrival):
            if arrival.payload == [b""]:
                import os

                os._exit(9)
            return take(own, arrival)

        router.Router._take = fragile


class ListensToAll(Server):
    def install(self):
        super().install()
        wire.require_loopback = lambda endpoint, remedy: None


class Crowded(Server):
    """Announces a limit of sessions and does not keep to it."""

    def message(self, message, body):
        if message["type"] == "welcome":
            body["limits"]["sessions"] = 3


class _Unlimited(Server):
    field = ""

    def install(self):
        super().install()
        object.__setattr__(codec.FROM_CLIENT, self.field, 2**30)

    def message(self, message, body):
        if message["type"] == "welcome":
            body["limits"][self.field] = self.said

    said = 0


class AnyText(_Unlimited):
    field, said = "string_bytes", 2**18


class AnyMessage(_Unlimited):
    field, said = "message_bytes", 2**24


class AnyContainers(_Unlimited):
    field, said = "containers", CONTAINERS


class AnyDecisions(Server):
    def install(self):
        super().install()
        session.MAX_DECISIONS = 10**6

    def message(self, message, body):
        if message["type"] == "welcome":
            body["limits"]["decisions"] = DECISIONS


class PatientWithNoise(Server):
    """Bears more broken frames than it says."""

    def message(self, message, body):
        if message["type"] == "welcome":
            body["limits"]["undecodable"] = 2


ENCODING = ("truncated", "trailing", "malformed", "type", "duplicate_key", "dialect")
ALLOCATION = ("groups", "span", "order", "exclusive", "too_few", "too_many", "no_fit")


def named(name: str) -> str:
    return "".join(f"-{mark.lower()}" if mark.isupper() else mark for mark in name).lstrip("-")


def _codes(old, new):
    return lambda: Codes(dict.fromkeys(old, new))


FAULTS = {
    **{
        named(name): value
        for name, value in list(globals().items())
        if isinstance(value, type)
        and issubclass(value, Server)
        and not name.startswith("_")
        and name not in {"Codes"}
    },
    "all-malformed": _codes([f"encoding.{one}" for one in ENCODING], "encoding.malformed"),
    "all-types": _codes([f"encoding.{one}" for one in ENCODING], "encoding.type"),
    "all-spans": _codes([f"alloc.{one}" for one in ALLOCATION] + ["node.unknown"], "alloc.span"),
    "all-groups": _codes([f"alloc.{one}" for one in ALLOCATION], "alloc.groups"),
    "all-busy": _codes(["node.down", "alloc.no_fit"], "node.busy"),
    "all-down": _codes(["node.busy"], "node.down"),
    "no-such-job": _codes(["job.not_pending", "job.not_running"], "job.unknown"),
    "no-timers": _codes(["timer.past", "timer.set"], "timer.unknown"),
    "unknown-timers": _codes(["timer.unknown"], "timer.past"),
    "holds-alike": _codes(["job.held"], "job.not_held"),
    "lengths-alike": _codes(["limit.length", "limit.depth", "limit.message"], "limit.decisions"),
    "invalid-at-all": _codes(
        [
            "message.unknown",
            "message.undecodable",
            "version.unsupported",
            "scenario.unknown",
            "wants.unknown",
            "limit.sessions",
        ],
        "message.unexpected",
    ),
    "unknown-at-all": _codes(["message.invalid"], "message.unknown"),
    "strangers-all": _codes(
        ["session.unknown", "session.over", "session.token", "epoch.future"], "message.unexpected"
    ),
    "sequence-alike": _codes(
        ["sequence.stale", "sequence.future", "state.version"], "message.unexpected"
    ),
    "unsupported-alike": _codes(["decision.unsupported", "decision.not_granted"], "job.unknown"),
    "missed-alike": _codes(["deadline.missed"], "server.failed"),
}


@dataclass
class _Hosted:
    """A run of which no results are written: that would take most of the time."""

    session: session.Session
    sink: Kept
    transcript: None = None

    def finished(self, failure) -> None:
        pass


def _offer(scenario, fault) -> session.Offer:
    prepared = Preparation(scenario)
    machine = prepared.machine
    return session.Offer(
        name=scenario.name,
        digest=prepared.digest,
        rules={key: str(value) for key, value in scenario.rules(machine).items()},
        groups=machine.node_groups(),
        open_source=lambda: scenario.open_source(machine),
        conduct=fault.conduct(scenario.conduct()),
        changes=prepared.changes,
        on_overrun=scenario.run.on_overrun,
    )


def main(arguments) -> int:
    name, endpoint, *scenarios = arguments
    fault = FAULTS[name]()
    fault.install()
    offered = {}
    for path in scenarios:
        scenario = load_scenario(Path(path), {})
        offered[scenario.name] = _offer(scenario, fault)

    def open_hosted(hello):
        sink = Kept()
        return _Hosted(session.Session(offered_scenario(hello, offered), sink), sink)

    try:
        host = router.Router(endpoint, open_hosted)
    except ParleyError as error:
        print(error, file=sys.stderr)
        return 2
    host.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
