"""What a server says in whole runs: the cases that watch them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley_conformance.case import cases_in
from parley_conformance.judging import each, without
from parley_conformance.machine import EVENT_KINDS, SECOND
from parley_conformance.servers.probe import found
from parley_conformance.servers.settings import (
    PLAIN,
)
from parley_conformance.verdicts import Finding, failed
from parley_protocol.codec import read_server_message
from parley_protocol.conversation import NEXT, Role, State, legal
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parley_conformance.dialogue import Line, Record


from parley_conformance.servers.courses import (
    REQUEST,
    brief,
    claim,
    course_full,
    course_lazy,
    course_shared,
    course_snapshot,
    course_wants,
    events_of,
    first_difference,
    pairs,
)


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
    for number, given, _ in pairs(record):
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
    return first_difference(record, lambda body: body.get("stats"), "stats is", "session.end")


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
    for number, given, expected in pairs(record, REQUEST):
        told, due = (events_of(body) for body in (given, expected))
        if told != due and _sorted(told) == _sorted(due):
            return failed(f"the order is {_kinds(told)}, not {_kinds(due)}", number)
    return found(record)


def _sorted(events: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(event, sort_keys=True) for event in events)


def _kinds(events: Sequence[Any]) -> str:
    return brief([[event.get("kind"), event.get("job")] for event in events if "kind" in event])


def all_told(record: Record, *, exhausted: bool = False) -> Finding | None:
    """Find the first request that tells other events than are due, in whatever order."""
    for number, given, expected in pairs(record, REQUEST):
        told, due = (
            _sorted(
                [
                    event
                    for event in events_of(body)
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
    return all_told(record)


@claim(
    "ASK-ALWAYS",
    "With `ask: always` there is a request at each instant of a wanted event, and only one.",
    "R-ASK-1",
    "R-TIME-4",
    right="`now_us` of the requests, one after the other, are those of the kit's simulation.",
)
def ask_always(record: Record) -> Finding | None:
    return first_difference(record, lambda body: body.get("now_us"), "now_us is")


@claim(
    "ASK-ACTIONABLE",
    "With `ask: actionable` there is a request only where something could start.",
    "R-ASK-2",
    "R-ASK-3",
    scenes=course_lazy,
    right="The smallest total of each resource among actionable jobs is no more than is free.",
)
def ask_actionable(record: Record) -> Finding | None:
    return first_difference(record, lambda body: body.get("now_us"), "now_us is")


@claim(
    "ASK-KEPT",
    "Events of instants without a request come with the next one, each with its own `at_us`.",
    "R-ASK-4",
    scenes=course_lazy,
    right="Nothing is lost by not being asked.",
)
def ask_kept(record: Record) -> Finding | None:
    return all_told(record, exhausted=True)


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
    return first_difference(record, lambda body: body.get("now_us"), "now_us is")


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
    for number, given, expected in pairs(record, REQUEST):
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

    return first_difference(record, ends, "the ends are", REQUEST)


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

    return first_difference(record, told, "the outcomes are")


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

    return first_difference(record, placed, "the outcomes tell", REQUEST)


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


CASES = cases_in(globals())
