"""Vectors for whoever tests without Python: frames with what is to be made of them, transcripts."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from parley_conformance import wire
from parley_conformance.digest import digest_of, digest_text
from parley_conformance.dispatchers.scenes import FAILING, PLAIN, SHARED
from parley_conformance.machine import Machine, Plan
from parley_conformance.stage import LIMITS
from parley_protocol.examples import SESSION
from parley_protocol.messages import PROTOCOL_VERSION
from parley_protocol.transcript import TranscriptWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from parley_protocol.transcript import Direction

PING: Mapping[str, Any] = {
    "v": 1,
    "type": "ping",
    "session": "1",
    "epoch": 2,
    "re": 6,
    "body": {},
}

ABOUT = {
    "valid": "every receiver takes it, for the value beside it",
    "invalid": "every receiver refuses it; a server with one of the codes",
    "acceptable": "no sender may write it; a server refuses it with one of the codes, a "
    "dispatcher may take it",
}


def codec_vectors() -> dict[str, Any]:
    """Return the vectors of the codec, as they are written to `vectors/codec.json`."""
    vectors = [*_valid(), *_invalid(), *_acceptable()]
    return {"vectors": 1, "protocol": PROTOCOL_VERSION, "verdicts": ABOUT, "frames": vectors}


MOST = 2**53 - 1
"""The greatest integer of the wire."""


def digest_vectors() -> dict[str, Any]:
    """Return states with their digests, as they are written to `vectors/digest.json`."""
    return {
        "vectors": 1,
        "protocol": PROTOCOL_VERSION,
        "states": [
            {
                "name": name,
                "about": about,
                "platform": _platform(groups),
                "now_us": now_us,
                "state": state,
                "text": digest_text(now_us, state),
                "digest": digest_of(now_us, state),
            }
            for name, about, groups, now_us, state in _states()
        ],
    }


_Groups: TypeAlias = "Sequence[tuple[int, Mapping[str, int]]]"


def _platform(groups: _Groups) -> dict[str, Any]:
    described, first = [], 0
    for count, capacity in groups:
        last = first + count - 1
        described.append({"name": "g", "first": first, "last": last, "capacity": dict(capacity)})
        first = last + 1
    return {"node_count": first, "groups": described}


def _states() -> Iterator[tuple[str, str, _Groups, int, dict[str, Any]]]:
    cores: _Groups = [(13, {"core": 2})]
    yield (
        *("empty", "nothing is pending, nothing runs, at time 0", cores, 0),
        _state([[0, 12, {"core": 2}, "up"]]),
    )
    yield (
        *("text", "the example of the text", [(4, {"core": 2, "gpu": 0}), (9, {"core": 2})]),
        7_200_000_000,
        _state(
            [
                *([0, 3, {"core": 1, "gpu": 0}, "up"], [4, 4, {"core": 0, "gpu": 0}, "down"]),
                *([5, 5, {"core": 2, "gpu": 0}, "up"], [6, 7, {"core": 0, "gpu": 0}, "down"]),
                *([8, 8, {"core": 2, "gpu": 0}, "up"], [9, 9, {"core": 0, "gpu": 0}, "up"]),
                [10, 12, {"core": 2, "gpu": 0}, "up"],
            ],
            pending=[_job(12, 1)],
            held=[12],
            running=[_running(_job(7, 6), 3_600_000_000, [[0, 3, 1], [9, 9, 2]])],
            timers=[{"timer": 1, "at_us": 9_000_000_000}],
        ),
    )
    yield (
        *("numbers", "by number, not as text: 9 before 10", cores, 10),
        _state(
            [[0, 12, {"core": 2}, "up"]],
            pending=[_job(10, 1), _job(9, 1), _job(2**52, 1)],
            held=[10, 9],
            timers=[{"timer": 9, "at_us": 12}, {"timer": 10, "at_us": 11}],
        ),
    )
    whole = [_running(_job(0, 2, exclusive=True), 0, [[0, 1, 1]])]
    yield (
        *("whole", "nothing is free on nodes that are taken whole", cores, 5),
        _state([[0, 1, {"core": 0}, "up"], [2, 12, {"core": 2}, "up"]], running=whole),
    )
    nothing = [_running(_job(0, 3, {"core": 0}), 0, [[0, 0, 3]])]
    yield (
        *("nothing", "chunks that ask for 0 of what there is take nothing", cores, 5),
        _state([[0, 12, {"core": 2}, "up"]], running=nothing),
    )
    yield (
        *(
            "sum",
            "what is free in all is more than a double or 64 bits hold",
        ),
        *([(4096, {"memory": MOST})], 0),
        _state([[0, 4095, {"memory": MOST}, "up"]]),
    )
    # By code points U+FF5E comes first; by the halves of UTF-16 it comes last.
    names = {"\uff5e": 1, "\U0001f9ee": 2, "Z": 3, "a": 4, "\u00e9": 5}
    yield (
        *("names", "names of resources by code points, in UTF-8", [(1, names)], 0),
        _state([[0, 0, names, "up"]]),
    )


def _state(nodes: Sequence[Any], **more: Any) -> dict[str, Any]:
    empty = {"pending": [], "held": [], "running": [], "timers": [], "exhausted": False}
    return {**empty, "nodes": nodes, **more}


def _job(
    number: int, chunks: int, per_chunk: Mapping[str, int] | None = None, *, exclusive: bool = False
) -> dict[str, Any]:
    amounts = {"core": 1} if per_chunk is None else dict(per_chunk)
    group = {"chunks": chunks, "per_chunk": amounts, "exclusive": exclusive}
    return {"job": number, "name": str(number), "submit_us": 0, "request": [group]}


def _running(job: Mapping[str, Any], start_us: int, spans: Sequence[Any]) -> dict[str, Any]:
    return {"job": job, "start_us": start_us, "allocation": [spans]}


def _valid() -> Iterator[dict[str, Any]]:
    text = json.dumps(PING).encode()
    for name, frame, about in (
        ("plain", wire.packed(PING), "as most libraries write it"),
        ("wide", wire.packed(PING, wide=True), "every length and integer in its longest form"),
        ("floats", wire.packed(wire.with_floats(PING)), "integers as floats"),
        ("float32", wire.packed(PING).replace(b"\xa2re\x06", b"\xa2re\xca\x40\xc0\x00\x00"),
         "a float of 32 bits"),
        ("backwards", wire.packed(wire.backwards(PING)), "keys in reverse order"),
        ("unknown-fields", wire.packed({**PING, "x": [1, {"y": None}]}), "a field to be ignored"),
        ("nil", wire.packed({**PING, "body": {"note": None}}), "nil for absent"),
        ("largest", wire.packed({**PING, "re": 2**53 - 1}), "2^53 - 1"),
        ("least", wire.packed({**PING, "x": -(2**53 - 1)}), "-(2^53 - 1), in an unknown field"),
        ("unicode", wire.packed({**PING, "session": "\u4e2d\U0001f9ee"}), "text in UTF-8"),
        ("deepest", wire.packed({**PING, "x": _nested(31)}), "depth 32, the message included"),
        ("json", text, "JSON text"),
        ("json-odd", wire.spelled_oddly(PING).encode(), "white space and escapes"),
        ("json-exponent", text.replace(b'"re": 6', b'"re": 0.6e+1'), "6 as 0.6e+1"),
        ("json-line-feed", text + b"\n", "white space behind JSON text"),
    ):  # fmt: skip
        value, _ = wire.read(frame)
        yield {"name": name, "about": about, "verdict": "valid", "hex": frame.hex(), "value": value}


def _invalid() -> Iterator[dict[str, Any]]:
    ping = wire.packed(PING)
    for name, frame, code, about in (
        ("nothing", b"", "encoding.truncated", "an empty frame"),
        ("cut-off", ping[:-1], "encoding.truncated", "the last byte is missing"),
        ("text", b"hello, server", "encoding.trailing", "0x68 is the integer 104"),
        ("trailing", ping + b"\x00", "encoding.trailing", "a byte behind the message"),
        ("two", ping + ping, "encoding.trailing", "two messages in a frame"),
        ("never-used", b"\xc1", "encoding.malformed", "0xc1 begins no value"),
        ("array", b"\x92\x01\x02", "encoding.malformed", "an array"),
        ("number", b"\x07", "encoding.malformed", "a number"),
        ("bin", _with(b"\xc4\x01a"), "encoding.type", "bin 8"),
        ("ext", _with(b"\xd4\x05a"), "encoding.type", "an extension type"),
        ("timestamp", _with(b"\xd6\xff" + bytes(4)), "encoding.type", "a timestamp"),
        ("nan", _with(b"\xcb" + struct.pack(">d", float("nan"))), "encoding.type", "NaN"),
        ("infinity", _with(b"\xcb" + struct.pack(">d", float("inf"))), "encoding.type", "infinity"),
        ("beyond", _with(b"\xcf" + struct.pack(">Q", 2**53)), "encoding.type", "2^53"),
        ("far-beyond", _with(b"\xd3" + struct.pack(">q", -(2**53))), "encoding.type", "-(2^53)"),
        ("latin-1", _with(b"\xa1\xe9"), "encoding.type", "text that is not UTF-8"),
        ("surrogate", _with(b"\xa3\xed\xa0\x80"), "encoding.type", "half a surrogate pair"),
        ("claimed", _with(b"\xdd\xff\xff\xff\xff\x01"), "limit.length", "a header that lies"),
        ("json-cut-off", b'{"v":1', "encoding.truncated", "JSON text without its end"),
        ("json-trailing", b'{"v":1}{"v":1}', "encoding.trailing", "two objects"),
        ("json-malformed", b'{"v" 1}', "encoding.malformed", "no colon"),
        ("json-nan", b'{"v":NaN}', "encoding.type", "NaN is no JSON"),
        ("json-surrogate", b'{"v":"\\ud800"}', "encoding.type", "half a surrogate pair"),
        ("json-latin-1", b'{"v":"\xe9"}', "encoding.type", "text that is not UTF-8"),
    ):  # fmt: skip
        yield _refused(name, about, "invalid", frame, code)


def _acceptable() -> Iterator[dict[str, Any]]:
    for name, frame, code, about in (
        ("twice", b"\x82\xa1v\x01\xa1v\x02", "encoding.duplicate_key", "a key twice"),
        ("json-twice", b'{"v":1,"v":2}', "encoding.duplicate_key", "a key twice, in JSON text"),
        ("number-key", b"\x81\x01\x01", "encoding.type", "a number as a key"),
        ("too-deep", wire.packed({**PING, "x": _nested(40)}), "limit.depth", "depth 41"),
    ):
        yield _refused(name, about, "acceptable", frame, code)


def _refused(name: str, about: str, verdict: str, frame: bytes, code: str) -> dict[str, Any]:
    told = {"name": name, "about": about, "verdict": verdict, "hex": frame.hex()}
    return {**told, "codes": [code]}


def _with(field: bytes) -> bytes:
    """Return a ping with a further field, in these bytes."""
    return b"\x87" + wire.packed(PING)[1:] + b"\xa1x" + field


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# ---------------------------------------------------------------------- transcripts


def transcripts() -> dict[str, str]:
    """Return recorded dialogues by their names: first come, first served, on the kit's machines."""
    return {
        "tiny": _lines("tiny", [dict(message) for message in SESSION], json_text=False),
        "plain": _lines("plain", _dialogue(PLAIN, "plain"), json_text=False),
        "shared": _lines("shared", _dialogue(SHARED, "shared", snapshot=True), json_text=False),
        "failing": _lines("failing", _dialogue(FAILING, "failing"), json_text=True),
    }


