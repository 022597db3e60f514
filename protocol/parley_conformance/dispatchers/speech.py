"""Cases of what a dispatcher says: judged by watching it, whatever it decides."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley_conformance.case import case, cases_in
from parley_conformance.dispatchers import scenes
from parley_conformance.judging import each, is_number, went_on, without
from parley_conformance.machine import EVENT_KINDS
from parley_conformance.verdicts import Finding, failed, not_applicable
from parley_protocol.codec import read_client_message
from parley_protocol.conversation import NEXT, Role, State, legal
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley_conformance.dialogue import Line, Record

claim = partial(case, side="dispatcher", scenes=scenes.plain)

OUTSTANDING = frozenset({"welcome", "decision.request"})
ASIDES = ("ping", "bye", "state.request", "progress")


@claim(
    "HELLO-FIRST",
    "The first message is a hello.",
    "R-LIFE-1",
    "R-TRA-2",
    right="Connect over tcp to the endpoint that the command or PARLEY_ENDPOINT names, and send "
    "`hello` before anything else.",
)
def hello_first(record: Record) -> Finding | None:
    for line in record.of_program():
        if line.kind != "hello":
            return failed(f"the first message is {line.kind or 'not legible'!r}", line.number)
        return None
    return failed("no message came at all")


@claim(
    "HELLO-VERSIONS",
    "The hello lists version 1.0.",
    "R-VER-2",
    right='`body.versions` is an array of texts and `"1.0"` is among them.',
)
def hello_versions(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        versions = line.body.get("versions")
        known = isinstance(versions, list) and "1.0" in versions
        return None if known else f"versions is {versions!r:.60}, which lacks '1.0'"

    return _some(record, "hello") or each(record.of_program("hello"), check)


@claim(
    "HELLO-WANTS",
    "The hello wants kinds of event that are defined only.",
    "R-LIFE-1",
    right="`wants` is absent, or lists kinds of the specification; a server refuses others.",
)
def hello_wants(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        wants = line.body.get("wants") or []
        strange = [kind for kind in wants if kind not in EVENT_KINDS]
        return f"{strange[0]!r:.40} is no kind of event" if strange else None

    return _some(record, "hello") or each(record.of_program("hello"), check)


@claim(
    "MSG-SHAPE",
    "Every message has the fields that its definition demands, of the types that it demands.",
    "R-ENV-1",
    right="Compare with the schema of the message in `schemas/`; unknown fields are ignored.",
)
def msg_shape(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        if line.message is None or line.message.get("v") != 1:
            return None
        try:
            read_client_message(line.message)
        except ProtocolError as error:
            # That a field of the envelope is missing is the business of other cases.
            if error.code == "message.invalid" and not (error.path or "").startswith("body."):
                return None
            return f"{line.kind}: {error}" if error.code == "message.invalid" else None
        return None

    return _some(record) or each(record.of_program(), check)


@claim(
    "ENV-V",
    "Every message has `v`, 1.",
    "R-ENV-1",
    right="The field `v` stands in the envelope of each message, `hello` too, as the number 1.",
)
def env_v(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        if line.message is None:
            return None
        version = line.message.get("v")
        right = is_number(version) and version == 1
        return None if right else f"v of {line.kind or 'a message'} is {version!r:.40}"

    return _some(record) or each(record.of_program(), check)


@claim(
    "ENV-TYPE-BODY",
    "Every message has a `type`, a text, and a `body`, a map.",
    "R-ENV-1",
    right="`body` is there even where it says nothing: an empty map.",
)
def env_type_body(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        if line.message is None:
            return None
        if not line.kind:
            return f"type is {line.message.get('type')!r:.40}"
        if not isinstance(line.message.get("body"), dict):
            return f"body of {line.kind} is {line.message.get('body')!r:.40}"
        return None

    return _some(record) or each(record.of_program(), check)


def _repeats(record: Record, field: str) -> Finding | None:
    welcomed: Any = None
    for line in record.lines:
        if line.sender == "kit" and line.kind == "welcome":
            welcomed = (line.message or {})[field]
        elif line.sender == "program" and line.message is not None and line.kind != "hello":
            given = line.message.get(field)
            if given != welcomed or isinstance(given, bool):
                return failed(
                    f"{field} of {line.kind or 'a message'} is {given!r:.40}, the welcome said "
                    f"{welcomed!r}",
                    line.number,
                )
    return _some(record, "ready")


@claim(
    "ENV-SESSION",
    "Every message but the hello names the session as the welcome did.",
    "R-ENV-2",
    right="`session` of the welcome, letter by letter.",
)
def env_session(record: Record) -> Finding | None:
    return _repeats(record, "session")


@claim(
    "ENV-EPOCH",
    "Every message but the hello names the epoch as the welcome did.",
    "R-ENV-2",
    right="`epoch` of the last welcome; after a resume it is another.",
)
def env_epoch(record: Record) -> Finding | None:
    return _repeats(record, "epoch")


def _answers(record: Record) -> Iterator[tuple[Line, int, int]]:
    """Yield each message with the outstanding seq and that of the server's last message."""
    outstanding = last = 0
    for line in record.lines:
        if line.sender == "kit" and line.message is not None:
            seq = line.message.get("seq")
            last = seq if isinstance(seq, int) else last
            if line.kind in OUTSTANDING:
                outstanding = last
        elif line.sender == "program" and line.message is not None:
            yield line, outstanding, last


