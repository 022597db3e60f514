"""Whole runs, held in step with the kit's own simulation, and the cases that watch them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley_conformance.case import Scene, case, cases_in
from parley_conformance.digest import digest_of
from parley_conformance.judging import canonical, each, went_on, without
from parley_conformance.machine import EVENT_KINDS, SECOND, Machine
from parley_conformance.servers.hall import Hall
from parley_conformance.servers.probe import found, played
from parley_conformance.servers.settings import (
    FULL,
    PLAIN,
    REQUEUE,
    SHARED,
    SLOW,
    Setting,
)
from parley_conformance.stage import Broken, NotForThis
from parley_conformance.verdicts import Finding, failed, not_applicable
from parley_protocol.codec import read_server_message
from parley_protocol.conversation import NEXT, Role, State, legal
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from parley_conformance.dialogue import Line, Record

_MOST = 200

HOLD = 0.25


def _run(**hello: Any) -> Callable[[Hall], None]:
    """Return a dialogue in which the server and the kit's simulation get the same decisions."""

    def play(hall: Hall) -> None:
        options = {key: hello[key] for key in ("json_text", "kind") if key in hello}
        asked = {key: item for key, item in hello.items() if key not in options}
        caller = hall.call(**options)
        caller.lenient = True
        welcome = caller.welcomed(**asked)
        _require_scenario(welcome, hall.setting)
        granted = welcome.body.get("granted") or {}
        wanted = asked.get("capabilities", {}).get("state")
        if wanted == "snapshot" and granted.get("state") != "snapshot":
            raise NotForThis("the server does not grant state: snapshot")
        hall.record.facts["early"] = not caller.silent(HOLD)
        machine = Machine(
            replace(hall.setting.plan, submit=False),
            wants=asked.get("wants"),
            ask=asked.get("ask") or "always",
            snapshot=wanted == "snapshot",
        )
        _in_step(hall, caller, machine)

    return played(play)


def _in_step(hall: Hall, caller: Any, machine: Machine) -> None:
    pairs: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
    hall.record.facts.update(pairs=pairs, unasked=0, digests=[])
    line, expected = caller.ready(), machine.first()
    for count in range(_MOST):
        pairs.append((line.number, line.body, {**expected, "type": _kind(machine)}))
        if line.kind != "decision.request":
            if not caller.silent(0.1):
                hall.record.facts["unasked"] = len(hall.record.lines)
            return
        state = machine.state()
        hall.record.facts["digests"].append(
            (line.number, line.body.get("state_digest"), digest_of(machine.now, state))
        )
        if machine.reason:
            raise Broken("the server asks on where the run is over")
        decisions = _decisions(machine, state)
        if count == 2 and not caller.silent(HOLD):
            hall.record.facts["unasked"] = len(hall.record.lines)
        line = caller.reply(line, *decisions)
        expected = machine.answer([{"id": at, **one} for at, one in enumerate(decisions)])
    raise Broken(f"the run has not ended after {_MOST} requests")


def _known(event: Any) -> Any:
    """Return an event without what is not known of it, or not the kit's business."""
    if not isinstance(event, dict):
        return event
    fields = ("kind", "at_us", "job", "status", "nodes", "timer", "allocation")
    known = {key: event[key] for key in fields if key in event}
    if isinstance(known.get("job"), dict):
        parts = ("job", "name", "submit_us", "walltime_us", "request")
        known["job"] = {key: known["job"][key] for key in parts if key in known["job"]}
    return known


def _events(body: dict[str, Any]) -> list[Any]:
    return [_known(event) for event in canonical(body.get("events") or [])]


def _kind(machine: Machine) -> str:
    return "session.end" if machine.reason else "decision.request"