def _lines(name: str, messages: Sequence[Mapping[str, Any]], *, json_text: bool) -> str:
    writer = TranscriptWriter()
    software = {"name": "parley-conformance", "version": PROTOCOL_VERSION}
    lines = [writer.header(scenario={"name": name, "digest": "0" * 64}, software=software)]
    now = 0
    for message in messages:
        direction: Direction = ">" if "seq" in message else "<"
        now = message["body"].get("now_us", now)
        frame = wire.plainly(message, json_text=json_text)
        lines.append(writer.message(direction, frame, message, now_us=now))
    return "".join([*lines, writer.footer()])


def _dialogue(plan: Plan, name: str, *, snapshot: bool = False) -> list[dict[str, Any]]:
    machine = Machine(plan, snapshot=snapshot)
    state = "snapshot" if snapshot else "events"
    client = {"name": "first-come", "version": "1"}
    asked = {"versions": [PROTOCOL_VERSION], "client": client, "capabilities": {"state": state}}
    envelope = {"v": 1, "session": "1", "epoch": 1}
    messages: list[dict[str, Any]] = [
        {"v": 1, "type": "hello", "body": asked},
        {**envelope, "type": "welcome", "seq": 1, "body": _welcome(plan, name, state)},
        {**envelope, "type": "ready", "re": 1, "body": {}},
    ]
    body, seq = machine.first(), 2
    while not machine.reason:
        messages.append({**envelope, "type": "decision.request", "seq": seq, "body": body})
        decisions = _first_come(machine)
        reply = {"decisions": decisions, "state_version": body["state_version"]}
        messages.append({**envelope, "type": "decision.reply", "re": seq, "body": reply})
        body, seq = machine.answer(decisions), seq + 1
    messages.append({**envelope, "type": "session.end", "seq": seq, "body": body})
    return messages


