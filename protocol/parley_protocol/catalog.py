"""The whole protocol as one table for programs: messages, states, kinds, codes, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_protocol.codec import FROM_CLIENT
from parley_protocol.conversation import NEXT, Role, State, legal
from parley_protocol.errors import DECISION_CODES, MESSAGE_CODES
from parley_protocol.examples import EXAMPLES
from parley_protocol.messages import (
    CLIENT_MESSAGES,
    DECISION_KINDS,
    EVENT_KINDS,
    PROTOCOL_VERSION,
)
from parley_protocol.requirements import REQUIREMENTS_BY_MESSAGE
from parley_protocol.schemas import MESSAGE_KINDS, schema_file, schema_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALWAYS = tuple(
    code
    for code in MESSAGE_CODES
    if code.startswith(("encoding.", "limit.message", "limit.depth", "limit.length", "message."))
)
"""Codes with which any message of a client may be refused."""

IN_SESSION = (
    "session.unknown",
    "epoch.stale",
    "epoch.future",
    "sequence.stale",
    "sequence.future",
    "deadline.missed",
)
"""Codes with which any message but the hello may be refused, or its absence told."""

ERRORS: Mapping[str, tuple[str, ...]] = {
    "hello": (
        "version.unsupported",
        "scenario.unknown",
        "wants.unknown",
        "limit.sessions",
        "session.over",
        "session.token",
        "server.failed",
    ),
    "ready": (*IN_SESSION, "server.failed"),
    "decision.reply": (
        *IN_SESSION,
        "state.version",
        "limit.decisions",
        "decision.refused",
        "server.failed",
    ),
    "state.request": IN_SESSION,
    "progress": IN_SESSION,
    "ping": IN_SESSION,
    "bye": IN_SESSION,
}
"""Codes, beside those of `ALWAYS`, of the errors that answer a message."""

CAPABILITIES: Mapping[str, str] = {
    "submit": "submit",
}
"""Kinds of decision that need a capability, and which."""

ANY_DECISION = ("decision.rolled_back", "decision.late", "run.stopped")
"""Codes with which a decision of any kind may be refused."""

_PENDING = ("job.unknown", "job.not_pending")

_RUNNING = ("job.unknown", "job.not_running")

DECISION_ERRORS: Mapping[str, tuple[str, ...]] = {
    "start": (
        *_PENDING,
        "job.held",
        *(code for code in DECISION_CODES if code.startswith(("alloc.", "node."))),
    ),
    "reject": _PENDING,
    "kill": _RUNNING,
    "requeue": _RUNNING,
    "hold": (*_PENDING, "job.held"),
    "release": (*_PENDING, "job.not_held"),
    "wake": ("timer.past", "timer.set"),
    "wake.cancel": ("timer.unknown",),
    "annotate": _PENDING,
    "submit": ("decision.not_granted", "job.request", "job.never_fits", "job.name", "job.past"),
    "stop": (),
    "unknown": ("decision.unsupported",),
}
"""Codes, beside those of any, with which a decision of a kind may be refused."""


def direction(kind: str) -> str:
    """Return who sends a message, and to whom."""
    return "client to server" if kind in CLIENT_MESSAGES else "server to client"


def legal_in(kind: str) -> list[str]:
    """Return the states in which a message is legal; an error is in any before the end."""
    if kind == "error":
        return [state.value for state in State if state is not State.ENDED]
    return [state.value for (state, _, said) in NEXT if said == kind]


def answered_by(kind: str) -> list[str]:
    """Return what may answer a client's message."""
    if kind not in CLIENT_MESSAGES:
        return []
    states = {there for (_, _, said), there in NEXT.items() if said == kind}
    return [*sorted({reply for state in states for reply in legal(state, Role.SERVER)}), "error"]


def catalog(further: Iterable[str] = ()) -> dict[str, Any]:
    """Return the catalog.

    Args:
        further: Names of schemas beside those of the protocol.
    """
    return {
        "protocol": PROTOCOL_VERSION,
        "envelope": 1,
        "messages": {kind: _message(kind) for kind in MESSAGE_KINDS},
        "states": [
            {"state": state.value, "turn": turn.value if (turn := turn_of(state)) else None}
            for state in State
        ],
        "transitions": [
            {"state": state.value, "from": role.value, "type": kind, "next": there.value}
            for (state, role, kind), there in NEXT.items()
        ],
        "events": {kind: {"since": PROTOCOL_VERSION} for kind in sorted(EVENT_KINDS)},
        "decisions": {kind: _decision(kind) for kind in sorted(DECISION_KINDS)},
        "codes": {
            "messages": _codes(MESSAGE_CODES),
            "decisions": _codes(DECISION_CODES),
        },
        "limits": {
            "message_bytes": FROM_CLIENT.message_bytes,
            "depth": FROM_CLIENT.depth,
            "string_bytes": FROM_CLIENT.string_bytes,
            "array_items": FROM_CLIENT.array_items,
            "containers": FROM_CLIENT.containers,
        },
        "schemas": {
            schema_id(name): schema_file(name)
            for name in sorted({*MESSAGE_KINDS, "definitions", "transcript", *further})
        },
        "examples": {
            name: {
                "type": message["type"],
                "json": f"examples/{name}.json",
                "messagepack": f"examples/{name}.hex",
            }
            for name, message in sorted(EXAMPLES.items())
        },
    }


def turn_of(state: State) -> Role | None:
    """Return who speaks next, or None after the end."""
    return next((role for role in Role if legal(state, role)), None)


def _message(kind: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "direction": direction(kind),
        "legal_in": legal_in(kind),
        "answered_by": answered_by(kind),
        "capability": None,
        "since": PROTOCOL_VERSION,
        "schema": schema_id(kind),
        "requirements": list(REQUIREMENTS_BY_MESSAGE[kind]),
    }
    if kind in CLIENT_MESSAGES:
        entry["errors"] = [*ALWAYS, *ERRORS[kind]]
    return entry


def _decision(kind: str) -> dict[str, Any]:
    return {
        "since": PROTOCOL_VERSION,
        "capability": CAPABILITIES.get(kind),
        "codes": [*DECISION_ERRORS[kind], *ANY_DECISION],
    }


def _codes(registry: Mapping[str, Any]) -> dict[str, Any]:
    return {code: {"cause": info.cause, "remedy": info.remedy} for code, info in registry.items()}