@claim(
    "SEQ-RE",
    "`re` of `ready` and of each reply is the `seq` of what they answer.",
    "R-SEQ-1",
    right="`re` of `ready` is the seq of the welcome, that of a reply the seq of its request.",
)
def seq_re(record: Record) -> Finding | None:
    for line, outstanding, _ in _answers(record):
        given = (line.message or {}).get("re")
        if line.kind in {"ready", "decision.reply"} and given != outstanding:
            return failed(f"re of {line.kind} is {given!r:.40}, not {outstanding}", line.number)
    return _some(record, "ready")


@claim(
    "SEQ-ASIDE",
    "`re` of `ping`, `bye`, `state.request` and `progress` is that of the outstanding message or "
    "of the last one.",
    "R-SEQ-2",
    right="Either is right; anything else is refused.",
)
def seq_aside(record: Record) -> Finding | None:
    seen = False
    for line, outstanding, last in _answers(record):
        if line.kind in ASIDES:
            seen = True
            given = (line.message or {}).get("re")
            if given not in {outstanding, last}:
                return failed(f"re of {line.kind} is {given!r:.40}, not {outstanding}", line.number)
    return None if seen else not_applicable("the program sends none of these messages")


@claim(
    "SEQ-VERSION",
    "Each reply repeats the `state_version` of its request.",
    "R-SEQ-5",
    right="`body.state_version` of the request, unchanged, in `body.state_version` of the reply.",
)
def seq_version(record: Record) -> Finding | None:
    version: Any = None
    for line in record.lines:
        if line.sender == "kit" and line.kind == "decision.request":
            version = line.body.get("state_version")
        elif line.sender == "program" and line.kind == "decision.reply":
            given = line.body.get("state_version")
            if given != version or isinstance(given, bool):
                return failed(f"state_version is {given!r:.40}, not {version}", line.number)
    return _some(record, "decision.reply")


@claim(
    "ENC-ONE-MAP",
    "Each frame holds one map.",
    "R-ENC-1",
    right="One MessagePack map, or one JSON object; not an array, not two of them.",
)
def enc_one_map(record: Record) -> Finding | None:
    return _some(record) or without(record, "malformed") or without(record, "truncated")


@claim(
    "ENC-NOTHING-BEHIND",
    "Nothing stands behind the message in its frame.",
    "R-ENC-12",
    right="The frame ends where the map does; a line feed behind JSON text is borne.",
)
def enc_nothing_behind(record: Record) -> Finding | None:
    return _some(record) or without(record, "trailing")


@claim(
    "ENC-KEYS",
    "Keys are texts, and each stands once in its map.",
    "R-ENC-7",
    right="str, not numbers or bin; no key twice.",
)
def enc_keys(record: Record) -> Finding | None:
    return _some(record) or without(record, "key") or without(record, "duplicate")


@claim(
    "ENC-NO-BIN",
    "Neither bin nor an extension type is used.",
    "R-ENC-8",
    right="Texts as str; some libraries write bin unless they are told otherwise.",
)
def enc_no_bin(record: Record) -> Finding | None:
    return _some(record) or without(record, "type")


@claim(
    "ENC-TEXT",
    "Texts are valid UTF-8 without surrogates.",
    "R-ENC-9",
    right="Encode to UTF-8 before writing; Latin-1 is not UTF-8.",
)
def enc_text(record: Record) -> Finding | None:
    return _some(record) or without(record, "text")


