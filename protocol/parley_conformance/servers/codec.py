"""What a server must bear and refuse of bytes, fields and lengths."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from parley_conformance import wire
from parley_conformance.case import Case, cases_in
from parley_conformance.servers.hall import Caller, Hall
from parley_conformance.servers.probe import probe, refused, rejected, require
from parley_conformance.servers.settings import FULL
from parley_conformance.stage import NotForThis

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_conformance.dialogue import Line

PING = {"v": 1, "type": "ping", "body": {}}


def _refusals(
    identity: str,
    title: str,
    code: str,
    frames: Callable[[Caller], list[bytes]],
    *,
    right: str,
    profile: str = "core",
    requirements: tuple[str, ...] = ("R-ENC-16",),
) -> Case:
    """Return a case: each frame is refused with this code, and the session goes on."""

    def play(hall: Hall) -> None:
        for payload in frames(hall.call()):
            # In the encoding of the session: one that breaks two rules may get either code.
            caller = hall.call(json_text=payload[:1] == b"{")
            caller.welcomed()
            request = caller.expect(caller.ready(), "decision.request")
            answer = caller.ask_bytes(payload)
            refused(answer, code)
            _goes_on(caller, request)

    play.__doc__ = f"a session is opened, and a frame sent that is {code}; then the reply"
    return probe(identity, title, *requirements, right=right, profile=profile)(play)


def _goes_on(caller: Caller, request: Line) -> None:
    answer = caller.reply(request)
    require(
        answer.kind == "decision.request",
        f"the session does not go on: {answer.kind} {answer.body.get('code', '')}",
        answer,
    )


def _ping_with(field: bytes) -> Callable[[Caller], list[bytes]]:
    """Return a frame that would be a message, with a further pair in its map."""
    return lambda _: [b"\x82\xa4type\xa4ping" + field]


truncated = _refusals(
    "CODEC-TRUNCATED",
    "A frame that ends before its value does is refused as `encoding.truncated`.",
    "encoding.truncated",
    lambda _: [b"\x82\xa4type\xa4pi", b'{"type": "ping"', b"\xda\x00\x10abc"],
    right="In MessagePack as in JSON text; the session goes on.",
)
trailing = _refusals(
    "CODEC-TRAILING",
    "A frame in which something follows the value is refused as `encoding.trailing`.",
    "encoding.trailing",
    lambda _: [b"\x80\x00", b"hello, server", b'{"a": 1} {"b": 2}'],
    right="`hello, server` begins with the MessagePack integer 104.",
)
malformed = _refusals(
    "CODEC-MALFORMED",
    "A frame that holds no map is refused as `encoding.malformed`.",
    "encoding.malformed",
    lambda _: [b"\xc1", b"\x93\x01\x02\x03", b'{"a" 1}'],
    right="0xc1, an array, broken JSON text.",
)
types = _refusals(
    "CODEC-TYPE",
    "Values outside the profile are refused as `encoding.type`.",
    "encoding.type",
    lambda _: [
        b"\x82\xa4type\xa4ping\xa1x\xc4\x01a",
        b"\x82\xa4type\xa4ping\xa1x\xd6\xff\x00\x00\x00\x00",
        b"\x82\xa4type\xa4ping\xa1x\xcb" + struct.pack(">d", float("nan")),
        b"\x82\xa4type\xa4ping\xa1x\xcf" + struct.pack(">Q", 2**53),
        b"\x82\xa4type\xa4ping\xa1x\xa1\xff",
        b"\x82\xa4type\xa4ping\x01\x01",
        b'{"type":"ping","x":"\\ud800"}',
    ],
    right="bin, ext, NaN, integers beyond 2^53 - 1, text that is not UTF-8, keys that are none.",
)
duplicate = _refusals(
    "CODEC-DUPLICATE",
    "A key that stands twice in one map is refused as `encoding.duplicate_key`.",
    "encoding.duplicate_key",
    lambda _: [b"\x82\xa1a\x01\xa1a\x02", b'{"a":1,"a":2}'],
    right="Whichever of the two is meant, the sender is in the wrong.",
)
depth = _refusals(
    "LIMIT-DEPTH",
    "A message nested deeper than the limit is refused as `limit.depth`.",
    "limit.depth",
    lambda _: [b"\x82\xa4type\xa4ping\xa1x" + b"\x91" * 40 + b"\x01"],
    right="Maps and arrays within each other, the message included.",
    profile="limits",
    requirements=("R-ENC-16", "R-LIM-1"),
)
claimed = _refusals(
    "LIMIT-CLAIMED",
    "A header that claims what has not arrived is refused at once, at no cost.",
    "limit.length",
    lambda _: [b"\x82\xa4type\xa4ping\xa1x\xdd\xff\xff\xff\xff\x01"],
    right="An array of four thousand million items in a frame of 17 bytes.",
    profile="limits",
    requirements=("R-ENC-16", "R-ENC-17"),
)


@probe(
    "LIMIT-TEXT",
    "A text longer than the limit is refused as `limit.length`.",
    "R-LIM-1",
    "R-ENC-16",
    right="`string_bytes` of the welcome.",
    profile="limits",
)
def limit_text(hall: Hall) -> None:
    """A ping holds a text of one byte more than the welcome allows."""
    caller = hall.call()
    most = int(caller.welcomed().body["limits"]["string_bytes"])
    answer = caller.say("ping", {"note": "x" * (most + 1)})
    refused(answer, "limit.length")
    require(caller.say("ping", {}).kind == "pong", "the session does not go on")


@probe(
    "LIMIT-MESSAGE",
    "A message of more bytes than the limit is refused as `limit.message`.",
    "R-LIM-1",
    "R-ENC-16",
    right="`message_bytes` of the welcome.",
    profile="limits",
    weight=2,
)
def limit_message(hall: Hall) -> None:
    """A frame of one byte more than the welcome allows, up to 64 MiB."""
    caller = hall.call()
    most = int(caller.welcomed().body["limits"]["message_bytes"])
    if most > 2**26:
        raise NotForThis(f"messages of {most} bytes are taken")
    refused(caller.ask_bytes(b"\x81\xa1x\xc6" + bytes(most - 3)), "limit.message")
    require(caller.say("ping", {}).kind == "pong", "the session does not go on")


@probe(
    "LIMIT-CONTAINERS",
    "A message of more maps and arrays than the limit is refused as `limit.length`.",
    "R-LIM-4",
    right="`containers` of the welcome.",
    profile="limits",
    alone=True,
    weight=3,
)
def limit_containers(hall: Hall) -> None:
    """A ping holds empty arrays, in arrays of legal length, more than the welcome allows."""
    caller = hall.call()
    limits = caller.welcomed().body["limits"]
    items, most = int(limits["array_items"]), int(limits["containers"])
    if most > 4_000_000:
        raise NotForThis(f"{most} maps and arrays are taken")
    part = min(items, most // 2 + 1)
    arrays = most // part + 1
    body = b"".join(b"\xdd" + struct.pack(">I", part) + b"\x90" * part for _ in range(arrays))
    frame = b"\x82\xa4type\xa4ping\xa1x" + bytes([0x90 | arrays]) + body
    if arrays > 15 or len(frame) > int(limits["message_bytes"]):
        raise NotForThis("so many do not fit into one message")
    caller.send_bytes(frame)
    refused(caller.receive(30), "limit.length")
    require(caller.say("ping", {}).kind == "pong", "the session does not go on")


@probe(
    "LIMIT-DECISIONS",
    "A reply of more decisions than the limit is refused as a whole.",
    "R-LIM-5",
    right="`limit.decisions`; none of them is applied.",
    profile="limits",
    alone=True,
    weight=6,
)
def limit_decisions(hall: Hall) -> None:
    """A reply holds one decision more than the welcome allows, each a stop."""
    caller = hall.call()
    limits = caller.welcomed().body["limits"]
    request = caller.expect(caller.ready(), "decision.request")
    most = int(limits["decisions"])
    one = b"\x82\xa2id\x00\xa4kind\xa4stop"
    size = len(one) * (most + 1)
    if most >= int(limits["array_items"]):
        # The array itself would be too long: whatever comes of it, nothing may be applied.
        codes = {"limit.decisions", "limit.length"}
    else:
        codes = {"limit.decisions"}
    if size + 200 > int(limits["message_bytes"]):
        raise NotForThis("so many decisions do not fit into one message")
    message = caller.reply_message(request, [])
    frame = wire.packed(message)
    frame = frame.replace(
        b"\xa9decisions\x90", b"\xa9decisions\xdd" + struct.pack(">I", most + 1) + one * (most + 1)
    )
    caller.send_bytes(frame)
    answer = caller.receive(30)
    require(
        answer.kind == "error" and answer.body["code"] in codes,
        f"limit.decisions is due, {answer.kind} {answer.body.get('code', '')} came",
        answer,
    )
    answer = caller.reply(request)
    require(answer.kind == "decision.request", "the session does not go on", answer)
    require(not answer.body["outcomes"], "decisions of the refused reply were applied", answer)


@probe(
    "LIMIT-UNDECODABLE",
    "A session ends when as many messages as the limit could not be read.",
    "R-LIM-6",
    "R-ERR-6",
    right="The last of them is answered by a fatal `message.undecodable`.",
    profile="limits",
)
def limit_undecodable(hall: Hall) -> None:
    """As many broken frames as the welcome allows, and the last one is the end."""
    caller = hall.call()
    most = int(caller.welcomed().body["limits"]["undecodable"])
    for _ in range(min(most, 50) - 1):
        refused(caller.ask_bytes(b"\xc1"), "encoding.malformed")
    if most > 50:
        raise NotForThis(f"{most} such messages are borne")
    refused(caller.ask_bytes(b"\xc1"), "message.undecodable", fatal=True)


# ---------------------------------------------------------------------- what is to be borne


def _borne(
    identity: str,
    title: str,
    *requirements: str,
    spell: Callable[[dict[str, Any]], bytes],
    right: str,
    json_text: bool = False,
    profile: str = "core",
) -> Case:
    """Return a case: hello, ready and a reply in this spelling are taken."""

    def play(hall: Hall) -> None:
        caller = hall.call(json_text=json_text)
        caller.send_bytes(spell(caller.hello_message(capabilities={"submit": True})))
        caller.expect(caller.receive(10), "welcome")
        caller.send_bytes(spell(caller.message("ready", {})))
        request = caller.expect(caller.receive(), "decision.request")
        jobs = caller.next_request(request)
        start = {"id": 7, "kind": "start", "job": 0, "allocation": [[[0, 1, 1]]]}
        caller.send_bytes(spell(caller.reply_message(jobs, [start])))
        following = caller.expect(caller.receive(), "decision.request")
        one = following.body["outcomes"]
        require(
            len(one) == 1 and one[0]["id"] == 7 and one[0]["status"] == "applied",
            f"the outcomes are {one}",
            following,
        )

    play.__doc__ = "a session is opened and a job started, all in this spelling"
    return probe(identity, title, *requirements, right=right, profile=profile)(play)


widths = _borne(
    "CODEC-WIDTHS",
    "Integers and lengths are taken in every width.",
    "R-ENC-13",
    spell=lambda message: wire.packed(message, wide=True),
    right="1 as uint 64, texts as str 32, maps as map 32.",
)
floats = _borne(
    "CODEC-FLOATS",
    "A float without a fraction is taken for the integer of that value.",
    "R-CONV-3",
    spell=lambda message: wire.packed(wire.with_floats(message)),
    right="`re` 4.0 is 4.",
)
key_order = _borne(
    "CODEC-KEY-ORDER",
    "Messages are taken whatever the order of their keys.",
    "R-ENC-14",
    spell=lambda message: wire.packed(wire.backwards(message)),
    right="`body` may come before `type`.",
)
excess = _borne(
    "CODEC-UNKNOWN-FIELDS",
    "Fields that are not known are ignored, at any depth.",
    "R-CONV-2",
    spell=lambda message: wire.packed(wire.with_excess(message, frozenset({"per_chunk"}))),
    right="In the envelope, the body, and in each decision.",
)
json_spellings = _borne(
    "JSON-ODD",
    "JSON text is taken in every spelling that RFC 8259 allows.",
    "R-ENC-15",
    spell=lambda message: wire.spelled_oddly(message).encode(),
    right="White space, escapes, exponents.",
    json_text=True,
    profile="json",
)


@probe(
    "CODEC-NIL",
    "An optional field that is nil is taken for one that is absent.",
    "R-CONV-1",
    right="`ask`, `wants`, `capabilities`, `resume` and `scenario` of the hello; `allocation`.",
)
def codec_nil(hall: Hall) -> None:
    """Every optional field of a hello and of a start is nil."""
    caller = hall.call()
    message = caller.hello_message()
    body = {**dict.fromkeys(("ask", "wants", "capabilities", "resume")), **message["body"]}
    body["client"] = {**body["client"], "language": None}
    caller.send({**message, "body": body})
    welcome = caller.expect(caller.receive(10), "welcome")
    require(welcome.body["ask"] == "always", "ask is not the default", welcome)
    jobs = caller.next_request(caller.expect(caller.ready(), "decision.request"))
    answer = caller.next_request(jobs, {"kind": "start", "job": 0, "allocation": None})
    one = answer.body["outcomes"][0]
    require(one["status"] == "applied" and one.get("allocation"), f"the outcome is {one}", answer)


@probe(
    "CODEC-NO-NUMBER",
    "Neither a boolean nor a text nor nil is taken for a number.",
    "R-CONV-4",
    right='`re: true` and `state_version: "4"` are `message.invalid`.',
)
def codec_no_number(hall: Hall) -> None:
    """A reply has true, a text, and nil where numbers are due."""
    caller, request = hall.open()
    message = caller.reply_message(request, [])
    caller.send({**message, "re": True})
    refused(caller.receive(), "message.invalid")
    caller.send({**message, "body": {**message["body"], "state_version": "0"}})
    refused(caller.receive(), "message.invalid")
    _goes_on(caller, request)
    caller, request = hall.open()
    caller.send({**message, **caller.session, "body": {**message["body"], "state_version": None}})
    refused(caller.receive(), "message.invalid")


@probe(
    "CODEC-AMOUNTS",
    "A whole number is taken where an amount is due.",
    "R-CONV-5",
    setting=FULL,
    right="`per_chunk` 1 and 1.0 are the same.",
)
def codec_amounts(hall: Hall) -> None:
    """A job is submitted that asks for 1 core of each chunk, and one that asks for 1.0."""
    caller, request = hall.open(capabilities={"submit": True})
    if not caller.granted.get("submit"):
        raise NotForThis("the server does not grant submit")
    decisions = [
        {
            "kind": "submit",
            "job": {
                "runtime_us": 1_000_000,
                "request": [{"chunks": 1, "per_chunk": {"core": one}, "exclusive": False}],
            },
        }
        for one in (1, 1.0)
    ]
    answer = caller.next_request(request, *decisions)
    for one in answer.body["outcomes"]:
        require(one["status"] == "applied", f"the outcome is {one}", answer)


@probe(
    "CODEC-FIELDS",
    "A message with a missing field, or one of another type, is refused with its path.",
    "R-CONV-6",
    "R-ERR-3",
    right="`message.invalid` with `path`, such as `body.decisions.0.job`.",
)
def codec_fields(hall: Hall) -> None:
    """A reply lacks `state_version`; then a decision has a text for its job."""
    caller, request = hall.open()
    message = caller.reply_message(request, [])
    caller.send({**message, "body": {"decisions": []}})
    answer = caller.receive()
    refused(answer, "message.invalid")
    path = answer.body.get("path")
    require(path == "body.state_version", f"path is {path!r}", answer)
    caller.send(caller.reply_message(request, [{"kind": "start", "job": "one"}]))
    answer = caller.receive()
    refused(answer, "message.invalid")
    path = answer.body.get("path")
    require(path == "body.decisions.0.job", f"path is {path!r}", answer)
    _goes_on(caller, request)


@probe(
    "ERR-ONE-LINE",
    "The `message` of an error is one line of at most 500 characters, its code in the registry.",
    "R-ERR-1",
    "R-ERR-2",
    right="Whatever the peer has sent is shortened and made printable.",
)
def err_one_line(hall: Hall) -> None:
    """A type of message is sent that is long and holds line feeds."""
    from parley_protocol.errors import MESSAGE_CODES  # noqa: PLC0415 - for this once

    caller, _ = hall.open()
    answer = caller.say("what\nis this " * 100, {})
    require(answer.kind == "error", f"an error is due, {answer.kind} came", answer)
    text = answer.body["message"]
    require("\n" not in text and len(text) <= 500, f"the message is {text!r:.80}", answer)
    code = answer.body["code"]
    require(code in MESSAGE_CODES, f"the code {code!r:.40} is not in the registry", answer)


# ---------------------------------------------------------------------- JSON text


@probe(
    "JSON-OTHER",
    "A message in the other encoding than the hello is refused as `encoding.dialect`.",
    "R-ENC-5",
    right="MessagePack in a session of JSON text, and the reverse; the session goes on.",
    profile="json",
)
def json_other(hall: Hall) -> None:
    """A session in each encoding gets a ping in the other one."""
    for json_text in (False, True):
        caller = hall.call("json" if json_text else "packed", json_text=json_text)
        caller.welcomed()
        message = caller.message("ping", {})
        caller.send_bytes(wire.plainly(message, json_text=not json_text))
        refused(caller.receive(), "encoding.dialect")
        require(caller.say("ping", {}).kind == "pong", "the session does not go on")


@probe(
    "JSON-STRANGER",
    "Somebody without a session is answered in the encoding of the message.",
    "R-ENC-6",
    right="An `error` in JSON text for a ping in JSON text.",
    profile="json",
)
def json_stranger(hall: Hall) -> None:
    """A ping without a session, once in each encoding."""
    for json_text in (False, True):
        caller = hall.call("json" if json_text else "packed", json_text=json_text)
        ping = {**PING, "session": "nobody", "epoch": 1, "re": 1}
        answer = caller.ask_bytes(wire.plainly(ping, json_text=json_text))
        require(answer.kind == "error", f"an error is due, {answer.kind} came", answer)
        given = answer.frames[-1][:1] == b"{"
        require(given == json_text, "the answer is in the other encoding", answer)


# ---------------------------------------------------------------------- frames


@probe(
    "FRAMES-ENVELOPE",
    "The frames before a message come back as they were, up to the first empty one.",
    "R-TRA-7",
    right="A REQ socket with correlation puts a number there, and takes nothing without it.",
)
def frames_envelope(hall: Hall) -> None:
    """A hello has two frames before the empty one."""
    caller = hall.call()
    payload = wire.packed(caller.hello_message())
    caller.send_frames([b"one", b"two", b"", payload])
    answer = caller.receive(10)
    given = answer.envelope
    require(given == (b"one", b"two", b""), f"the envelope is {given!r}", answer)


@probe(
    "FRAMES-COUNT",
    "What has not exactly one frame behind the empty one is answered as `encoding.malformed`.",
    "R-TRA-8",
    right="Two frames are not a message, and neither is none.",
)
def frames_count(hall: Hall) -> None:
    """A ping in two frames."""
    caller = hall.call()
    caller.welcomed()
    ping = wire.packed(caller.message("ping", {}))
    caller.send_frames([b"", ping, ping])
    refused(caller.receive(), "encoding.malformed")
    require(caller.say("ping", {}).kind == "pong", "the session does not go on")


@probe(
    "COMPAT-DECISION",
    "A decision of a kind that is not known is rejected by itself.",
    "R-DEC-5",
    "R-DEC-4",
    right="`decision.unsupported`; the decisions beside it are applied.",
)
def compat_decision(hall: Hall) -> None:
    """A reply holds a decision of a later version between two starts."""
    caller, request = hall.open()
    jobs = caller.next_request(request)
    answer = caller.next_request(
        jobs,
        {"kind": "start", "job": 0},
        {"kind": "resize", "job": 0, "chunks": 1},
        {"kind": "start", "job": 1},
    )
    rejected(answer, "decision.unsupported", 1)
    statuses = [one["status"] for one in answer.body["outcomes"]]
    require(statuses == ["applied", "rejected", "applied"], f"the outcomes are {statuses}", answer)


@probe(
    "COMPAT-VERSIONS",
    "Versions that are not known may stand beside one that is.",
    "R-HELLO-1",
    "R-VER-1",
    right="The welcome chooses `1.0`.",
)
def compat_versions(hall: Hall) -> None:
    """A hello lists a version of the future before `1.0`."""
    welcome = hall.call().welcomed(versions=["7.3", "1.0", "no version"])
    given = welcome.body["version"]
    require(given == "1.0", f"version is {given!r}", welcome)


CASES = cases_in(globals())
