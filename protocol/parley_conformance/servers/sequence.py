"""Hello, envelope, sequence and turns: what a server answers to whom."""

from __future__ import annotations

from parley_conformance.case import cases_in
from parley_conformance.machine import EVENT_KINDS
from parley_conformance.servers.hall import Hall
from parley_conformance.servers.probe import probe, refused, require
from parley_conformance.servers.settings import FULL
from parley_conformance.stage import Broken


@probe(
    "HELLO-VERSION",
    "A hello that lists no version of the server's is refused, with those that it speaks.",
    "R-HELLO-1",
    right="A fatal `version.unsupported` with `1.0` in `supported`.",
)
def hello_version(hall: Hall) -> None:
    """A hello lists versions that nobody speaks."""
    answer = hall.call().hello(versions=["0.1", "99.0"])
    refused(answer, "version.unsupported", fatal=True)
    told = answer.body.get("supported") or []
    require("1.0" in told, f"supported is {told}", answer)


@probe(
    "HELLO-SCENARIO",
    "A hello for a scenario that is not offered is refused, with those that are.",
    "R-HELLO-2",
    right="A fatal `scenario.unknown` whose `supported` lists the names.",
)
def hello_scenario(hall: Hall) -> None:
    """A hello names a scenario that there is not."""
    answer = hall.call().hello(scenario="no such scenario")
    refused(answer, "scenario.unknown", fatal=True)
    told = answer.body.get("supported") or []
    require(hall.setting.name in told, f"supported is {told}", answer)


@probe(
    "HELLO-FIRST-SCENARIO",
    "A hello without `scenario` is for the one that is listed first.",
    "R-HELLO-3",
    right="The name that `supported` of `scenario.unknown` lists first.",
)
def hello_first_scenario(hall: Hall) -> None:
    """The scenarios are asked for, then a hello names none."""
    listed = hall.call("asking").hello(scenario="no such scenario").body.get("supported") or [""]
    welcome = hall.call().welcomed(scenario=None)
    given = welcome.body["scenario"]["name"]
    require(given == listed[0], f"the scenario is {given!r}, not {listed[0]!r}", welcome)


@probe(
    "HELLO-KIND",
    "A hello that wants a kind of event which is not known is refused, with those that are.",
    "R-HELLO-4",
    right="A fatal `wants.unknown`.",
)
def hello_kind(hall: Hall) -> None:
    """A hello wants to be told of an unknown kind."""
    answer = hall.call().hello(wants=["job.ended", "moon.full"])
    refused(answer, "wants.unknown", fatal=True)
    told = set(answer.body.get("supported") or ())
    require(told >= set(EVENT_KINDS), f"supported is {sorted(told)}", answer)


@probe(
    "HELLO-OWN-RUN",
    "Each hello begins a run of its own.",
    "R-HELLO-9",
    "R-LIFE-7",
    right="What one dispatcher decides does not show in the run of the other.",
)
def hello_own_run(hall: Hall) -> None:
    """Two sessions, in one of which a job is started and the run stopped."""
    one, first = hall.open()
    other, second = hall.open()
    require(one.session["session"] != other.session["session"], "both have one name")
    jobs = one.next_request(first)
    one.expect(one.reply(jobs, {"kind": "start", "job": 0}, {"kind": "stop"}), "session.end")
    jobs = other.next_request(second)
    state = other.state()
    require(not state["running"], "a job runs that nobody has started", jobs)
    require(other.finish(jobs).body["reason"] == "completed", "the other run is not complete")


@probe(
    "HELLO-TWICE",
    "A second hello in an open session is refused, and changes nothing.",
    "R-LIFE-3",
    "R-LIFE-5",
    right="A `message.unexpected` that is not fatal.",
)
def hello_twice(hall: Hall) -> None:
    """A hello comes in the place of a reply."""
    caller, request = hall.open()
    answer = caller.hello()
    refused(answer, "message.unexpected")
    told = answer.body.get("supported") or []
    require("decision.reply" in told, f"supported is {told}", answer)
    caller.next_request(request)


@probe(
    "ENV-OTHER-SESSION",
    "A message that names another session is refused as `session.unknown`.",
    "R-ENV-3",
    right="Not fatal: the session of the connection is what it was.",
)
def env_other_session(hall: Hall) -> None:
    """A reply names a session that there is not."""
    caller, request = hall.open()
    caller.send({**caller.reply_message(request, []), "session": "nobody's"})
    refused(caller.receive(), "session.unknown")
    caller.next_request(request)


@probe(
    "ENV-STRANGER",
    "A message of a session from somebody without one is refused.",
    "R-ENV-5",
    right="`session.unknown` if it names the present epoch of an open session, and "
    "`message.unexpected` if it names none.",
)
def env_stranger(hall: Hall) -> None:
    """A second connection speaks in the name of an open session, then of none."""
    owner, request = hall.open()
    thief = hall.call("stranger")
    thief.lenient = True
    thief.send({**owner.reply_message(request, [{"kind": "stop"}])})
    answer = thief.receive()
    require(answer.kind == "error", f"an error is due, {answer.kind} came", answer)
    code = answer.body.get("code")
    require(code == "session.unknown", f"the code is {code}, not session.unknown", answer)
    thief.send({"v": 1, "type": "ping", "session": "none", "epoch": 1, "re": 1, "body": {}})
    answer = thief.receive()
    code = answer.body.get("code")
    require(code == "message.unexpected", f"the code is {code}, not message.unexpected", answer)
    owner.next_request(request)