def _decisions(machine: Machine, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Start what fits, in the order of the queue; every other job where the kit puts it."""
    decisions: list[dict[str, Any]] = []
    for job in state["pending"]:
        start: dict[str, Any] = {"kind": "start", "job": job["job"]}
        spans = machine.places_for(job["job"], decisions)
        if spans is None:
            break
        if job["job"] % 2:
            start["allocation"] = [spans]
        decisions.append(start)
    return decisions


def _require_scenario(welcome: Line, setting: Setting) -> None:
    given = (welcome.body.get("platform") or {}).get("node_count")
    due = setting.plan.platform["node_count"]
    if given != due:
        raise NotForThis(f"the server plays {setting.name!r} on {given} nodes, not on {due}")


def _course(name: str, about: str, setting: Setting, **hello: Any) -> Scene[Hall]:
    return Scene(name, _run(**hello), about, setting.name, weight=1.5)


SNAPSHOT = {"state": "snapshot"}

course = _course("course", "a whole run, each event told", PLAIN)
course_snapshot = _course(
    "course-snapshot", "a run with the state in each request", FULL, capabilities=SNAPSHOT
)
course_full = _course("course-full", "a run in which nodes fail and jobs overrun", FULL)
course_requeue = _course(
    "course-requeue",
    "a run in which jobs on failed nodes are requeued",
    REQUEUE,
    capabilities=SNAPSHOT,
)
course_slow = _course("course-slow", "a run in which decisions take time", SLOW)
course_lazy = _course(
    "course-actionable",
    "a run with requests only where something could start",
    PLAIN,
    ask="actionable",
)
course_wants = _course(
    "course-wants",
    "a run of which only ends and submissions are told",
    FULL,
    wants=["job.ended", "job.submitted"],
)
course_shared = _course(
    "course-shared", "a run on nodes that jobs share", SHARED, capabilities=SNAPSHOT
)
course_json = _course("course-json", "a whole run in JSON text", PLAIN, json_text=True)
course_req = _course("course-req", "a whole run over a REQ socket", PLAIN, kind="REQ")

claim = partial(case, side="server", scenes=course)


def _pairs(record: Record, *kinds: str) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    for number, given, expected in record.facts.get("pairs") or ():
        if not kinds or expected["type"] in kinds:
            yield number, given, expected


def _first_difference(
    record: Record, look: Callable[[dict[str, Any]], Any], what: str, *kinds: str
) -> Finding | None:
    """Find the first message in which a part is not what the kit's simulation has."""
    for number, given, expected in _pairs(record, *kinds):
        one, other = canonical(look(given)), canonical(look(expected))
        if one != other:
            return failed(f"{what} {_brief(one)}, not {_brief(other)}", number)
    return found(record)


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:197] + "..."


REQUEST = "decision.request"

# ---------------------------------------------------------------------- what is said