def _first_come(machine: Machine) -> list[dict[str, Any]]:
    decisions: list[dict[str, Any]] = []
    for job in machine.state()["pending"]:
        spans = machine.places_for(job["job"], decisions)
        if spans is None:
            break
        start = {"kind": "start", "job": job["job"], "allocation": [spans]}
        decisions.append({"id": len(decisions), **start})
    return decisions


def _welcome(plan: Plan, name: str, state: str) -> dict[str, Any]:
    return {
        "version": PROTOCOL_VERSION,
        "server": {"name": "parley-conformance", "version": "1"},
        "granted": {"state": state, "decisions": "each", "submit": False},
        "ask": "always",
        "wants": [
            *("job.ended", "job.started", "job.submitted", "node.down", "node.up"),
            *("session.start", "timer.fired", "workload.exhausted"),
        ],
        "token": "",
        "resumed": False,
        "seed": 0,
        "limits": dict(LIMITS),
        "policy": {
            "on_reject": "report",
            "reasks": 3,
            "on_timeout": "fail",
            "on_disconnect": "fail",
            "reconnect_ms": 60000,
            "latency_model": "zero",
            "on_node_down": plan.on_node_down,
        },
        "scenario": {
            "name": name,
            "digest": "0" * 64,
            "rules": {
                "request": "nodes",
                "select": "all",
                "on_overrun": plan.on_overrun,
                "estimate": "trace",
                "estimate_missing": "runtime",
            },
        },
        "platform": plan.platform,
    }