@probe(
    "SEQ-STALE",
    "A message whose `re` names an earlier message is refused as `sequence.stale`.",
    "R-SEQ-3",
    right="The number that is waited for stands in `supported`.",
)
def seq_stale(hall: Hall) -> None:
    """A reply answers the welcome."""
    caller, request = hall.open()
    caller.send({**caller.reply_message(request, []), "re": 1})
    answer = caller.receive()
    refused(answer, "sequence.stale")
    due = str((request.message or {})["seq"])
    told = answer.body.get("supported") or []
    require(due in told, f"supported is {told}, which lacks {due}", answer)
    caller.next_request(request)


@probe(
    "SEQ-FUTURE",
    "A message whose `re` names one that was never sent is refused as `sequence.future`.",
    "R-SEQ-3",
    right="The number that is waited for stands in `supported`.",
)
def seq_future(hall: Hall) -> None:
    """A reply answers message 99."""
    caller, request = hall.open()
    caller.send({**caller.reply_message(request, []), "re": 99})
    answer = caller.receive()
    refused(answer, "sequence.future")
    caller.next_request(request)


@probe(
    "SEQ-DUP",
    "A reply that comes twice is applied once.",
    "R-SEQ-4",
    "R-SEQ-3",
    right="The second is refused as `sequence.stale`.",
)
def seq_dup(hall: Hall) -> None:
    """The same reply, with a start in it, is sent twice."""
    caller, request = hall.open()
    jobs = caller.next_request(request)
    message = caller.reply_message(jobs, [{"kind": "start", "job": 0}])
    caller.send(message)
    following = caller.expect(caller.receive(), "decision.request")
    caller.send(message)
    refused(caller.receive(), "sequence.stale")
    running = [entry["job"]["job"] for entry in caller.state()["running"]]
    require(running == [0], f"running is {running}")
    caller.next_request(following)


@probe(
    "SEQ-ERRORS-COUNT",
    "Errors are numbered with the other messages of the session.",
    "R-ENV-4",
    right="`seq` of an error is one more than that of the message before it.",
)
def seq_errors_count(hall: Hall) -> None:
    """An error, a pong, and the next request are counted."""
    caller, request = hall.open()
    begun = caller.seq
    lines = [
        caller.say("no.such.type", {}),
        caller.say("ping", {}),
        caller.reply(request),
    ]
    given = [(line.message or {}).get("seq") for line in lines]
    due = [begun + 1, begun + 2, begun + 3]
    require(given == due, f"seq is {given}, not {due}", lines[-1])


@probe(
    "SEQ-STATE-VERSION",
    "A reply to another version of the state is refused, and nothing of it applied.",
    "R-SEQ-6",
    right="`state.version`, not fatal.",
)
def seq_state_version(hall: Hall) -> None:
    """A reply with a start in it names a version that is not that of the request."""
    caller, request = hall.open()
    jobs = caller.next_request(request)
    message = caller.reply_message(jobs, [{"kind": "start", "job": 0}])
    version = jobs.body["state_version"] + 17
    caller.send({**message, "body": {**message["body"], "state_version": version}})
    refused(caller.receive(), "state.version")
    require(not caller.state()["running"], "a decision of the refused reply was applied")
    caller.next_request(jobs)


@probe(
    "LIFE-UNEXPECTED",
    "A message that is not legal now is refused, with the types that are.",
    "R-LIFE-3",
    right="A `message.unexpected` that is not fatal.",
)
def life_unexpected(hall: Hall) -> None:
    """A reply comes before `ready`, and `ready` in the place of a reply."""
    caller = hall.call()
    caller.welcomed()
    answer = caller.say("decision.reply", {"decisions": [], "state_version": 0})
    refused(answer, "message.unexpected")
    told = sorted(answer.body.get("supported") or ())
    require(told == ["bye", "ping", "ready"], f"supported is {told}", answer)
    request = caller.expect(caller.ready(), "decision.request")
    refused(caller.ready(), "message.unexpected")
    caller.next_request(request)


@probe(
    "LIFE-UNKNOWN-TYPE",
    "A message of a type that is not known is refused, with the types that are.",
    "R-LIFE-4",
    right="A `message.unknown` that is not fatal.",
)
def life_unknown_type(hall: Hall) -> None:
    """A message of a type that there is not."""
    caller, request = hall.open()
    answer = caller.say("decision.maybe", {})
    refused(answer, "message.unknown")
    told = answer.body.get("supported") or []
    require("decision.reply" in told, f"supported is {told}", answer)
    caller.next_request(request)


