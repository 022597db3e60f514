"""What cannot be decoded, or is no message: one answer with the right code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from parley_conformance import ScriptedDispatcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

from tests.payloads import UNDECODABLE
from tests.serving import (
    SECOND,
    SNAPSHOT,
    assert_completes,
    assert_refused,
    decide,
)

# ---------------------------------------------------------------------- what cannot be decoded


undecodable = pytest.mark.parametrize(
    ("code", "payload"), UNDECODABLE.values(), ids=UNDECODABLE.keys()
)


@undecodable
def test_what_cannot_be_decoded_before_hello_is_refused_and_a_hello_still_taken(
    peer, code, payload
):
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, code)
    assert_completes(peer, peer.open(**SNAPSHOT))


@undecodable
def test_what_cannot_be_decoded_instead_of_ready_is_refused_and_the_session_survives(
    peer, code, payload
):
    welcome = peer.hello(**SNAPSHOT)
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, code)
    assert_completes(peer, peer.say("ready", {}, re=welcome["seq"]))


@undecodable
def test_what_cannot_be_decoded_instead_of_a_reply_is_refused_and_the_session_survives(
    peer, code, payload
):
    request = peer.open(**SNAPSHOT)
    peer.send_bytes(payload)
    answer = peer.receive()

    assert_refused(answer, code)
    assert_completes(peer, request)


def test_a_message_as_deep_as_is_allowed_is_taken(peer):
    hello = {"versions": ["1.0"], "client": {"name": "deep", "version": "0"}}
    # The envelope and the body are two maps around the unknown field.
    payload = msgpack.packb({"v": 1, "type": "hello", "body": {**hello, "x": 0}})
    peer.send_bytes(payload[:-1] + b"\x91" * 29 + b"\x90")
    answer = peer.receive()

    assert answer["type"] == "welcome"


def test_a_message_one_deeper_than_is_allowed_is_refused(peer):
    hello = {"versions": ["1.0"], "client": {"name": "deep", "version": "0"}}
    payload = msgpack.packb({"v": 1, "type": "hello", "body": {**hello, "x": 0}})
    peer.send_bytes(payload[:-1] + b"\x91" * 30 + b"\x90")
    answer = peer.receive()

    assert_refused(answer, "limit.depth")


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([b"\x80"], id="no-empty-frame"),
        pytest.param([b"a", b"b", b"c"], id="three-frames"),
        pytest.param([b"", b"\x80", b"\x80"], id="two-payloads"),
        pytest.param([b""], id="no-payload"),
        pytest.param([b"", b"", b"\x80"], id="two-empty-frames"),
    ],
)
def test_frames_in_another_order_are_refused_and_the_session_survives(peer, frames):
    request = peer.open(**SNAPSHOT)
    peer.send_frames(frames)
    answer = peer.receive()

    assert_refused(answer, "encoding.malformed")
    assert_completes(peer, request)


def test_three_undecodable_messages_end_the_session(server, lone):
    lone.open(**SNAPSHOT)
    answers = []
    for payload in (b"\xc1", b"\x07", b"\xde\xad"):
        lone.send_bytes(payload)
        answers.append(lone.receive())

    assert_refused(answers[0], "encoding.malformed")
    assert_refused(answers[1], "encoding.malformed")
    assert_refused(answers[2], "message.undecodable", fatal=True)
    assert server.reason() == "protocol_error"


def test_three_undecodable_messages_before_hello_are_a_fatal_error(peer):
    for _ in range(3):
        peer.send_bytes(b"\xc1")
        answer = peer.receive()

    assert_refused(answer, "message.undecodable", fatal=True)


def test_undecodable_messages_are_counted_whatever_stands_between_them(server, lone):
    request = lone.open(**SNAPSHOT)
    for _ in range(2):
        lone.send_bytes(b"\xc1")
        lone.receive()
        pong = lone.say("ping", {})
        request = lone.reply(request, decide(request))
    lone.send_bytes(b"\xc1")
    answer = lone.receive()

    assert pong["type"] == "pong"
    assert_refused(answer, "message.undecodable", fatal=True)
    assert server.reason() == "protocol_error"


# ---------------------------------------------------------------------- what is no message

MISSING = object()

FAULTS = [
    (("v",), MISSING, "v"),
    (("v",), 2, "v"),
    (("v",), True, "v"),
    (("session",), MISSING, "session"),
    (("session",), 7, "session"),
    (("epoch",), MISSING, "epoch"),
    (("epoch",), "1", "epoch"),
    (("epoch",), True, "epoch"),
    (("re",), MISSING, "re"),
    (("re",), True, "re"),
    (("re",), -1, "re"),
    (("re",), 1.5, "re"),
    (("type",), MISSING, "type"),
    (("type",), 7, "type"),
    (("type",), ["hello"], "type"),
    (("body",), MISSING, "body"),
    (("body",), None, "body"),
    (("body",), [], "body"),
    (("body", "decisions"), MISSING, "body.decisions"),
    (("body", "decisions"), None, "body.decisions"),
    (("body", "decisions"), {}, "body.decisions"),
    (("body", "decisions", 0), 7, "body.decisions.0"),
    (("body", "decisions", 1, "id"), MISSING, "body.decisions.1.id"),
    (("body", "decisions", 1, "id"), True, "body.decisions.1.id"),
    (("body", "decisions", 1, "id"), -1, "body.decisions.1.id"),
    (("body", "decisions", 0, "kind"), MISSING, "body.decisions.0"),
    (("body", "decisions", 0, "kind"), 7, "body.decisions.0"),
    (("body", "decisions", 0, "job"), MISSING, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), True, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), "0", "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), 0.5, "body.decisions.0.job"),
    (("body", "decisions", 0, "job"), None, "body.decisions.0.job"),
    (("body", "decisions", 0, "allocation", 0, 0), [0, 1], "body.decisions.0.allocation.0.0.2"),
    (("body", "decisions", 0, "allocation", 0, 0, 2), True, "body.decisions.0.allocation.0.0.2"),
    (("body", "decisions", 0, "allocation"), "0-1", "body.decisions.0.allocation"),
    (("body", "decisions", 1, "at_us"), MISSING, "body.decisions.1.at_us"),
    (("body", "decisions", 1, "timer"), False, "body.decisions.1.timer"),
    (("body", "state_version"), MISSING, "body.state_version"),
    (("body", "state_version"), True, "body.state_version"),
    (("body", "state_version"), "1", "body.state_version"),
    (("body", "compute_us"), True, "body.compute_us"),
    (("body", "compute_us"), -5, "body.compute_us"),
]


def full_reply(peer: ScriptedDispatcher, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply in which every field stands."""
    decisions = [
        {"id": 0, "kind": "start", "job": 0, "allocation": [[[0, 1, 1]]]},
        {"id": 1, "kind": "wake", "timer": 3, "at_us": 7 * SECOND},
    ]
    body = {
        "decisions": decisions,
        "state_version": request["body"]["state_version"],
        "compute_us": 1,
    }
    return {"v": 1, "type": "decision.reply", **peer.session, "re": request["seq"], "body": body}


