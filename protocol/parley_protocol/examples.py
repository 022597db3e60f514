"""Examples of every message; schemas, specification and tests show and check the same ones.

`SESSION` is a whole session as the reference server holds it on the scenario of the
specification: four nodes of one core, two jobs. The others show what does not occur in it; those
from `welcome-resumed` to `session.end-stopped` are of another run on the same machine, which was
resumed while a slow reply was on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_protocol.messages import EVENT_KINDS, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Message = Mapping[str, Any]

SECOND = 1_000_000

_PROGRAM = {"name": "smallest", "version": "1", "language": "c"}

_ONE_CORE = {"per_chunk": {"core": 1}, "exclusive": True}

_FIRST_JOB = {
    "job": 0,
    "name": "1",
    "submit_us": 0,
    "request": [{"chunks": 3, **_ONE_CORE}],
    "walltime_us": 90 * SECOND,
    "user": "7",
    "group": "3",
    "queue": "5",
    "partition": "6",
}

_SECOND_JOB = {
    "job": 1,
    "name": "2",
    "submit_us": 10 * SECOND,
    "request": [{"chunks": 2, **_ONE_CORE}],
    "walltime_us": 30 * SECOND,
    "user": "7",
    "group": "3",
    "queue": "5",
    "partition": "6",
}

_DIGEST = "6784e347b53ceae37f7ecaef0c64c2c0e1768625fa8c38ae96d1afe81a0516df"


def _stats(submitted: int = 0, completed: int = 0, **others: int) -> dict[str, int]:
    ends = ("failed", "timed_out", "killed", "rejected", "requeues")
    return {
        "submitted": submitted,
        "completed": completed,
        **{end: others.get(end, 0) for end in ends},
    }


def _from_client(kind: str, re: int, body: Message, *, epoch: int = 1) -> dict[str, Any]:
    return {"v": 1, "type": kind, "session": "1", "epoch": epoch, "re": re, "body": body}


def _from_server(kind: str, seq: int, body: Message, *, epoch: int = 1) -> dict[str, Any]:
    return {"v": 1, "type": kind, "session": "1", "epoch": epoch, "seq": seq, "body": body}


def _request(seq: int, second: int, version: int, *events: Message, **more: Any) -> dict[str, Any]:
    """Return a decision request of the example session."""
    return _from_server(
        "decision.request",
        seq,
        {
            "now_us": second * SECOND,
            "attempt": 1,
            "events": list(events),
            "outcomes": [],
            "state_version": version,
            "deadline_ms": 60_000,
            **more,
        },
    )


def _reply(re: int, version: int, *decisions: Message) -> dict[str, Any]:
    """Return a decision reply of the example session."""
    body = {"decisions": list(decisions), "state_version": version}
    return _from_client("decision.reply", re, body)


_WELCOME: Message = {
    "version": PROTOCOL_VERSION,
    "server": {"name": "parley", "version": "0.1.0", "language": "python"},
    "granted": {"state": "events", "decisions": "each", "submit": False},
    "ask": "always",
    "wants": sorted(EVENT_KINDS),
    "token": "9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    "resumed": False,
    "seed": 0,
    "limits": {
        "message_bytes": 16_777_216,
        "depth": 32,
        "string_bytes": 262_144,
        "array_items": 1_000_000,
        "containers": 2_000_000,
        "decisions": 1_000_000,
        "undecodable": 3,
    },
    "policy": {
        "on_reject": "report",
        "reasks": 3,
        "on_timeout": "fail",
        "on_disconnect": "fail",
        "reconnect_ms": 60_000,
        "latency_model": "zero",
        "on_node_down": "kill",
    },
    "scenario": {
        "name": "tiny",
        "digest": _DIGEST,
        "rules": {
            "request": "nodes",
            "select": "all",
            "on_overrun": "run",
            "estimate": "trace",
            "estimate_missing": "runtime",
        },
    },
    "platform": {
        "node_count": 4,
        "groups": [{"name": "nodes", "first": 0, "last": 3, "capacity": {"core": 1}}],
    },
}

_EMPTY_STATE = {
    "pending": [],
    "held": [],
    "running": [],
    "nodes": [[0, 3, {"core": 1}, "up"]],
    "timers": [],
    "exhausted": False,
}

_WITH_ATTRIBUTES = {
    **_SECOND_JOB,
    "attributes": {"project": "climate", "weights": [1, 2.5, None]},
}

_STATE: Message = {
    "pending": [_FIRST_JOB],
    "held": [],
    "running": [{"job": _WITH_ATTRIBUTES, "start_us": 61 * SECOND, "allocation": [[[0, 1, 1]]]}],
    "nodes": [[0, 1, {"core": 0}, "up"], [2, 2, {"core": 1}, "up"], [3, 3, {"core": 0}, "down"]],
    "timers": [{"timer": 2, "at_us": 100 * SECOND}],
    "exhausted": True,
}
"""After `_EVENTS` and `_OUTCOMES`."""

SESSION_TRACE = """\
1  0 -1 60 3 -1 -1 3 90 -1 1 7 3 -1 5 6 -1 -1
2 10 -1 30 2 -1 -1 2 30 -1 1 7 3 -1 5 6 -1 -1
"""
"""The workload of `SESSION`, in the Standard Workload Format."""

SESSION: Sequence[Message] = (
    {
        "v": 1,
        "type": "hello",
        "body": {"versions": [PROTOCOL_VERSION], "client": _PROGRAM, "ask": "always"},
    },
    _from_server("welcome", 1, _WELCOME),
    _from_client("ready", 1, {}),
    _request(2, 0, 0, {"kind": "session.start", "at_us": 0}, state=_EMPTY_STATE),
    _reply(2, 0),
    _request(3, 0, 1, {"kind": "job.submitted", "at_us": 0, "job": _FIRST_JOB}),
    _reply(3, 1, {"id": 1, "kind": "start", "job": 0}),
    _request(
        4,
        10,
        4,
        {"kind": "job.submitted", "at_us": 10 * SECOND, "job": _SECOND_JOB},
        {"kind": "workload.exhausted", "at_us": 10 * SECOND},
        outcomes=[{"id": 1, "status": "applied", "allocation": [[[0, 2, 1]]]}],
    ),
    _reply(4, 4, {"id": 1, "kind": "start", "job": 1, "allocation": [[[2, 3, 1]]]}),
    _request(
        5,
        60,
        5,
        {"kind": "job.ended", "at_us": 60 * SECOND, "job": 0, "status": "completed"},
        outcomes=[
            {
                "id": 1,
                "status": "rejected",
                "code": "node.busy",
                "message": "node 2 has room for 0 such chunks, not 1",
            }
        ],
    ),
    _reply(5, 5, {"id": 1, "kind": "start", "job": 1, "allocation": [[[2, 3, 1]]]}),
    _request(
        6,
        90,
        7,
        {"kind": "job.ended", "at_us": 90 * SECOND, "job": 1, "status": "completed"},
        outcomes=[{"id": 1, "status": "applied"}],
    ),
    _reply(6, 7),
    _from_server(
        "session.end",
        7,
        {"reason": "completed", "now_us": 90 * SECOND, "outcomes": [], "stats": _stats(2, 2)},
    ),
)
"""Every message of a session, the client's and the server's in turn."""

_EVENTS = (
    {"kind": "job.ended", "at_us": 60 * SECOND, "job": 0, "status": "requeued"},
    {"kind": "node.down", "at_us": 60 * SECOND, "nodes": [[0, 1], [3, 3]]},
    {"kind": "node.up", "at_us": 61 * SECOND, "nodes": [[0, 1]]},
    {"kind": "timer.fired", "at_us": 61 * SECOND, "timer": 1},
)
"""While a reply that was given at 10 s was on its way; it took effect at 61 s, behind them."""

_OUTCOMES: Sequence[Message] = (
    {"id": 3, "status": "applied", "allocation": [[[0, 1, 1]]], "at_us": 61 * SECOND},
    {"id": 4, "status": "applied", "at_us": 61 * SECOND},
    {
        "id": 5,
        "status": "rejected",
        "code": "timer.unknown",
        "message": "no timer 3 waits; it has fired, was cancelled, or was never set",
        "at_us": 61 * SECOND,
    },
    {"id": 6, "status": "applied", "job": 2**52, "at_us": 61 * SECOND},
)
"""Of a reply that started job 1 wherever there was room, set timer 2 and brought in a job."""

_DECISIONS = (
    {"id": 7, "kind": "start", "job": 0, "allocation": [[[0, 0, 1], [2, 3, 1]]]},
    {"id": 8, "kind": "start", "job": 0, "allocation": None},
    {"id": 9, "kind": "hold", "job": 0, "reason": "its project has no hours left"},
    {"id": 10, "kind": "release", "job": 0},
    {
        "id": 11,
        "kind": "annotate",
        "job": 0,
        "expected_start_us": 120 * SECOND,
        "reason": "waits for node 3",
    },
    {"id": 12, "kind": "requeue", "job": 1},
    {"id": 13, "kind": "kill", "job": 7},
    {"id": 14, "kind": "wake", "timer": 1, "at_us": 100 * SECOND},
    {"id": 15, "kind": "wake.cancel", "timer": 2},
    {
        "id": 16,
        "kind": "submit",
        "job": {
            "name": "probe",
            "runtime_us": 5 * SECOND,
            "walltime_us": 10 * SECOND,
            "request": [{"chunks": 1, "per_chunk": {"core": 1}, "exclusive": False}],
            "user": "7",
            "group": "3",
            "queue": "5",
            "partition": "6",
            "attributes": {"purpose": "health check"},
        },
        "at_us": 65 * SECOND,
    },
    {"id": 17, "kind": "resize", "job": 1, "chunks": 1},
    {"id": 18, "kind": "reject", "job": 0, "reason": "asks for a queue that is closed"},
    {"id": 19, "kind": "stop", "reason": "the question is answered"},
)
"""One of each kind, and one of a kind that is not defined; not all of them can be applied."""


def _applied(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "status": "applied", **more, "at_us": 62 * SECOND}


def _rejected(number: int, code: str, message: str) -> dict[str, Any]:
    return {
        "id": number,
        "status": "rejected",
        "code": code,
        "message": message,
        "at_us": 62 * SECOND,
    }


_LAST_OUTCOMES: Sequence[Message] = (
    _rejected(7, "node.busy", "node 0 has room for 0 such chunks, not 1"),
    _rejected(8, "alloc.no_fit", "job 0 asks for 3 chunks, the free resources hold 1 of them now"),
    *(_applied(number) for number in (9, 10, 11, 12)),
    _rejected(13, "job.unknown", "no job 7 has been submitted"),
    *(_applied(number) for number in (14, 15)),
    _applied(16, job=2**52 + 1),
    _rejected(17, "decision.unsupported", "no decision 'resize' is defined in this version"),
    *(_applied(number) for number in (18, 19)),
)
"""Of `_DECISIONS`, one second later."""

EXAMPLES: Mapping[str, Message] = {
    **{f"session-{number:02}": message for number, message in enumerate(SESSION, 1)},
    "hello": {
        "v": 1,
        "type": "hello",
        "body": {
            "versions": ["1.1", PROTOCOL_VERSION],
            "client": _PROGRAM,
            "capabilities": {"state": "snapshot", "decisions": "atomic", "submit": True},
            "ask": "actionable",
            "wants": ["job.submitted", "job.ended", "timer.fired"],
            "scenario": "tiny",
        },
    },
    "hello-resume": {
        "v": 1,
        "type": "hello",
        "body": {
            "versions": [PROTOCOL_VERSION],
            "client": _PROGRAM,
            "resume": {"session": "1", "token": _WELCOME["token"]},
        },
    },
    "welcome-resumed": _from_server(
        "welcome",
        5,
        {
            **_WELCOME,
            "granted": {**_WELCOME["granted"], "submit": True},
            "resumed": True,
            "limits": {**_WELCOME["limits"], "sessions": 64},
            "policy": {
                **_WELCOME["policy"],
                "on_disconnect": "wait",
                "latency_model": "scaled",
                "latency_us": None,
                "latency_factor": 2.5,
                "on_node_down": "requeue",
            },
        },
        epoch=2,
    ),
    "ready": _from_client("ready", 5, {}, epoch=2),
    "decision.request-shared": _from_server(
        "decision.request",
        9,
        {
            "now_us": 70 * SECOND,
            "attempt": 1,
            "events": [
                {
                    "kind": "job.started",
                    "at_us": 65 * SECOND,
                    "job": 3,
                    "allocation": [[[0, 3, 2], [7, 7, 1]]],
                },
                {"kind": "power.changed", "at_us": 70 * SECOND, "watts": 7_000},
            ],
            "outcomes": [],
            "state_version": 21,
        },
    ),
    "decision.request-resumed": _from_server(
        "decision.request",
        6,
        {
            "now_us": 61 * SECOND,
            "attempt": 2,
            "events": list(_EVENTS),
            "outcomes": list(_OUTCOMES),
            "state_version": 12,
            "state": _STATE,
            "state_digest": "9f7c7d09e29911676f24b5c9bc0dc1d35072a317964b33f12229e879c6ae0863",
            "deadline_ms": 60_000,
        },
        epoch=2,
    ),
    "decision.reply": _from_client(
        "decision.reply",
        6,
        {"decisions": list(_DECISIONS), "state_version": 12, "compute_us": 398_750},
        epoch=2,
    ),
    "state.request": _from_client("state.request", 6, {}, epoch=2),
    "state.snapshot": _from_server(
        "state.snapshot",
        7,
        {"now_us": 61 * SECOND, "state_version": 12, "state": _STATE},
        epoch=2,
    ),
    "progress": _from_client("progress", 6, {"note": "solving, gap 3 %"}, epoch=2),
    "progress.ack": _from_server("progress.ack", 7, {"deadline_ms": 60_000}, epoch=2),
    "ping": _from_client("ping", 6, {}, epoch=2),
    "pong": _from_server("pong", 7, {}, epoch=2),
    "bye": _from_client("bye", 6, {"reason": "shutting down"}, epoch=2),
    "session.end-placed": _from_server(
        "session.end",
        6,
        {
            "reason": "stopped",
            "now_us": 60 * SECOND,
            "outcomes": [
                {"id": 1, "status": "applied", "allocation": [[[0, 1, 1]]]},
                {"id": 2, "status": "applied"},
            ],
            "stats": _stats(2, 1),
        },
    ),
    "session.end-stopped": _from_server(
        "session.end",
        7,
        {
            "reason": "stopped",
            "now_us": 62 * SECOND,
            "outcomes": list(_LAST_OUTCOMES),
            "stats": _stats(2, rejected=1, requeues=1),
        },
        epoch=2,
    ),
    "error": _from_server(
        "error",
        8,
        {
            "code": "message.invalid",
            "message": "input should be a valid integer, not 'two'",
            "fatal": False,
            "path": "body.decisions.0.job",
        },
    ),
    "error-stranger": {
        "v": 1,
        "type": "error",
        "body": {
            "code": "version.unsupported",
            "message": "versions 2.0 are not spoken here",
            "fatal": True,
            "path": "body.versions",
            "supported": [PROTOCOL_VERSION],
        },
    },
}
"""Messages by the names of their files; several of one type are told apart behind a hyphen."""


def examples_of(kind: str) -> dict[str, Message]:
    """Return the examples of a type of message, by their names."""
    return {name: message for name, message in EXAMPLES.items() if message["type"] == kind}
