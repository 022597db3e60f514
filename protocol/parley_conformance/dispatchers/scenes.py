"""The dialogues that a scripted server holds with a dispatcher."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from parley_conformance import wire
from parley_conformance.case import Scene
from parley_conformance.machine import Change, Job, Machine, Plan
from parley_conformance.stage import Broken, NotForThis, Silent, Stage, decisions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PLAIN = Plan(
    jobs=(
        *(Job(0, 2, 30, 60), Job(0, 2, 40, 60), Job(5, 3, 20, 30), Job(5, 1, 10, 15)),
        *(Job(12, 4, 25, 30), Job(12, 1, 0, 10), Job(12, 1, 7, 20), Job(400, 2, 30, 30)),
    )
)
"""Whole nodes; several jobs at one instant, one without length, one after a pause."""

SHARED = Plan(
    groups=(
        ("thin", 3, {"core": 4, "memory": 16}),
        ("fat", 1, {"core": 8, "memory": 64, "gpu": 2}),
    ),
    jobs=(
        Job(0, 5, 30, 60, {"core": 1}, exclusive=False),
        Job(0, 2, 40, 60, {"core": 2, "memory": 8}, exclusive=False),
        Job(3, 1, 20, 30, {"core": 1, "gpu": 1}, exclusive=False),
        Job(3, 2, 20, 30, {"core": 1}, exclusive=True),
        Job(6, 3, 15, 20, {"memory": 5}, exclusive=False),
        Job(9, 4, 15, 20, {"core": 1, "memory": 1}, exclusive=False),
    ),
)
"""Several resources, nodes of two kinds, chunks that share nodes, one job that does not."""

FAILING = Plan(
    jobs=(Job(0, 2, 100, 200), Job(0, 1, 30, 60), Job(20, 4, 20, 40), Job(60, 1, 10, 20)),
    changes=(Change(10, "down", [[0, 1]]), Change(90, "up", [[0, 1]])),
    on_node_down="requeue",
)
"""Nodes fail under a running job and come back; one job needs all of them."""

KILLING = Plan(jobs=FAILING.jobs, changes=FAILING.changes, on_node_down="kill")

OVERDUE = Plan(
    jobs=(
        *(Job(0, 2, 200, 20), Job(0, 1, 30, 60), Job(10, 1, 90, 15), Job(40, 4, 70, 5)),
        *(Job(100, 1, 10, 30), Job(130, 2, 60, 25), Job(260, 1, 5, 10)),
    )
)
"""Jobs that run on beyond their walltime, for programs that end such jobs."""

SLOW = Plan(jobs=PLAIN.jobs, latency=3)
"""Each decision takes three simulated seconds."""

EIGHT = Plan(jobs=tuple(Job(0, 1, 10 + n, 60) for n in range(8)), groups=(("n", 8, {"core": 1}),))
"""Eight jobs that fit side by side."""

LATE_TIMES = Plan(
    jobs=(Job(4_400_000_000, 2, 30, 60), Job(4_400_000_001, 3, 30, 60)),
)
"""Instants beyond 2^52 microseconds."""

HOLD_BACK = 0.25
"""Seconds for which an answer is kept back, to see whether the program waits for it."""

DEADLINE_MS = 4000


def _plain(stage: Stage) -> None:
    stage.greet()
    stage.quiet(HOLD_BACK)
    stage.welcome(PLAIN)
    stage.await_message("ready")
    stage.quiet(HOLD_BACK)
    machine = stage.machine(PLAIN)

    def each(count: int, body: dict[str, Any]) -> dict[str, Any]:
        if count == 3:
            stage.quiet(HOLD_BACK)
        return {**body, "deadline_ms": DEADLINE_MS}

    stage.play(machine, each=each)
    if stage.alive:
        stage.quiet(0.1)


def _course(plan: Plan, **welcome: Any) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        stage.play(stage.open(plan, **welcome))

    return play


def _spelled(spell: Callable[[Mapping[str, Any]], bytes]) -> Callable[[Stage], None]:
    """Everything the server says is in an unusual spelling, if the session is in MessagePack."""

    def play(stage: Stage) -> None:
        stage.greet()
        if stage.json_text:
            stage.record.facts["json"] = True
            raise NotForThis("the program speaks JSON")
        stage.spell = spell
        stage.welcome(PLAIN)
        stage.await_message("ready")
        stage.play(stage.machine(PLAIN))

    return play


def _json_oddly(stage: Stage) -> None:
    stage.greet()
    if not stage.json_text:
        stage.record.facts["packed"] = True
        raise NotForThis("the program speaks MessagePack")
    stage.spell = lambda message: wire.spelled_oddly(message).encode()
    stage.welcome(PLAIN)
    stage.await_message("ready")
    stage.play(stage.machine(PLAIN))


def _altered(alter: Callable[[dict[str, Any]], Any], plan: Plan = PLAIN) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        stage.alter = alter
        stage.play(stage.open(plan))

    return play


OPEN_MAPS = frozenset({"capacity", "per_chunk", "attributes", "nodes"})
"""Fields in whose maps the keys are names."""


def _with_excess(message: dict[str, Any]) -> Any:
    return wire.with_excess(message, OPEN_MAPS)


def _with_nils(value: Any) -> Any:
    """Add every optional field that is absent, as nil."""
    if isinstance(value, list):
        return [_with_nils(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _with_nils(item) for key, item in value.items()}
    return {**dict.fromkeys(_optional(value)), **fields}


def _optional(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the optional fields of a map, which is known by those that it must have."""
    if "request" in fields:
        return ("walltime_us", "user", "group", "queue", "partition", "attributes")
    if "id" in fields and "status" in fields:
        return ("code", "message", "allocation", "job", "at_us")
    if "attempt" in fields:
        return ("state", "state_digest", "deadline_ms")
    if "message_bytes" in fields:
        return ("sessions",)
    if "on_reject" in fields:
        return ("latency_us", "latency_factor")
    return ()