def changed(value: Any, path: Sequence[Any], new: object) -> Any:
    """Return a copy of nested maps and arrays with one place in it changed."""
    copy = value.copy()
    if len(path) > 1:
        copy[path[0]] = changed(value[path[0]], path[1:], new)
    elif new is MISSING:
        del copy[path[0]]
    else:
        copy[path[0]] = new
    return copy


@pytest.mark.parametrize(
    ("where", "new", "path"),
    [
        pytest.param(*fault, id=f"{'.'.join(map(str, fault[0]))}-{type(fault[1]).__name__}-{index}")
        for index, fault in enumerate(FAULTS)
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named_and_the_session_survives(peer, where, new, path):
    request = peer.reply(peer.open(**SNAPSHOT))
    peer.send(changed(full_reply(peer, request), where, new))
    answer = peer.receive()

    assert_refused(answer, "message.invalid", path=path)
    assert_completes(peer, request)


def as_floats(value: Any) -> Any:
    """Return nested data with each integer as a float, as JavaScript may send it."""
    match value:
        case bool():
            return value
        case int():
            return float(value)
        case list():
            return [as_floats(item) for item in value]
        case dict():
            return {key: as_floats(item) for key, item in value.items()}
        case _:
            return value


def test_a_float_without_fraction_is_taken_wherever_an_integer_is_due(peer):
    request = peer.reply(peer.open(**SNAPSHOT))
    peer.send(as_floats(full_reply(peer, request)))
    answer = peer.receive()

    assert answer["type"] == "decision.request"
    assert [outcome["status"] for outcome in answer["body"]["outcomes"]] == ["applied"] * 2
    assert_completes(peer, answer)


def test_fields_that_are_not_defined_are_passed_over(peer):
    request = peer.open(**SNAPSHOT)
    body = {"decisions": [], "state_version": request["body"]["state_version"], "mood": "fine"}
    answer = peer.say("decision.reply", body, re=request["seq"], weather=["rain"])

    assert_completes(peer, answer)