@claim(
    "SAY-SHAPE",
    "Every message has the fields that its definition demands, of the types that it demands.",
    "R-ENV-1",
    right="Compare with the schema of the message in `schemas/`.",
)
def say_shape(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        if line.message is None:
            return "the message cannot be read"
        try:
            read_server_message(line.message)
        except ProtocolError as error:
            return f"{line.kind or 'a message'}: {error}"
        return None

    return each(record.of_program(), check) or found(record)


@claim(
    "SAY-ONE-MAP",
    "Each frame holds one map and nothing behind it.",
    "R-ENC-1",
    "R-ENC-12",
    right="One MessagePack map, or one JSON object.",
)
def say_one_map(record: Record) -> Finding | None:
    return (
        without(record, "malformed")
        or without(record, "truncated")
        or without(record, "trailing")
        or found(record)
    )


@claim(
    "SAY-KEYS",
    "Keys are texts, and each stands once in its map.",
    "R-ENC-7",
    right="str, not numbers or bin; no key twice.",
)
def say_keys(record: Record) -> Finding | None:
    return without(record, "key") or without(record, "duplicate") or found(record)


@claim(
    "SAY-PROFILE",
    "Neither bin, extensions, broken text, integers beyond 2^53 - 1 nor infinities are sent.",
    "R-ENC-8",
    "R-ENC-9",
    "R-ENC-10",
    "R-ENC-11",
    right="The profile of encoding.md holds for both sides.",
)
def say_profile(record: Record) -> Finding | None:
    for kind in ("type", "text", "range", "finite"):
        wrong = without(record, kind)
        if wrong:
            return wrong
    return found(record)


@claim(
    "SEQ-COUNT",
    "`seq` counts the messages of the session, from 1.",
    "R-ENV-4",
    right="The welcome has 1, each message one more than the one before, errors included.",
)
def seq_count(record: Record) -> Finding | None:
    for due, line in enumerate(record.of_program(), 1):
        given = (line.message or {}).get("seq")
        if given != due:
            return failed(f"seq of {line.kind} is {given!r:.40}, not {due}", line.number)
    return found(record)


@claim(
    "WELCOME-VERSION",
    "The welcome chooses a version that the hello lists.",
    "R-VER-1",
    "R-HELLO-1",
    right='The hello lists `"1.0"` only, so `version` is that.',
)
def welcome_version(record: Record) -> Finding | None:
    return each(
        record.of_program("welcome"),
        lambda line: (
            None
            if line.body.get("version") == "1.0"
            else f"version is {line.body.get('version')!r:.40}"
        ),
    ) or found(record)


@claim(
    "WELCOME-DEFAULTS",
    "The welcome repeats what is in force, and takes what is absent for its default.",
    "R-HELLO-5",
    "R-HELLO-7",
    right="`ask: always`, all kinds of event, `state: events`, `decisions: each`, `submit: false`.",
)
def welcome_defaults(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        body = line.body
        if body.get("ask") != "always":
            return f"ask is {body.get('ask')!r:.40}"
        if set(body.get("wants") or ()) != set(EVENT_KINDS):
            return f"wants is {body.get('wants')!r:.80}"
        return None

    return each(record.of_program("welcome"), check) or found(record)


@claim(
    "WELCOME-GRANTS",
    "Nothing is granted that the hello did not ask for.",
    "R-HELLO-6",
    "R-HELLO-5",
    scenes=course_full,
    right="`granted` is `events`, `each`, false where the hello asks for nothing.",
)
def welcome_grants(record: Record) -> Finding | None:
    due = {"state": "events", "decisions": "each", "submit": False}
    return each(
        record.of_program("welcome"),
        lambda line: (
            None
            if line.body.get("granted") == due
            else f"granted is {line.body.get('granted')!r:.80}"
        ),
    ) or found(record)


@claim(
    "WELCOME-LIMITS",
    "The limits that are announced are not narrow.",
    "R-LIM-3",
    right="At least 1,048,576 bytes, depth 32, texts and arrays of 65,536, 10,000 decisions.",
    profile="limits",
    must=False,
)
def welcome_limits(record: Record) -> Finding | None:
    least = {
        "message_bytes": 2**20,
        "depth": 32,
        "string_bytes": 2**16,
        "array_items": 2**16,
        "decisions": 10_000,
    }

    def check(line: Line) -> str | None:
        limits = line.body.get("limits") or {}
        narrow = [name for name, amount in least.items() if limits.get(name, 0) < amount]
        return f"{narrow[0]} is {limits.get(narrow[0])}" if narrow else None

    return each(record.of_program("welcome"), check) or found(record)


@claim(
    "TURNS-UNASKED",
    "Nothing is sent that no message of the dispatcher asked for.",
    "R-TRA-12",
    "R-TRA-13",
    "R-LIFE-8",
    right="The server waits while the dispatcher does, before `ready` as well.",
)
def turns_unasked(record: Record) -> Finding | None:
    if record.facts.get("early") or record.facts.get("unasked"):
        lines = list(record.of_program())
        return failed("a message came without having been asked for", lines[-1].number)
    return _alternating(record) or found(record)


def _alternating(record: Record) -> Finding | None:
    waiting = False
    for line in record.lines:
        if line.sender == "kit":
            waiting = True
        elif line.sender == "program":
            if not waiting:
                return failed("a second answer to one message", line.number)
            waiting = False
    return None


@claim(
    "LIFE-STATES",
    "Only messages are sent that the table of states allows.",
    "R-LIFE-2",
    right="`welcome`, then requests, then `session.end`; each in its state.",
)
def life_states(record: Record) -> Finding | None:
    state = State.NEW
    for line in record.lines:
        if line.sender == "note" or line.kind == "error":
            continue
        role = Role.CLIENT if line.sender == "kit" else Role.SERVER
        following = NEXT.get((state, role, line.kind))
        if following is None and line.sender == "program":
            due = ", ".join(legal(state, role)) or "nothing"
            return failed(f"{line.kind} is not legal now; legal: {due}", line.number)
        state = following or state
    return found(record)


@claim(
    "LIFE-FIRST",
    "The first request is that of time 0: `session.start` first, the state, no job yet.",
    "R-LIFE-9",
    right="`now_us` 0, `events` begins with `session.start`, `state` without pending jobs.",
)
def life_first(record: Record) -> Finding | None:
    for number, given, _ in _pairs(record):
        events, state = given.get("events") or [{}], given.get("state")
        wrong = (
            given.get("now_us") != 0
            or events[0].get("kind") != "session.start"
            or state is None
            or state.get("pending")
            or any(event.get("kind") == "job.submitted" for event in events)
        )
        return failed("the first request is not that of time 0", number) if wrong else found(record)
    return found(record) or failed("no request came")


@claim(
    "LIFE-COMPLETED",
    "A run whose jobs have all come to their end ends as completed, with the last outcomes.",
    "R-LIFE-10",
    "R-LIFE-12",
    right="`session.end` takes the place of the next request.",
)
def life_completed(record: Record) -> Finding | None:
    ends = list(record.of_program("session.end"))
    if not ends:
        return found(record) or failed("no session.end came")
    if ends[-1].body.get("reason") != "completed":
        return failed(f"the reason is {ends[-1].body.get('reason')!r:.40}", ends[-1].number)
    return found(record)


@claim(
    "LIFE-STATS",
    "`stats` counts each submitted job once, by what became of it.",
    "R-LIFE-13",
    "R-EVT-3",
    scenes=course_full,
    right="A job that the empty machine cannot hold counts as rejected.",
)
def life_stats(record: Record) -> Finding | None:
    return _first_difference(record, lambda body: body.get("stats"), "stats is", "session.end")


@claim(
    "TIME-BACK",
    "`now_us` never goes back.",
    "R-TIME-2",
    right="Each request is of the instant of the one before, or of a later one.",
)
def time_back(record: Record) -> Finding | None:
    before = 0
    for line in record.of_program(REQUEST):
        now = line.body.get("now_us", 0)
        if now < before:
            return failed(f"now_us is {now} after {before}", line.number)
        before = now
    return found(record)


@claim(
    "TIME-ATTEMPT",
    "`attempt` is 1 where the request is not one that was made before.",
    "R-TIME-5",
    right="More than 1 after a resume, or where refused decisions are asked about again.",
)
def time_attempt(record: Record) -> Finding | None:
    return each(
        record.of_program(REQUEST),
        lambda line: (
            None if line.body.get("attempt") == 1 else f"attempt is {line.body.get('attempt')}"
        ),
    ) or found(record)


@claim(
    "TIME-ORDER",
    "The events of an instant are told in their order: ends, nodes, submissions, timers.",
    "R-TIME-1",
    scenes=course_full,
    right="Ends by the numbers of the jobs, then nodes down, nodes up, submissions by number.",
)
def time_order(record: Record) -> Finding | None:
    for number, given, expected in _pairs(record, REQUEST):
        told, due = (_events(body) for body in (given, expected))
        if told != due and _sorted(told) == _sorted(due):
            return failed(f"the order is {_kinds(told)}, not {_kinds(due)}", number)
    return found(record)


def _sorted(events: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(event, sort_keys=True) for event in events)


def _kinds(events: Sequence[Any]) -> str:
    return _brief([[event.get("kind"), event.get("job")] for event in events if "kind" in event])


def _told(record: Record, *, exhausted: bool = False) -> Finding | None:
    """Find the first request that tells other events than are due, in whatever order."""
    for number, given, expected in _pairs(record, REQUEST):
        told, due = (
            _sorted(
                [
                    event
                    for event in _events(body)
                    if exhausted or event.get("kind") != "workload.exhausted"
                ]
            )
            for body in (given, expected)
        )
        if told != due:
            more = [event for event in told if event not in due]
            less = [event for event in due if event not in told]
            what = f"{more[0]} is told" if more else f"{less[0]} is not told"
            return failed(what, number)
    return found(record)


@claim(
    "TIME-ALL-TOLD",
    "Each request tells all events since the last one, each of them once.",
    "R-TIME-3",
    "R-CONV-10",
    "R-CONV-11",
    right="The kit simulates the same jobs and knows what is due.",
)
def time_all_told(record: Record) -> Finding | None:
    return _told(record)


@claim(
    "ASK-ALWAYS",
    "With `ask: always` there is a request at each instant of a wanted event, and only one.",
    "R-ASK-1",
    "R-TIME-4",
    right="`now_us` of the requests, one after the other, are those of the kit's simulation.",
)
def ask_always(record: Record) -> Finding | None:
    return _first_difference(record, lambda body: body.get("now_us"), "now_us is")


@claim(
    "ASK-ACTIONABLE",
    "With `ask: actionable` there is a request only where something could start.",
    "R-ASK-2",
    "R-ASK-3",
    scenes=course_lazy,
    right="The smallest total of each resource among actionable jobs is no more than is free.",
)
def ask_actionable(record: Record) -> Finding | None:
    return _first_difference(record, lambda body: body.get("now_us"), "now_us is")


@claim(
    "ASK-KEPT",
    "Events of instants without a request come with the next one, each with its own `at_us`.",
    "R-ASK-4",
    scenes=course_lazy,
    right="Nothing is lost by not being asked.",
)
def ask_kept(record: Record) -> Finding | None:
    return _told(record, exhausted=True)


@claim(
    "EVT-WANTS",
    "Only events of wanted kinds are told, and `session.start`.",
    "R-EVT-1",
    "R-HELLO-7",
    scenes=course_wants,
    right="`node.down` is neither told nor a reason to ask where it is not wanted.",
)
def evt_wants(record: Record) -> Finding | None:
    wanted = {"job.ended", "job.submitted", "session.start"}
    for line in record.of_program("welcome"):
        if not {"job.ended", "job.submitted"} <= set(line.body.get("wants") or ()) <= wanted:
            return failed(f"wants of the welcome is {line.body.get('wants')}", line.number)
    for line in record.of_program(REQUEST):
        for event in line.body.get("events") or ():
            if event.get("kind") not in wanted:
                return failed(f"{event.get('kind')} is told", line.number)
    return _first_difference(record, lambda body: body.get("now_us"), "now_us is")


@claim(
    "EVT-EXHAUSTED",
    "`workload.exhausted` comes once, behind the last submission.",
    "R-EVT-4",
    right="In the request that tells the last submission, behind it.",
)
def evt_exhausted(record: Record) -> Finding | None:
    return _exhausted(record)


def _exhausted(record: Record) -> Finding | None:
    told = 0
    for number, given, expected in _pairs(record, REQUEST):
        ones, due = (
            [event.get("kind") for event in body.get("events") or ()].count("workload.exhausted")
            for body in (given, expected)
        )
        told += ones
        if ones != due:
            return failed(f"workload.exhausted is told {ones} times here, not {due}", number)
    return found(record)


@claim(
    "EVT-STATUS",
    "`status` of `job.ended` says what became of the job.",
    "R-EVT-5",
    "R-START-6",
    scenes=course_full,
    right="`completed`, `timed_out` at its walltime, `failed` with a node.",
)
def evt_status(record: Record) -> Finding | None:
    def ends(body: dict[str, Any]) -> Any:
        return sorted(
            [event.get("job"), event.get("status")]
            for event in body.get("events") or ()
            if event.get("kind") == "job.ended"
        )

    return _first_difference(record, ends, "the ends are", REQUEST)


@claim(
    "EVT-HIDDEN",
    "No message says how long a job of the workload is going to run.",
    "R-EVT-6",
    right="Neither runtimes nor instants of ends, in no field and no unit, before the end.",
)
def evt_hidden(record: Record) -> Finding | None:
    runtimes = {job.runtime for job in PLAIN.plan.jobs if job.runtime}
    secrets = {*runtimes, *(runtime * SECOND for runtime in runtimes)}

    def check(line: Line) -> str | None:
        body = line.body
        numbers = set(_numbers([body.get("events"), body.get("state"), body.get("outcomes")]))
        shown = sorted(secrets & numbers)
        return f"{shown[0]} stands in it, the runtime of a job" if shown else None

    return each(record.of_program(REQUEST), check) or found(record)


def _numbers(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            return
        case int() | float():
            yield value
        case dict():
            for key, item in value.items():
                # At these instants something may well happen that is no secret.
                if key not in {"at_us", "start_us", "submit_us"}:
                    yield from _numbers(item)
        case list():
            for item in value:
                yield from _numbers(item)


@claim(
    "EVT-NEVER-FITS",
    "A job that the empty machine cannot hold is not told of.",
    "R-EVT-3",
    right="It is rejected when it is submitted, and counted.",
)
def evt_never_fits(record: Record) -> Finding | None:
    large = next(number for number, job in enumerate(PLAIN.plan.jobs) if job.chunks > 4)

    def check(line: Line) -> str | None:
        numbers = [
            event["job"].get("job")
            for event in line.body.get("events") or ()
            if event.get("kind") == "job.submitted"
        ]
        return f"job {large} is told" if large in numbers else None

    return each(record.of_program(REQUEST), check) or found(record)


@claim(
    "DEC-OUTCOMES",
    "The outcome of each decision is reported, in their order and with their id.",
    "R-DEC-2",
    right="In `outcomes` of the next request, or of the end.",
)
def dec_outcomes(record: Record) -> Finding | None:
    def told(body: dict[str, Any]) -> Any:
        return [[one.get("id"), one.get("status")] for one in body.get("outcomes") or ()]

    return _first_difference(record, told, "the outcomes are")


@claim(
    "START-PLACED",
    "A start without `allocation` goes to the lowest-numbered nodes that have room.",
    "R-START-2",
    scenes=course_shared,
    right="Each node filled with as many chunks as fit; the outcome tells where.",
    profile="alloc",
)
def start_placed(record: Record) -> Finding | None:
    def placed(body: dict[str, Any]) -> Any:
        return [
            [one.get("id"), merged_or_none(one.get("allocation"))]
            for one in body.get("outcomes") or ()
        ]

    return _first_difference(record, placed, "the outcomes tell", REQUEST)


def merged_or_none(allocation: Any) -> Any:
    """Return an allocation node by node, whatever its spelling."""
    if not allocation:
        return None
    return [
        [[node, chunks] for first, last, chunks in spans for node in range(first, last + 1)]
        for spans in allocation
    ]


@claim(
    "SPANS-MERGED",
    "Spans are ascending, disjoint and merged.",
    "R-CONV-7",
    scenes=course_snapshot,
    right="`[0, 3, 1]`, not `[0, 1, 1], [2, 3, 1]`.",
    profile="alloc",
)
def spans_merged(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        running = (line.body.get("state") or {}).get("running") or ()
        outcomes = line.body.get("outcomes") or ()
        for entry in [*running, *outcomes]:
            for spans in entry.get("allocation") or ():
                for one, other in pairwise(spans):
                    if other[0] <= one[1]:
                        return f"{spans} is not ascending"
                    if other[0] == one[1] + 1 and one[2] == other[2]:
                        return f"{spans} is not merged"
        return None

    return each(record.of_program(REQUEST), check) or found(record)


# ---------------------------------------------------------------------- the state


@claim(
    "STATE-WHERE",
    "Without `state: snapshot` only the first request of a run carries the state.",
    "R-STATE-1",
    right="`state` in the first, absent or nil in the others.",
    profile="delta",
)
def state_where(record: Record) -> Finding | None:
    lines = list(record.of_program(REQUEST))
    for count, line in enumerate(lines):
        has = line.body.get("state") is not None
        if count == 0 and not has:
            return failed("the first request has no state", line.number)
    return found(record)


@claim(
    "STATE-EACH",
    "With `state: snapshot` every request carries the state.",
    "R-STATE-1",
    scenes=course_snapshot,
    right="`state` in each `decision.request`.",
)
def state_each(record: Record) -> Finding | None:
    return each(
        record.of_program(REQUEST),
        lambda line: None if line.body.get("state") is not None else "the state is missing",
    ) or found(record)


def _state_part(name: str) -> Callable[[dict[str, Any]], Any]:
    def look(body: dict[str, Any]) -> Any:
        return (body.get("state") or {}).get(name)

    return look


def _members(name: str) -> Callable[[dict[str, Any]], Any]:
    def look(body: dict[str, Any]) -> Any:
        entries = (body.get("state") or {}).get(name) or []
        return sorted(_job_of(entry) for entry in entries)

    return look


def _job_of(entry: dict[str, Any]) -> int:
    job = entry["job"]
    return int(job["job"] if isinstance(job, dict) else job)


@claim(
    "STATE-AFTER-EVENTS",
    "The state of a request is that after all of its events, before any decision on it.",
    "R-STATE-2",
    scenes=course_snapshot,
    right="A job that the events submit is pending, one that they end runs no more.",
)
def state_after_events(record: Record) -> Finding | None:
    return _first_difference(
        record, _members("pending"), "pending is", REQUEST
    ) or _first_difference(record, _members("running"), "running is", REQUEST)


@claim(
    "STATE-ORDER",
    "`pending` is ordered by submission, then number; `running` by start.",
    "R-STATE-3",
    scenes=course_requeue,
    right="A requeued job is in its old place.",
)
def state_order(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        state = line.body.get("state") or {}
        pending = [(job["submit_us"], job["job"]) for job in state.get("pending") or ()]
        if pending != sorted(pending):
            return f"pending is ordered {_brief(pending)}"
        starts = [entry["start_us"] for entry in state.get("running") or ()]
        return f"running is ordered {starts}" if starts != sorted(starts) else None

    return each(record.of_program(REQUEST), check) or found(record)


@claim(
    "STATE-RUNS",
    "The runs of `nodes` hold every node once, ascending, equal neighbours joined.",
    "R-STATE-4",
    scenes=course_snapshot,
    right="`[first, last, free, state]`, from 0 to the last node without a gap.",
)
def state_runs(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        runs = (line.body.get("state") or {}).get("nodes") or []
        due = 0
        for first, last, *_ in runs:
            if first != due or last < first:
                return f"a run begins with {first}, not {due}"
            due = last + 1
        for one, other in pairwise(runs):
            if one[2:] == other[2:]:
                return f"{one} and {other} could be joined"
        return None if not runs or due == 4 else f"the runs end with node {due - 1}"

    return each(record.of_program(REQUEST), check) or found(record)


@claim(
    "STATE-FREE",
    "Nothing is shown as free on a node that is out of service or held by an exclusive chunk.",
    "R-STATE-5",
    scenes=course_snapshot,
    right="0 of each resource there.",
    profile="nodes",
)
def state_free(record: Record) -> Finding | None:
    def free(body: dict[str, Any]) -> Any:
        return [
            [node, amounts.get("core", 0), service]
            for first, last, amounts, service in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
        ]

    return _first_difference(record, free, "the nodes are", REQUEST)


@claim(
    "STATE-RESOURCES",
    "The runs of `nodes` name every resource of the platform.",
    "R-STATE-8",
    scenes=course_shared,
    right="With 0 where none is free, or the nodes have none.",
    profile="alloc",
)
def state_resources(record: Record) -> Finding | None:
    def named(body: dict[str, Any]) -> Any:
        return [sorted(run[2]) for run in (body.get("state") or {}).get("nodes") or ()][:1]

    return _first_difference(record, named, "the first run names", REQUEST)


@claim(
    "STATE-SHARED",
    "What is free of each resource on each node is what chunks have left.",
    "R-STATE-2",
    "R-START-5",
    scenes=course_shared,
    right="Capacity less chunks times `per_chunk` of all that run there.",
    profile="alloc",
)
def state_shared(record: Record) -> Finding | None:
    def free(body: dict[str, Any]) -> Any:
        return [
            [node, {kind: amount for kind, amount in amounts.items() if amount}]
            for first, last, amounts, _ in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
        ]

    return _first_difference(record, free, "the nodes are", REQUEST)


@claim(
    "STATE-VERSION",
    "`state_version` grows with each event and each applied decision.",
    "R-STATE-6",
    right="A request behind an event or an applied decision has a greater one.",
)
def state_version(record: Record) -> Finding | None:
    before: Any = None
    for line in record.of_program(REQUEST):
        body = line.body
        moved = body.get("events") or any(
            one.get("status") == "applied" for one in body.get("outcomes") or ()
        )
        if before is not None and moved and not body.get("state_version", 0) > before:
            return failed(
                f"state_version is {body.get('state_version')} after {before}", line.number
            )
        before = body.get("state_version", 0)
    return found(record)


@claim(
    "STATE-DIGEST",
    "`state_digest` is the digest of the state after all events.",
    "R-DIG-1",
    scenes=course_full,
    right="SHA-256 over the lines that decisions.md shows.",
    profile="delta",
)
def state_digest(record: Record) -> Finding | None:
    told = [entry for entry in record.facts.get("digests") or () if entry[1] is not None]
    for number, given, due in told:
        if given != due:
            return failed(f"the digest is {given[:16]}..., not {due[:16]}...", number)
    return found(record) or (None if told else not_applicable("the server sends no digests"))


# ---------------------------------------------------------------------- nodes and latency


def _node_events(body: dict[str, Any]) -> Any:
    return [
        [event.get("kind"), event.get("nodes")]
        for event in body.get("events") or ()
        if str(event.get("kind")).startswith("node.")
    ]


@claim(
    "NODE-CHANGED",
    "`node.down` and `node.up` name those nodes only whose state changes.",
    "R-NODE-2",
    scenes=course_full,
    right="Ascending ranges, disjoint.",
    profile="nodes",
)
def node_changed(record: Record) -> Finding | None:
    return _first_difference(record, _node_events, "the changes are", REQUEST)


@claim(
    "NODE-ENDS-FIRST",
    "The ends of the jobs on failing nodes are told before the failure.",
    "R-NODE-1",
    scenes=course_full,
    right="`job.ended` with `failed`, by number, then `node.down`.",
    profile="nodes",
)
def node_ends_first(record: Record) -> Finding | None:
    return _ends_first(record, "failed")


@claim(
    "NODE-REQUEUED",
    "Where the policy says so, jobs on failing nodes are requeued.",
    "R-NODE-1",
    scenes=course_requeue,
    right="`job.ended` with `requeued`; the job is pending again.",
    profile="nodes",
)
def node_requeued(record: Record) -> Finding | None:
    return _ends_first(record, "requeued")


def _ends_first(record: Record, status: str) -> Finding | None:
    def told(body: dict[str, Any]) -> Any:
        return [
            [event.get("kind"), event.get("job"), event.get("status")]
            for event in body.get("events") or ()
            if event.get("kind") == "node.down" or event.get("status") in {status, "failed"}
        ]

    return _first_difference(record, told, "the events are", REQUEST)


@claim(
    "NODE-EMPTY",
    "A node that comes back is empty.",
    "R-NODE-4",
    scenes=course_requeue,
    right="All of its capacity is free.",
    profile="nodes",
)
def node_empty(record: Record) -> Finding | None:
    def back(body: dict[str, Any]) -> Any:
        came = [
            node
            for event in body.get("events") or ()
            if event.get("kind") == "node.up"
            for first, last in event["nodes"]
            for node in range(first, last + 1)
        ]
        return [
            [node, amounts, service]
            for first, last, amounts, service in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
            if node in came
        ]

    return _first_difference(record, back, "the nodes are", REQUEST)


@claim(
    "LAT-AT",
    "Outcomes carry the instant at which decisions took effect, where they take time.",
    "R-LAT-3",
    "R-LAT-1",
    scenes=course_slow,
    right="`at_us` is `now_us` of the request and L.",
    profile="delta",
)
def lat_at(record: Record) -> Finding | None:
    def told(body: dict[str, Any]) -> Any:
        return [[one.get("id"), one.get("at_us")] for one in body.get("outcomes") or ()]

    return _slowly(record) or _first_difference(record, told, "the outcomes are")


@claim(
    "LAT-WORLD",
    "The world runs on until decisions take effect, and what happens is told with the next "
    "request.",
    "R-LAT-2",
    "R-LAT-4",
    "R-LAT-5",
    scenes=course_slow,
    right="The next request comes at t + L if anything has happened since t, else later.",
    profile="delta",
)
def lat_world(record: Record) -> Finding | None:
    return (
        _slowly(record)
        or _first_difference(record, lambda body: body.get("now_us"), "now_us is")
        or _told(record)
    )


def _slowly(record: Record) -> Finding | None:
    welcome = record.first("welcome")
    policy = welcome.body.get("policy") or {} if welcome is not None else {}
    if policy.get("latency_model") != "fixed":
        return not_applicable(f"the latency model is {policy.get('latency_model')!r:.40}")
    return None


# ---------------------------------------------------------------------- other sockets and encodings


@claim(
    "JSON-SESSION",
    "A session whose hello is JSON text is held in JSON text.",
    "R-ENC-2",
    "R-ENC-4",
    scenes=course_json,
    right="Every message of the server begins with a brace.",
    profile="json",
)
def json_session(record: Record) -> Finding | None:
    return each(
        record.of_program(),
        lambda line: None if line.frames[-1][:1] == b"{" else "the message is not JSON text",
    ) or found(record)


@claim(
    "TRA-REQ",
    "A REQ socket is served like a DEALER.",
    "R-TRA-1",
    scenes=course_req,
    right="The envelope of each message is sent back as it came.",
)
def tra_req(record: Record) -> Finding | None:
    return found(record) or went_on(record)


@claim(
    "TRA-ONE-FRAME",
    "A message is one frame behind the envelope.",
    "R-TRA-7",
    right="All frames of the dispatcher's message up to the first empty one, then the message.",
)
def tra_one_frame(record: Record) -> Finding | None:
    return each(
        record.of_program(),
        lambda line: (
            None
            if line.envelope == (b"",) and len(line.frames) == 1
            else f"{len(line.envelope)} frames of envelope and {len(line.frames)} behind them came"
        ),
    ) or found(record)


CASES = cases_in(globals())