@claim(
    "ENC-RANGE",
    "No integer lies beyond 2^53 - 1.",
    "R-ENC-10",
    right="Ids below 2^53; no pointers, hashes or random 64 bits.",
)
def enc_range(record: Record) -> Finding | None:
    return _some(record) or without(record, "range")


@claim(
    "ENC-FINITE",
    "No number is NaN or infinite.",
    "R-ENC-11",
    right="Leave a field out whose value is not known.",
)
def enc_finite(record: Record) -> Finding | None:
    return _some(record) or without(record, "finite")


@claim(
    "ENC-DIALECT",
    "All messages of the session are written as the hello was.",
    "R-ENC-3",
    right="MessagePack throughout, or JSON text throughout.",
)
def enc_dialect(record: Record) -> Finding | None:
    lines = list(record.of_program())
    if not lines:
        return failed("no message came at all")
    first = lines[0].frames[-1][:1] == b"{" if lines[0].frames else False
    return each(
        (line for line in lines if line.frames),
        lambda line: (
            None
            if (line.frames[-1][:1] == b"{") == first
            else "this message is in the other encoding than the hello"
        ),
    )


@claim(
    "TRA-FRAMES",
    "Each message is two frames: an empty one, then the message.",
    "R-TRA-6",
    "R-TRA-9",
    right="A DEALER sends the empty frame itself; a REQ socket puts it there.",
)
def tra_frames(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        if not line.envelope or line.envelope[-1] != b"":
            return "there is no empty frame before the message"
        if len(line.frames) != 1:
            return f"{len(line.frames)} frames stand behind the empty one"
        return None

    return _some(record) or each(record.of_program(), check)


@claim(
    "TRA-TURNS",
    "Nothing is sent while an earlier message waits for its answer.",
    "R-TRA-11",
    right="One message, one answer, in turn; no heartbeat between them.",
)
def tra_turns(record: Record) -> Finding | None:
    waiting = False
    for line in record.lines:
        if line.sender == "program":
            if waiting:
                return failed(f"{line.kind or 'a message'} came before its turn", line.number)
            waiting = True
        elif line.sender == "kit":
            waiting = False
    return _some(record)


@claim(
    "LIFE-READY",
    "The welcome is answered by `ready`, sooner or later.",
    "R-LIFE-1",
    right="Send `ready` when the dispatcher is prepared; simulated time begins then.",
)
def life_ready(record: Record) -> Finding | None:
    if record.first("welcome", "kit") is None:
        return failed(record.broke or "it did not come to a welcome")
    welcome = record.first("welcome", "kit")
    if record.first("ready") is None and welcome is not None:
        return failed(f"no ready came: {record.broke}", welcome.number)
    return None


@claim(
    "LIFE-TABLE",
    "Only messages are sent that are legal in the state of the session.",
    "R-LIFE-1",
    right="Follow the table of states in lifecycle.md.",
)
def life_table(record: Record) -> Finding | None:
    state = State.NEW
    for line in record.lines:
        if line.sender == "note" or line.message is None:
            continue
        if state is State.ENDED and line.kind == "hello":
            state = State.NEW
        role = Role.CLIENT if line.sender == "program" else Role.SERVER
        if line.sender == "kit" and line.kind == "error":
            state = State.ENDED if line.body.get("fatal") else _before(state)
            continue
        following = NEXT.get((state, role, line.kind))
        if following is not None:
            state = following
        elif line.sender == "program" and state is not State.ENDED and not _waits(state):
            return failed(
                f"{line.kind or 'this'!r} is not legal while the session is {state.value}; legal: "
                f"{', '.join(legal(state, Role.CLIENT)) or 'nothing'}",
                line.number,
            )
    return _some(record)


def _waits(state: State) -> bool:
    """Whether it is the server's turn: to speak then is the business of TRA-TURNS."""
    return not legal(state, Role.CLIENT)


def _before(state: State) -> State:
    """Return the state that a refused message leads back to."""
    return {State.GREETED: State.NEW, State.RUNNING: State.DECIDING}.get(state, state)


@claim(
    "LIFE-AFTER-END",
    "Nothing of a session is sent after its `session.end`.",
    "R-LIFE-6",
    right="Close the socket and exit; another hello would begin another session.",
)
def life_after_end(record: Record) -> Finding | None:
    over = False
    for line in record.lines:
        if line.sender == "kit" and line.kind == "session.end":
            over = True
        elif line.sender == "program" and over and line.kind != "hello":
            return failed(f"{line.kind or 'a message'!r} came after the session.end", line.number)
    return _some(record) if over else failed(f"the run did not come to its end: {record.broke}")


@claim(
    "LIFE-COMES-THROUGH",
    "A run without disturbance is played to its end.",
    "R-LIFE-1",
    "R-SEQ-1",
    right="Each request is answered by a reply until the `session.end`, and the program goes on "
    "after every answer.",
)
def life_comes_through(record: Record) -> Finding | None:
    return went_on(record)


@claim(
    "LIVE-EVERY-JOB",
    "Every job that the machine can hold comes to an end, by running or by being rejected.",
    "R-ASK-7",
    right="While anything is pending and the machine is free, start it or reject it: a run in "
    "which nothing more happens ends as stalled.",
    must=False,
)
def live_every_job(record: Record) -> Finding | None:
    return lively(record)


def lively(record: Record) -> Finding | None:
    """Find that no run was left with pending jobs."""
    reason = record.facts.get("reason")
    if record.broke or reason is None:
        return went_on(record) or failed("the run did not come to its end")
    if reason == "stalled":
        refused = record.facts.get("refused") or {}
        told = "".join(f", {count} refused as {code}" for code, count in refused.items())
        return failed(
            f"the run stalled with jobs pending; {record.facts['decided']} decisions{told}"
        )
    return None


@claim(
    "DEC-IDS",
    "The decisions of a reply have different ids.",
    "R-DEC-6",
    right="Number them, through the session or within the reply.",
    must=False,
)
def dec_ids(record: Record) -> Finding | None:
    seen = False
    for line in record.of_program("decision.reply"):
        ids = [one.get("id") for one in _decisions(line)]
        seen = seen or len(ids) > 1
        if len(set(map(repr, ids))) < len(ids):
            return failed(f"the ids are {ids}", line.number)
    return (
        None
        if seen
        else _some(record, "decision.reply")
        or not_applicable("no reply holds more than one decision")
    )


@claim(
    "DEAD-PROGRESS",
    "A reply that takes more than half of its deadline is preceded by `progress`.",
    "R-DEAD-4",
    right="Send `progress` before half of `deadline_ms` has passed; the answer gives more time.",
    must=False,
)
def dead_progress(record: Record) -> Finding | None:
    asked: Line | None = None
    for line in record.lines:
        if line.sender == "kit" and line.kind in {"decision.request", "progress.ack"}:
            asked = line
        elif line.sender == "program" and asked is not None:
            took = line.at_ms - asked.at_ms
            if took > scenes.DEADLINE_MS / 2:
                return failed(
                    f"{line.kind} came after {took} ms; the deadline is {scenes.DEADLINE_MS} ms",
                    line.number,
                )
            asked = asked if line.kind != "decision.reply" else None
    return _some(record, "decision.reply")


@claim(
    "SEC-TOKEN-HIDDEN",
    "The token of the session is not shown in what the program prints.",
    "R-SEC-6",
    right="A trace of messages masks `body.token` of the welcome.",
    profile="secure",
)
def sec_token_hidden(record: Record) -> Finding | None:
    for line in record.of_kit("welcome"):
        if str(line.body.get("token")) in record.output:
            return failed("the token stands in the output of the program", line.number)
    return _some(record, "ready")


@claim(
    "ALLOC-MERGED",
    "Spans are merged as far as possible.",
    "R-CONV-8",
    right="`[0, 3, 1]`, not `[0, 1, 1], [2, 3, 1]`.",
    profile="alloc",
    must=False,
)
def alloc_merged(record: Record) -> Finding | None:
    seen = False
    for line in record.of_program("decision.reply"):
        for decision in _decisions(line):
            for spans in decision.get("allocation") or ():
                seen = True
                for (_, last, chunks), (first, _, more) in pairwise(spans):
                    if last + 1 == first and chunks == more:
                        return failed(f"{spans} could be written with fewer spans", line.number)
    return None if seen else not_applicable("the program leaves it to the server to place jobs")


def _decisions(line: Line) -> list[dict[str, Any]]:
    wanted = line.body.get("decisions")
    return [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []


def _some(record: Record, *kinds: str) -> Finding | None:
    """Find that there is anything to judge."""
    if next(record.of_program(*kinds), None) is None:
        named = " or ".join(kinds) or "message"
        return failed(f"no {named} came{': ' if record.broke else ''}{record.broke}")
    return None


CASES = cases_in(globals())
