"""Cases of what a dispatcher must bear: odd spellings, later versions, refusals, lost servers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from parley_conformance.case import Scene, case, cases_in
from parley_conformance.dispatchers import scenes
from parley_conformance.dispatchers.speech import lively
from parley_conformance.judging import canonical, last_of_kit, went_on
from parley_conformance.verdicts import Finding, failed, not_applicable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley_conformance.case import Case
    from parley_conformance.dialogue import Line, Record

claim = partial(case, side="dispatcher")


def _borne(
    identity: str,
    title: str,
    *requirements: str,
    scene: Scene[Any],
    right: str,
    profile: str = "core",
    must: bool = True,
) -> Case:
    """Return a case which holds if the run is played to its end."""

    def judge(record: Record) -> Finding | None:
        if record.facts.get("json"):
            return not_applicable("the program speaks JSON")
        if record.facts.get("packed"):
            return not_applicable("the program speaks MessagePack")
        return went_on(record)

    return claim(
        identity, title, *requirements, scenes=scene, right=right, profile=profile, must=must
    )(judge)


enc_widths = _borne(
    "ENC-WIDTHS",
    "Integers and lengths are understood in their longest form.",
    "R-ENC-13",
    scene=scenes.wide,
    right="0 may come as uint 64, an empty map as map 32, `ready` as str 32.",
)
enc_floats = _borne(
    "ENC-FLOATS",
    "A float without a fraction is taken for the integer of that value.",
    "R-CONV-3",
    scene=scenes.floats,
    right="`seq` 4.0 is 4: JavaScript and Lua cannot tell them apart.",
)
enc_key_order = _borne(
    "ENC-KEY-ORDER",
    "Maps are understood whatever the order of their keys.",
    "R-ENC-14",
    scene=scenes.backwards,
    right="Look fields up by name; `body` may come before `type`.",
)
conv_nil = _borne(
    "CONV-NIL",
    "An optional field that is nil is taken for one that is absent.",
    "R-CONV-1",
    scene=scenes.nils,
    right="`walltime_us: nil` is a job without limit; `state: nil` is no state.",
)
conv_unknown_fields = _borne(
    "CONV-UNKNOWN-FIELDS",
    "Fields that are not known are ignored, at any depth.",
    "R-CONV-2",
    scene=scenes.excess,
    right="A later minor version adds fields to anything.",
)
conv_text = _borne(
    "CONV-TEXT",
    "Names in all of Unicode are borne.",
    "R-LIFE-1",
    scene=scenes.odd_text,
    right="Names are for people: no need to look into them, and none may end the program.",
)
conv_large = _borne(
    "CONV-LARGE",
    "Instants up to 2^53 - 1 microseconds are borne.",
    "R-ENC-13",
    scene=scenes.large,
    right="Hold times in 64 bits or in a double.",
)
evt_unknown = _borne(
    "EVT-UNKNOWN",
    "Events of kinds that are not known are ignored.",
    "R-EVT-2",
    scene=scenes.strange_events,
    right="Pass over them and take in the others, in their order.",
)
json_spellings = _borne(
    "JSON-SPELLINGS",
    "JSON text is understood in every spelling that RFC 8259 allows.",
    "R-ENC-15",
    scene=scenes.odd_json,
    right="Use a parser: white space, `\\u0061` and `1e2` are all legal.",
    profile="json",
)
lim_depth = _borne(
    "LIM-DEPTH",
    "Messages of depth 32 are borne.",
    "R-LIM-8",
    scene=scenes.deep,
    right="Attributes of jobs may be nested; the limit of the protocol is 32 levels.",
    profile="limits",
    must=False,
)
lim_long = _borne(
    "LIM-LONG",
    "Long messages are borne.",
    "R-LIM-8",
    scene=scenes.long,
    right="A state is as long as the queue: no buffer of fixed size.",
    profile="limits",
    must=False,
)
end_empty = _borne(
    "END-EMPTY",
    "A workload without jobs is borne.",
    "R-LIFE-1",
    scene=scenes.empty,
    right="`workload.exhausted` comes with `session.start`; the run ends without a job.",
)


@claim(
    "END-AT-READY",
    "A `session.end` in the place of the first request is the end.",
    "R-LIFE-6",
    scenes=scenes.end_at_ready,
    right="`ready` is answered by a request or by the end.",
)
def end_at_ready(record: Record) -> Finding | None:
    end = record.first("session.end", "kit")
    for line in record.of_program():
        if end is not None and line.number > end.number and line.kind != "hello":
            return failed(f"{line.kind or 'a message'!r} came after the end", line.number)
    return went_on(record)


@claim(
    "LIM-DECISIONS",
    "A reply holds no more decisions than the welcome allows.",
    "R-LIM-2",
    scenes=scenes.few_decisions,
    right="Send the rest with the next reply.",
    profile="limits",
)
def lim_decisions(record: Record) -> Finding | None:
    for line in record.of_program("decision.reply"):
        count = len(line.body.get("decisions") or ())
        if count > 3:
            return failed(f"{count} decisions in a reply; 3 are the limit", line.number)
    return went_on(record)


@claim(
    "LIM-BYTES",
    "No message is longer, deeper or larger than the welcome allows.",
    "R-LIM-2",
    scenes=scenes.plain,
    right="`limits` of the welcome hold for everything that is sent.",
    profile="limits",
)
def lim_bytes(record: Record) -> Finding | None:
    for line in record.of_program():
        if sum(map(len, line.frames)) > 16_777_216:
            return failed("the message is longer than 16,777,216 bytes", line.number)
        if _longest(line.message) > 262_144:
            return failed("a text is longer than 262,144 bytes", line.number)
        if _depth(line.message) > 32:
            return failed("the message is nested deeper than 32", line.number)
    return None


def _depth(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)
        case list():
            return 1 + max(map(_depth, value), default=0)
        case _:
            return 0


def _longest(value: Any) -> int:
    match value:
        case str():
            return len(value.encode(errors="replace"))
        case dict():
            return max((_longest(part) for pair in value.items() for part in pair), default=0)
        case list():
            return max(map(_longest, value), default=0)
        case _:
            return 0


# ---------------------------------------------------------------------- errors and ends


def _injected(record: Record) -> Line | None:
    """Return the error that the dialogue is about, not one that answers a fault."""
    return next(
        (line for line in record.of_kit("error") if line.body.get("message") == scenes.ERROR_TEXT),
        None,
    )


def _silent_after_error(record: Record) -> Finding | None:
    over = 0
    for line in record.lines:
        if line.sender == "kit" and line.kind == "error" and line.body.get("fatal"):
            over = line.number
        elif line.sender == "program" and over and line.kind != "hello":
            return failed(f"{line.kind or 'a message'!r} came after a fatal error", line.number)
    return None if over else went_on(record) or failed("no fatal error could be sent")


@claim(
    "ERR-FATAL",
    "A fatal error ends the session, whatever its code.",
    "R-ERR-4",
    "R-LIFE-6",
    scenes=scenes.fatal,
    right="Go by `fatal`: codes that are not known may come with a later version.",
)
def err_fatal(record: Record) -> Finding | None:
    return _silent_after_error(record)


@claim(
    "ERR-STALE",
    "A dispatcher that is told `epoch.stale` says nothing more in the session.",
    "R-LIFE-6",
    scenes=scenes.stale,
    right="Another has taken over: exit.",
)
def err_stale(record: Record) -> Finding | None:
    return _silent_after_error(record)


@claim(
    "ERR-HELLO",
    "A refused hello is followed by nothing of a session.",
    "R-LIFE-6",
    scenes=scenes.refused_hello,
    right="There is no session: show the message and exit, or say another hello.",
)
def err_hello(record: Record) -> Finding | None:
    return _silent_after_error(record)


@claim(
    "ERR-NOT-FATAL",
    "After an error that is not fatal the session is left by `bye`, or goes on.",
    "R-ERR-4",
    "R-LIFE-1",
    scenes=scenes.not_fatal,
    right="Mend the message and send it again, or say `bye`, or exit; what was answered by the "
    "error counts as never sent.",
)
def err_not_fatal(record: Record) -> Finding | None:
    error = _injected(record)
    if error is None:
        return went_on(record) or failed("no error could be sent")
    if record.facts.get("silent"):
        return failed("the program hangs after an error that is not fatal", error.number)
    following = next((line for line in record.of_program() if line.number > error.number), None)
    if following is not None and following.kind not in {
        *("decision.reply", "bye", "state.request", "progress", "ping"),
    }:
        return failed(f"{following.kind!r} is not legal here", following.number)
    return None


@claim(
    "ERR-SHOWN",
    "The message of an error is shown to whoever runs the program.",
    "R-ERR-5",
    scenes=scenes.fatal,
    right="Print `body.message`, to standard error for instance.",
    must=False,
)
def err_shown(record: Record) -> Finding | None:
    error = _injected(record)
    if error is None:
        return went_on(record) or failed("no error could be sent")
    if scenes.ERROR_TEXT not in record.output:
        return failed("the output of the program does not hold the message", error.number)
    return None


@claim(
    "END-REASON",
    "A reason that is not known is taken for that of a run which is not complete.",
    "R-LIFE-14",
    scenes=scenes.end_unknown,
    right="Exit with a status other than 0, unless the reason is one that you know to be well.",
    must=False,
)
def end_reason(record: Record) -> Finding | None:
    if record.broke:
        return went_on(record)
    if record.status is None:
        return not_applicable("the program stays after the end of its session")
    return (
        None
        if record.status != 0
        else failed("the program exits with status 0", last_of_kit(record))
    )


# ---------------------------------------------------------------------- refused decisions


def _survives(identity: str, title: str, *requirements: str, scene: Scene[Any], right: str) -> Case:
    """Return a case which holds if refusals neither end nor derail the run."""

    def judge(record: Record) -> Finding | None:
        if record.facts.get("not_asked"):
            return not_applicable(record.broke)
        broken = went_on(record)
        if broken:
            return broken
        if not record.facts.get("injected"):
            if scene is scenes.atomic:
                return failed("atomic replies are asked for and never made: it cannot be tested")
            return not_applicable("the program starts no job")
        return None

    return claim(identity, title, *requirements, scenes=scene, right=right)(judge)


rej_first = _survives(
    "REJ-FIRST",
    "A refused start does not end the dispatcher.",
    "R-LIFE-1",
    "R-SEQ-1",
    scene=scenes.refuse_first,
    right="The job is pending still; decide again with the next request.",
)
rej_all = _survives(
    "REJ-ALL",
    "A reply all of whose decisions are refused does not end the dispatcher.",
    "R-LIFE-1",
    scene=scenes.refuse_all,
    right="The next request tells what became of each; a second one may come at the same instant.",
)
rej_unknown = _survives(
    "REJ-UNKNOWN-CODE",
    "A refusal with a code that is not known does not end the dispatcher.",
    "R-LIFE-1",
    scene=scenes.refuse_unknown,
    right="Go by `status`; later versions have more codes.",
)
rej_reask = _survives(
    "REJ-REASK",
    "A request that is made again for refused decisions is answered like any other.",
    "R-LIFE-1",
    "R-SEQ-1",
    scene=scenes.reask,
    right="`attempt` is greater, `now_us` the same, `events` empty.",
)
rej_late = _survives(
    "REJ-LATE",
    "Decisions that come back as `decision.late` do not end the dispatcher.",
    "R-LIFE-1",
    scene=scenes.late,
    right="Decide again, on the request that brings the outcome.",
)
rej_atomic = _survives(
    "REJ-ATOMIC",
    "An atomic reply that is refused as a whole does not end the dispatcher.",
    "R-LIFE-1",
    scene=scenes.atomic,
    right="One outcome has its own code, the others `decision.rolled_back`.",
)


@claim(
    "REJ-LIVE",
    "Jobs whose start was refused are tried again.",
    "R-ASK-7",
    scenes=scenes.refuse_all,
    right="A refused job stays pending; one that is forgotten lets the run stall.",
    must=False,
)
def rej_live(record: Record) -> Finding | None:
    return lively(record)


# ---------------------------------------------------------------------- nodes, timers, shared nodes


nodes_bear = _borne(
    "NODES-BEAR",
    "Nodes that fail under running jobs are borne.",
    "R-LIFE-1",
    scene=scenes.failing,
    right="`job.ended` with status `requeued`, then `node.down`; the job is pending again.",
    profile="nodes",
)
nodes_lost = _borne(
    "NODES-LOST-JOBS",
    "Jobs that end as `failed` are borne.",
    "R-LIFE-1",
    scene=scenes.killing,
    right="`job.ended` with status `failed` is the end of the job.",
    profile="nodes",
)


@claim(
    "NODES-AVOID",
    "Nothing is started on a node that is out of service.",
    "R-NODE-3",
    scenes=scenes.failing,
    right="Between `node.down` and `node.up` its nodes hold nothing.",
    profile="nodes",
    must=False,
)
def nodes_avoid(record: Record) -> Finding | None:
    broken = went_on(record)
    if broken:
        return broken
    count = record.facts["refused"].get("node.down", 0)
    return failed(f"{count} starts were refused as node.down") if count else None


@claim(
    "NODES-LIVE",
    "Jobs that were requeued, and jobs that wait for nodes to come back, are started again.",
    "R-ASK-7",
    scenes=scenes.failing,
    right="Take `job.ended` with `requeued` for a submission in the old place; count on the nodes "
    "again after `node.up`.",
    profile="nodes",
    must=False,
)
def nodes_live(record: Record) -> Finding | None:
    return lively(record)


def _first(findings: Iterable[Finding | None]) -> Finding | None:
    """Return the first finding that there is, of the scene in whose place it stands."""
    for scene, found in enumerate(findings):
        if found is not None:
            return replace(found, scene=scene)
    return None


def _refused(record: Record, *prefixes: str) -> Finding | None:
    """Find decisions that were refused with codes of some sort."""
    for line in record.of_kit("decision.request", "session.end"):
        for outcome in line.body.get("outcomes") or ():
            code = outcome.get("code") or ""
            if code.startswith(prefixes):
                return failed(f"decision {outcome['id']} was refused as {code}", line.number)
    return None


@claim(
    "ALLOC-SHAPE",
    "Allocations are well formed: as many chunks as the job asks for, on nodes that there are.",
    "R-START-4",
    scenes=scenes.shared,
    right="For each group of the request ascending spans `[first, last, chunks per node]`.",
    profile="alloc",
    must=False,
)
def alloc_shape(record: Record) -> Finding | None:
    return (
        went_on(record)
        or _placing(record)
        or _refused(
            record,
            "alloc.groups",
            "alloc.span",
            "alloc.order",
            "alloc.too",
            "alloc.ex",
            "node.unknown",
        )
    )


@claim(
    "ALLOC-ROOM",
    "Jobs are placed where there is room.",
    "R-START-5",
    scenes=scenes.shared,
    right="Count every resource on every node, and nothing beside an exclusive chunk.",
    profile="alloc",
    must=False,
)
def alloc_room(record: Record) -> Finding | None:
    return went_on(record) or _placing(record) or _refused(record, "node.busy")


def _placing(record: Record) -> Finding | None:
    for line in record.of_program("decision.reply"):
        for decision in line.body.get("decisions") or ():
            if isinstance(decision, dict) and decision.get("allocation"):
                return None
    return not_applicable("the program leaves it to the server to place jobs")


alloc_shared = _borne(
    "ALLOC-SHARED",
    "A machine of several kinds of nodes and resources is borne.",
    "R-LIFE-1",
    scene=scenes.shared,
    right="A resource that a node or a job does not name counts 0 there.",
    profile="alloc",
)


@claim(
    "ALLOC-LIVE",
    "Jobs that share nodes all come to their end.",
    "R-ASK-7",
    scenes=scenes.shared,
    right="A job fits where each of its chunks does, whatever its neighbours.",
    profile="alloc",
    must=False,
)
def alloc_live(record: Record) -> Finding | None:
    return lively(record)


# ---------------------------------------------------------------------- mirrors


def _keeps_a_mirror(record: Record) -> Finding | None:
    hello = record.first("hello")
    asked: Any = (hello.body if hello is not None else {}).get("capabilities") or {}
    if isinstance(asked, dict) and asked.get("state") == "snapshot":
        return not_applicable("the program has the whole state sent with each request")
    return None


@claim(
    "DELTA-KNOWN",
    "Decisions are about jobs that are what the decision is for.",
    "R-DEC-7",
    scenes=scenes.plain,
    right="Follow `job.submitted`, `job.ended` and the outcomes of your own decisions.",
    profile="delta",
    must=False,
)
def delta_known(record: Record) -> Finding | None:
    return _keeps_a_mirror(record) or went_on(record) or _refused(record, "job.")


@claim(
    "DELTA-ROOM",
    "Jobs are started where, by all that was told, there is room.",
    "R-START-5",
    scenes=scenes.plain,
    right="Nodes are free from `job.ended` on, and taken from the outcome of a start on.",
    profile="delta",
    must=False,
)
def delta_room(record: Record) -> Finding | None:
    return _keeps_a_mirror(record) or went_on(record) or _refused(record, "node.busy", "alloc.no")


@claim(
    "DELTA-LATENCY",
    "Decisions that take simulated time are borne.",
    "R-LIFE-1",
    scenes=scenes.slow,
    right="Outcomes with `at_us` take effect then, behind the other events of that instant.",
    profile="delta",
)
def delta_latency(record: Record) -> Finding | None:
    return went_on(record)


@claim(
    "DELTA-DIGEST",
    "A digest that is that of the state is not contradicted.",
    "R-DIG-2",
    scenes=scenes.digests,
    right="Compare it with that of the mirror, or ignore it; it is right in this dialogue.",
    profile="delta",
)
def delta_digest(record: Record) -> Finding | None:
    for line in record.of_program("state.request", "bye"):
        return failed(f"{line.kind} came though the digest is right", line.number)
    return went_on(record)


@claim(
    "DELTA-RESYNC",
    "A mirror that was found to differ is begun anew from the state that was asked for.",
    "R-SEQ-2",
    "R-LIFE-1",
    scenes=scenes.wrong_digest,
    right="`state.request`, then take the `state.snapshot` for the whole truth and reply.",
    profile="delta",
)
def delta_resync(record: Record) -> Finding | None:
    asked = record.first("state.request")
    if asked is None:
        return not_applicable("the program does not ask for the state")
    seq = next(
        (line.message or {}).get("seq")
        for line in reversed(record.lines[: asked.number])
        if line.sender == "kit"
    )
    given = (asked.message or {}).get("re")
    if given != seq:
        return failed(f"re of state.request is {given!r:.40}, not {seq}", asked.number)
    return went_on(record)


@claim(
    "TIMER-FUTURE",
    "Timers are set for instants after now, under numbers that no waiting timer has.",
    "R-WAKE-1",
    scenes=scenes.plain,
    right="`at_us` is greater than `now_us` of the request.",
    profile="timer",
    must=False,
)
def timer_future(record: Record) -> Finding | None:
    return _sets_timers(record) or _refused(record, "timer.past", "timer.set")


@claim(
    "TIMER-FIRED",
    "A timer that fires is answered like any other event.",
    "R-LIFE-1",
    scenes=scenes.plain,
    right="`timer.fired` names the number that the dispatcher chose.",
    profile="timer",
)
def timer_fired(record: Record) -> Finding | None:
    return _sets_timers(record) or went_on(record)


@claim(
    "TIMER-CANCEL",
    "Only timers that wait are cancelled.",
    "R-WAKE-3",
    scenes=scenes.plain,
    right="A timer that has fired waits no more.",
    profile="timer",
    must=False,
)
def timer_cancel(record: Record) -> Finding | None:
    if not _decides(record, "wake.cancel"):
        return not_applicable("the program cancels no timers")
    return _refused(record, "timer.unknown")


def _sets_timers(record: Record) -> Finding | None:
    return None if _decides(record, "wake") else not_applicable("the program sets no timers")


def _decides(record: Record, *kinds: str) -> bool:
    return any(
        isinstance(one, dict) and one.get("kind") in kinds
        for line in record.of_program("decision.reply")
        for one in line.body.get("decisions") or ()
    )


@claim(
    "KILL-RUNNING",
    "Only running jobs are killed or requeued.",
    "R-DEC-7",
    scenes=(scenes.plain, scenes.overdue),
    right="A job that has ended, or is ending by an earlier decision, runs no more.",
    profile="kill",
    must=False,
)
def kill_running(*records: Record) -> Finding | None:
    if not any(_decides(record, "kill", "requeue") for record in records):
        return not_applicable("the program kills nothing")
    return _first(_refused(record, "job.not_running", "job.unknown") for record in records)


@claim(
    "KILL-FOLLOWED",
    "The end of a job that was killed or requeued is taken in when it is told.",
    "R-LIFE-1",
    scenes=(scenes.plain, scenes.overdue),
    right="`job.ended` with `killed`, or with `requeued`: then the job is pending again.",
    profile="kill",
)
def kill_followed(*records: Record) -> Finding | None:
    if not any(_decides(record, "kill", "requeue") for record in records):
        return not_applicable("the program kills nothing")
    return _first(went_on(record) for record in records)


@claim(
    "SUBMIT-USED",
    "A dispatcher that asks for the capability `submit` makes use of it.",
    "R-LIFE-1",
    scenes=scenes.plain,
    right="What is declared is tested; ask for `submit` only where jobs are brought in.",
    profile="core",
)
def submit_used(record: Record) -> Finding | None:
    hello = record.first("hello")
    asked: Any = (hello.body if hello is not None else {}).get("capabilities") or {}
    if not isinstance(asked, dict) or asked.get("submit") is not True:
        return not_applicable("the program does not ask for submit")
    if not _decides(record, "submit"):
        return failed(
            "submit is declared and never used, so it cannot be tested",
            hello.number if hello else 0,
        )
    return went_on(record)


# ---------------------------------------------------------------------- resuming


def _taken_up(record: Record) -> Finding | None:
    """Find that there is no second epoch to judge by."""
    if not record.facts.get("resumes"):
        return not_applicable("the program does not resume")
    return None


@claim(
    "RESUME-HELLO",
    "A program that finds PARLEY_SESSION and PARLEY_TOKEN set resumes that session.",
    "R-RES-12",
    scenes=scenes.restart,
    right="`resume` of the hello holds `session` and `token` as the two variables have them.",
    profile="resume",
    must=False,
)
def resume_hello(record: Record) -> Finding | None:
    if "resumes" not in record.facts:
        return went_on(record)
    if record.facts["resumes"]:
        return None
    return failed(
        f"resume of the hello is {record.facts['resume']!r:.60}", record.facts["hello_line"]
    )


@claim(
    "RESUME-HALF",
    "Where one of the two variables is empty, neither counts.",
    "R-RES-12",
    scenes=scenes.half_named,
    right="Say hello as at a first start.",
    profile="resume",
    must=False,
)
def resume_half(record: Record) -> Finding | None:
    if record.facts.get("resume") is not None:
        return failed("the hello holds resume", record.facts["hello_line"])
    return went_on(record)


@claim(
    "RESUME-EPOCH",
    "After a resume every message names the new epoch.",
    "R-ENV-2",
    scenes=scenes.restart,
    right="`epoch` of the last welcome.",
    profile="resume",
)
def resume_epoch(record: Record) -> Finding | None:
    other = _taken_up(record)
    if other:
        return other
    for line in _after_resume(record):
        if line.kind != "hello" and (line.message or {}).get("epoch") != 2:
            given = (line.message or {}).get("epoch")
            return failed(f"epoch of {line.kind} is {given!r:.40}, not 2", line.number)
    return None


@claim(
    "RESUME-COURSE",
    "A run that is resumed is played to its end.",
    "R-SEQ-1",
    "R-LIFE-1",
    scenes=scenes.restart,
    right="`ready`, then a reply to the request that comes once more.",
    profile="resume",
)
def resume_course(record: Record) -> Finding | None:
    return _taken_up(record) or went_on(record)


def _after_resume(record: Record) -> list[Line]:
    begins = record.facts.get("hello_line", 0)
    return [line for line in record.of_program() if line.number >= begins]


@claim(
    "RESUME-STATE",
    "After a resume the picture of the state begins from the state of the first request.",
    "R-RES-10",
    scenes=scenes.lost_and_found,
    right="Forget what was held before; do not apply the events beside the state again.",
    profile="resume",
)
def resume_state(record: Record) -> Finding | None:
    other = _taken_up(record) or went_on(record)
    if other:
        return other
    begins = record.facts["hello_line"]
    for line in record.of_kit("decision.request", "session.end"):
        told = line.number > begins and line.body.get("attempt", 1) == 1
        for outcome in (line.body.get("outcomes") or ()) if told else ():
            code = outcome.get("code") or ""
            if code in {"job.not_pending", "job.unknown", "node.busy", "job.not_running"}:
                return failed(f"a decision was refused as {code}", line.number)
    return None


@claim(
    "RESUME-OVER",
    "A program whose session is over does not begin another run.",
    "R-RES-13",
    scenes=scenes.restart_over,
    right="Exit when the hello with `resume` is answered by `session.over`.",
    profile="resume",
    must=False,
)
def resume_over(record: Record) -> Finding | None:
    return _taken_up(record) or _no_other_run(record)


@claim(
    "RESUME-TOKEN",
    "A program whose token is not taken does not begin another run.",
    "R-RES-13",
    scenes=scenes.restart_token,
    right="Exit when the hello with `resume` is answered by `session.token`.",
    profile="resume",
    must=False,
)
def resume_token(record: Record) -> Finding | None:
    return _taken_up(record) or _no_other_run(record)


def _no_other_run(record: Record) -> Finding | None:
    error = _injected(record)
    for line in record.of_program():
        if error is not None and line.number > error.number:
            return failed(f"{line.kind!r} came after the refusal", line.number)
    return None if error is not None else went_on(record)


@claim(
    "LOST-NOTICED",
    "The loss of the server is noticed while its answer is waited for.",
    "R-TRA-15",
    scenes=scenes.lost,
    right="Watch the socket with a monitor: ZeroMQ connects again by itself and says nothing.",
    profile="resume",
    must=False,
)
def lost_noticed(record: Record) -> Finding | None:
    if record.broke:
        return went_on(record)
    if record.facts["noticed"]:
        return None
    return failed(f"the program still waits after {scenes.NOTICE:g} s", last_of_kit(record))


# ---------------------------------------------------------------------- determinism


def _replies(record: Record) -> list[tuple[Any, int]]:
    """Return what a program says, without wall times, and the lines where it does."""
    return [
        (canonical({**(line.message or {}), "session": ""}), line.number)
        for line in record.of_program("hello", "ready", "decision.reply")
    ]


def _same(first: Record, second: Record) -> Finding | None:
    broken = went_on(first) or went_on(second)
    if broken:
        return broken
    one, other = _replies(first), _replies(second)
    for (said, _), (repeated, number) in zip(one, other, strict=False):
        if said != repeated:
            return failed("the program says something else the second time", number, scene=1)
    if len(one) != len(other):
        return failed(f"{len(one)} messages the first time, {len(other)} the second", scene=1)
    return None


def _repeatable(identity: str, title: str, scene: Scene[Any], right: str) -> Case:
    return claim(
        identity, title, "R-HELLO-8", scenes=(scenes.plain, scene), right=right, must=False
    )(_same)


det_twice = _repeatable(
    "DET-TWICE",
    "The same dialogue with the same seed is answered alike.",
    scenes.again,
    "Draw random numbers from a generator that `seed` of the welcome has seeded.",
)
det_hash = _repeatable(
    "DET-HASH",
    "The answers do not hang on the order of a hash table.",
    scenes.hash_seed,
    "Sort what comes out of a set or a map before deciding by its order.",
)
det_locale = _repeatable(
    "DET-LOCALE",
    "The answers do not hang on the locale.",
    scenes.locale,
    "Write and compare by code points.",
)
det_zone = _repeatable(
    "DET-ZONE",
    "The answers do not hang on the time zone.",
    scenes.time_zone,
    "Simulated time has nothing to do with the clock on the wall.",
)

CASES = cases_in(globals())