@probe(
    "LIFE-UNCHANGED",
    "A refused message changes nothing: mended, it is taken.",
    "R-LIFE-5",
    right="The state, its version and the outstanding request are what they were.",
)
def life_unchanged(hall: Hall) -> None:
    """A reply with a good start and a broken decision is refused, then sent mended."""
    caller, request = hall.open()
    jobs = caller.next_request(request)
    good = {"kind": "start", "job": 0}
    caller.send(caller.reply_message(jobs, [good, {"kind": "start", "job": None}]))
    refused(caller.receive(), "message.invalid")
    require(not caller.state()["running"], "a decision of the refused reply was applied")
    answer = caller.next_request(jobs, good)
    one = answer.body["outcomes"]
    require([o["status"] for o in one] == ["applied"], f"the outcomes are {one}", answer)


@probe(
    "PING",
    "`ping` is answered by `pong` wherever the dispatcher may speak.",
    "R-MSG-1",
    right="Before `ready` and while a request waits; the run does not notice.",
)
def ping(hall: Hall) -> None:
    """A ping before ready, and two while a request waits."""
    caller = hall.call()
    caller.welcomed()
    caller.expect(caller.say("ping", {}), "pong")
    request = caller.expect(caller.ready(), "decision.request")
    caller.expect(caller.say("ping", {}), "pong")
    caller.expect(caller.say("ping", {}, re=caller.seq), "pong")
    jobs = caller.next_request(request)
    require(jobs.body["now_us"] == 0, "the run has noticed", jobs)


@probe(
    "BYE",
    "`bye` is answered by a `session.end` of reason `bye`, without outcomes.",
    "R-LIFE-11",
    right="They were told before.",
)
def bye(hall: Hall) -> None:
    """A dispatcher leaves after its first decisions."""
    caller, request = hall.open()
    jobs = caller.next_request(request)
    caller.next_request(jobs, {"kind": "start", "job": 0})
    end = caller.expect(caller.say("bye", {}), "session.end")
    reason = end.body["reason"]
    require(reason == "bye", f"the reason is {reason!r}", end)
    require(not end.body["outcomes"], "the outcomes are told twice", end)


@probe(
    "STATE-ASKED",
    "`state.request` is answered by the state of the outstanding request.",
    "R-STATE-7",
    right="`now_us`, `state_version` and the state as in a snapshot session.",
    setting=FULL,
    profile="delta",
)
def state_asked(hall: Hall) -> None:
    """The state is asked for while a request with a state in it waits."""
    caller = hall.call()
    caller.welcomed(capabilities={"state": "snapshot"})
    request = caller.expect(caller.ready(), "decision.request")
    request = caller.next_request(request)
    request = caller.next_request(request, {"kind": "start", "job": 0})
    line = caller.expect(caller.say("state.request", {}), "state.snapshot")
    for name in ("now_us", "state_version"):
        given, due = line.body[name], request.body[name]
        require(given == due, f"{name} is {given}, not {due}", line)
    state = request.body.get("state") or line.body["state"]
    require(line.body["state"] == state, "the state is not that of the request", line)


@probe(
    "PROGRESS",
    "`progress` is answered by `progress.ack`.",
    "R-DEAD-2",
    right="`deadline_ms` of the answer run from then on.",
)
def progress(hall: Hall) -> None:
    """More time is asked for, then the reply sent."""
    caller, request = hall.open()
    ack = caller.expect(caller.say("progress", {"note": "thinking"}), "progress.ack")
    require(ack.body["deadline_ms"] > 0, "no time is given", ack)
    caller.next_request(request)


@probe(
    "OVER-STRANGER",
    "Whoever speaks in a session that has ended is told so.",
    "R-ENV-5",
    right="`session.over`.",
)
def over_stranger(hall: Hall) -> None:
    """A message comes after the `session.end`."""
    caller, _ = hall.open()
    caller.expect(caller.say("bye", {}), "session.end")
    answer = caller.say("ping", {})
    require(answer.kind == "error", f"an error is due, {answer.kind} came", answer)
    code = answer.body["code"]
    require(code == "session.over", f"the code is {code}, not session.over", answer)


@probe(
    "COMPUTE",
    "`compute_us` has no effect on what is simulated.",
    "R-MSG-2",
    right="An hour of it changes nothing.",
)
def compute(hall: Hall) -> None:
    """Two sessions reply alike, one of them with a `compute_us` of an hour."""
    seen = []
    for peer, compute_us in (("short", 1), ("long", 3_600_000_000)):
        caller = hall.call(peer)
        caller.welcomed()
        line = caller.expect(caller.ready(), "decision.request")
        instants = []
        for _ in range(60):
            if line.kind != "decision.request":
                break
            instants.append(line.body["now_us"])
            pending = [number for number in (0, 1) if len(instants) == 2]
            message = caller.reply_message(
                line, [{"kind": "start", "job": number} for number in pending]
            )
            message["body"]["compute_us"] = compute_us
            caller.send(message)
            line = caller.receive()
        seen.append(instants)
    if not seen[0]:
        raise Broken("no request came")
    require(seen[0] == seen[1], f"the instants are {seen[1]}, not {seen[0]}")


CASES = cases_in(globals())