def _with_unknown_events(message: dict[str, Any]) -> Any:
    if message["type"] != "decision.request":
        return message
    body = message["body"]
    now = body["now_us"]
    strange = [
        {"kind": "power.changed", "at_us": now, "watts": 1200.5, "nodes": [[0, 1]]},
        {"kind": "job.eligible", "at_us": now, "job": 10**9},
    ]
    return {**message, "body": {**body, "events": [strange[0], *body["events"], strange[1]]}}


def _with_text(value: Any) -> Any:
    """Give jobs names and attributes that are hard to bear."""
    if isinstance(value, list):
        return [_with_text(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "request" in value:
        name = "a\u0000b \u202e \U0001f9ee \u00e9 " + "\u4e2d" * 400
        return {**value, "name": name, "user": "\u00f8", "attributes": {"\u00df": "\n"}}
    return {key: _with_text(item) for key, item in value.items()}


def _deep(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


DEEPEST = 32

# message, body, events, event, job, attributes: six levels before the value; one more where the
# job stands in a state (message, body, state, pending, job, attributes).
_DEEP_JOB = {"attributes": {"nested": _deep(DEEPEST - 6)}}

DEEP = Plan(jobs=tuple(Job(0, 1, 10, 20, more=_DEEP_JOB) for _ in range(3)))

LONG = Plan(
    jobs=tuple(
        Job(0, 1, 10 + n, 60, more={"attributes": {"note": "x" * 60_000}}) for n in range(40)
    ),
    groups=(("n", 40, {"core": 1}),),
)
"""One message of two and a half million bytes."""

# ---------------------------------------------------------------------- ends and errors


def _empty(stage: Stage) -> None:
    stage.play(stage.open(Plan(jobs=())))


def _end_at_ready(stage: Stage) -> None:
    machine = stage.open(PLAIN)
    machine.reason = "completed"
    stage.finish(machine, machine.end())


def _end_unknown(stage: Stage) -> None:
    machine = stage.open(PLAIN)
    reply = stage.request(machine, machine.first())
    body = machine.answer(decisions_in(reply))
    machine.reason = "suspended"
    stage.send("session.end", {**machine.end(), "now_us": body["now_us"]})
    stage.ended = True
    stage.leave(failing=True)


ERROR_TEXT = "the moon of Parley is in the wrong house"
"""A message that no program prints unless it shows what it was told."""


def refusal(code: str, *, fatal: bool) -> dict[str, Any]:
    """Return the body of an error."""
    return {"code": code, "message": ERROR_TEXT, "fatal": fatal}


def _refused_hello(stage: Stage) -> None:
    stage.greet()
    body = {**refusal("version.unsupported", fatal=True), "supported": ["9.9"]}
    message = {"v": 1, "type": "error", "body": body}
    stage.send_frame(wire.plainly(message, json_text=stage.json_text))
    stage.leave(failing=True)


def _refused(code: str, *, fatal: bool) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        machine = stage.open(PLAIN)
        reply = stage.request(machine, machine.first())
        stage.request(machine, machine.answer(decisions_in(reply)))
        stage.send("error", refusal(code, fatal=fatal))
        if fatal:
            stage.leave(failing=True)
        else:
            _after_error(stage, machine)

    return play


def _after_error(stage: Stage, machine: Machine) -> None:
    """Hear what the program makes of an error that is not fatal, and let it go on."""
    try:
        line = stage.await_message("decision.reply", machine)
    except Silent:
        stage.record.facts["silent"] = True
        stage.leave(failing=True)
        return
    except Broken:
        stage.leave(failing=True)
        return
    body = machine.answer(decisions_in(line))
    if machine.reason:
        stage.finish(machine, body)
    else:
        stage.play(machine, body)


# ---------------------------------------------------------------------- refused decisions


def _refusing(
    refuse: Callable[[int, int], str | None], plan: Plan = PLAIN
) -> Callable[[Stage], None]:
    """Refuse decisions by their count and by that of their reply, both from 0; starts only."""

    def play(stage: Stage) -> None:
        counts = {"replies": -1, "decisions": -1, "at": -1}

        def judge(decision: Mapping[str, Any]) -> str | None:
            if decision["kind"] != "start":
                return None
            counts["decisions"] += 1
            if counts["at"] != stage.seq:
                counts["at"] = stage.seq
                counts["replies"] += 1
            code = refuse(counts["replies"], counts["decisions"])
            if code is not None:
                stage.record.facts["injected"] = stage.record.facts.get("injected", 0) + 1
            return code

        stage.open(plan)
        stage.play(stage.machine(plan, refuse=judge))

    return play


def _late(stage: Stage) -> None:
    """The first reply that decides something is late: its decisions are refused as such."""
    stage.open(PLAIN, policy={"on_timeout": "empty"})
    machine = stage.machine(PLAIN)
    body = machine.first()
    for _ in range(20):
        reply = stage.request(machine, {**body, "deadline_ms": 1})
        decisions = decisions_in(reply)
        if decisions:
            break
        body = machine.answer([])
        if machine.reason:
            stage.finish(machine, body)
            return
    body = machine.answer([])
    stage.record.facts["injected"] = len(decisions)
    late = [
        {"id": one["id"], "status": "rejected", "code": "decision.late", "message": "too late"}
        for one in decisions
    ]
    if machine.reason:
        stage.finish(machine, {**body, "outcomes": late})
    else:
        stage.play(machine, {**body, "outcomes": late})


def _atomic(stage: Stage) -> None:
    """The first reply that decides something is refused as a whole."""
    stage.greet()
    if stage.capabilities.get("decisions") != "atomic":
        stage.record.facts["not_asked"] = True
        raise NotForThis("the program does not ask for atomic replies")
    stage.welcome(PLAIN)
    stage.await_message("ready")
    seen: list[int] = []

    def refuse(_: Mapping[str, Any]) -> str | None:
        first = not seen
        if first or seen[0] == stage.seq:
            seen.append(stage.seq)
            return "node.busy" if first else "decision.rolled_back"
        return None

    stage.play(stage.machine(PLAIN, refuse=refuse))
    stage.record.facts["injected"] = len(seen)


# ---------------------------------------------------------------------- sessions taken up again

WAIT = {"on_disconnect": "wait"}


def _open_for_resume(stage: Stage) -> tuple[Machine, dict[str, Any]]:
    """Play until a job runs and another is pending; return the simulation and the next request."""
    stage.open(PLAIN, policy=WAIT)
    machine = stage.machine(PLAIN)
    body = machine.first()
    for _ in range(4):
        body = machine.answer(decisions_in(stage.request(machine, body)))
        if machine.reason:
            stage.finish(machine, body)
            raise Broken("the run was over before it could be interrupted")
    return machine, body


def _resumed(stage: Stage, machine: Machine) -> None:
    """Welcome whoever takes the session up, and play on to the end."""
    stage.epoch += 1
    stage.welcome(PLAIN, policy=WAIT)
    stage.await_message("ready")
    stage.play(machine, machine.again())


def _resumes(stage: Stage) -> bool:
    """Whether the hello takes up this session; noted for those who judge."""
    given = stage.hello.get("resume")
    facts = stage.record.facts
    facts["hello_line"] = len(stage.record.lines)
    facts["resume"] = given
    facts["resumes"] = given == {"session": stage.session, "token": stage.token}
    return bool(facts["resumes"])


def _turn_away(stage: Stage) -> None:
    """Refuse a hello as a server with one session does."""
    body = refusal("limit.sessions", fatal=True)
    message = {"v": 1, "type": "error", "body": body}
    stage.send_frame(wire.plainly(message, json_text=stage.json_text))
    stage.leave(failing=True)


def _restart(stage: Stage) -> None:
    machine, body = _open_for_resume(stage)
    stage.send("decision.request", body)
    stage.crash()
    stage.start(PARLEY_SESSION=stage.session, PARLEY_TOKEN=stage.token)
    stage.await_hello()
    if _resumes(stage):
        _resumed(stage, machine)
    else:
        _turn_away(stage)


def _restart_in_vain(code: str) -> Callable[[Stage], None]:
    """The session that the environment names cannot be resumed."""

    def play(stage: Stage) -> None:
        stage.start(PARLEY_SESSION=stage.session, PARLEY_TOKEN=stage.token)
        stage.await_hello()
        if not _resumes(stage):
            _turn_away(stage)
            return
        message = {"v": 1, "type": "error", "body": refusal(code, fatal=True)}
        stage.send_frame(wire.plainly(message, json_text=stage.json_text))
        stage.leave(failing=True)

    return play


def _half_named(stage: Stage) -> None:
    """One of the two variables is empty, so neither counts."""
    stage.start(PARLEY_SESSION="", PARLEY_TOKEN=stage.token)
    stage.await_hello()
    _resumes(stage)
    stage.welcome(PLAIN)
    stage.await_message("ready")
    stage.play(stage.machine(PLAIN))


NOTICE = 8.0
"""Seconds within which a program should notice that its server is gone."""


def _lost(stage: Stage) -> None:
    """The server dies while the program waits for an answer, and does not come back."""
    machine = stage.open(PLAIN)
    stage.request(machine, machine.first())
    stage.vanish()
    give_up = time.monotonic() + NOTICE
    while stage.alive and time.monotonic() < give_up:
        if not stage.quiet(0.1):
            stage.record.facts["noticed"] = True
            break
    stage.record.facts["noticed"] = stage.record.facts.get("noticed", not stage.alive)
    stage.leave(failing=True)


def _lost_and_found(stage: Stage) -> None:
    """The connection is lost under `on_disconnect: wait`; the same process may come back."""
    machine, body = _open_for_resume(stage)
    # The outcomes of what it has just decided never reach it: only the state will tell.
    decisions = None
    while not decisions:
        decisions = decisions_in(stage.request(machine, body))
        body = machine.answer(decisions)
        if machine.reason:
            stage.finish(machine, body)
            raise NotForThis("the program decides nothing that could be interrupted")
    stage.vanish()
    try:
        stage.await_hello()
    except Broken:
        stage.record.facts["resumes"] = None
        stage.leave(failing=True)
        return
    if _resumes(stage):
        stage.record.facts["decided_before"] = machine.decided
        stage.record.facts["refused_before"] = dict(machine.refused)
        _resumed(stage, machine)
    else:
        _turn_away(stage)


def _digests(stage: Stage) -> None:
    machine = stage.open(FAILING)
    stage.play(machine, each=lambda _, body: {**body, "state_digest": machine.digest()})


def _wrong_digest(stage: Stage) -> None:
    """One digest is not that of the state: whoever compares asks for the state, or gives up."""
    machine = stage.open(PLAIN)

    def each(count: int, body: dict[str, Any]) -> dict[str, Any]:
        digest = "0" * 64 if count == 3 else machine.digest()
        return {**body, "state_digest": digest}

    stage.play(machine, each=each)


def _scene(name: str, about: str, play: Callable[[Stage], None], **more: Any) -> Scene[Stage]:
    return Scene(name, play, about, **more)


plain = _scene("plain", "eight jobs on four nodes, without disturbance", _plain, weight=2)
again = _scene("again", "the same once more", _plain, weight=2)
hash_seed = _scene(
    "hash-seed",
    "the same, with another hash seed",
    _plain,
    weight=2,
    environment={"PYTHONHASHSEED": "4711"},
)
locale = _scene(
    "locale",
    "the same, in the locale C",
    _plain,
    weight=2,
    environment={"LC_ALL": "C", "LANG": "C"},
)
time_zone = _scene(
    "time-zone",
    "the same, in another time zone",
    _plain,
    weight=2,
    environment={"TZ": "Asia/Kathmandu"},
)
wide = _scene(
    "wide",
    "every length and integer in its longest form",
    _spelled(lambda message: wire.packed(message, wide=True)),
)
floats = _scene(
    "floats",
    "every integer as a float",
    _spelled(lambda message: wire.packed(wire.with_floats(message))),
)
backwards = _scene(
    "backwards",
    "the keys of every map in reverse order",
    _spelled(lambda message: wire.packed(wire.backwards(message))),
)
nils = _scene("nils", "every optional field that is absent is nil", _altered(_with_nils))
excess = _scene("excess", "unknown fields in every map", _altered(_with_excess))
strange_events = _scene(
    "strange-events", "events of unknown kinds among the others", _altered(_with_unknown_events)
)
odd_text = _scene("odd-text", "names of jobs in all of Unicode", _altered(_with_text))
odd_json = _scene("odd-json", "JSON text with odd white space, escapes and exponents", _json_oddly)
large = _scene("large", "instants beyond 2^52 microseconds", _course(LATE_TIMES))
deep = _scene("deep", "attributes nested to the limit", _course(DEEP))
long = _scene("long", "a message of two and a half million bytes", _course(LONG), weight=3)
few_decisions = _scene(
    "few-decisions",
    "eight jobs fit at once, a reply may hold three decisions",
    _course(EIGHT, limits={"decisions": 3}),
)
shared = _scene("shared", "nodes that several jobs share", _course(SHARED))
failing = _scene("failing", "nodes fail, their jobs are requeued", _course(FAILING))
killing = _scene("killing", "nodes fail, their jobs are lost", _course(KILLING))
overdue = _scene("overdue", "jobs run on beyond their walltime", _course(OVERDUE))
slow = _scene("slow", "decisions take simulated time", _course(SLOW))
digests = _scene("digests", "a digest of the state in each request", _digests)
wrong_digest = _scene("wrong-digest", "a digest that is not that of the state", _wrong_digest)
empty = _scene("empty", "a workload without jobs", _empty)
end_at_ready = _scene("end-at-ready", "the run is over at once", _end_at_ready)
end_unknown = _scene("end-unknown", "the run ends for an unknown reason", _end_unknown)
refused_hello = _scene("refused-hello", "the hello is answered by a fatal error", _refused_hello)
fatal = _scene("fatal", "a fatal error with an unknown code", _refused("site.curfew", fatal=True))
not_fatal = _scene(
    "not-fatal",
    "an error that is not fatal, with an unknown code",
    _refused("site.hiccup", fatal=False),
    weight=2,
)
stale = _scene("stale", "another has taken the session over", _refused("epoch.stale", fatal=True))
refuse_first = _scene(
    "refuse-first",
    "the first start of the run is refused",
    _refusing(lambda _, count: "node.busy" if count == 0 else None),
)
refuse_all = _scene(
    "refuse-all",
    "every start of the first reply is refused",
    _refusing(lambda reply, _: "node.busy" if reply == 0 else None),
)
refuse_unknown = _scene(
    "refuse-unknown",
    "starts are refused with an unknown code",
    _refusing(lambda _, count: "site.maintenance" if count in {0, 2} else None),
)
reask = _scene(
    "reask",
    "a start is refused and the same instant asked about again",
    _refusing(
        lambda _, count: "node.busy" if count == 0 else None,
        Plan(jobs=PLAIN.jobs, on_reject="reask"),
    ),
)
late = _scene("late", "a reply comes too late, and its decisions are refused", _late)
atomic = _scene("atomic", "a reply is refused as a whole", _atomic)
restart = _scene("restart", "the program is killed and started again", _restart, weight=2)
restart_over = _scene(
    "restart-over", "the session to be resumed is over", _restart_in_vain("session.over")
)
restart_token = _scene("restart-token", "the token is not taken", _restart_in_vain("session.token"))
half_named = _scene("half-named", "only one of the two variables is set", _half_named)
lost = _scene("lost", "the server is gone while the program waits", _lost, weight=6)
lost_and_found = _scene(
    "lost-and-found", "the connection is lost, the session is not", _lost_and_found, weight=5
)
