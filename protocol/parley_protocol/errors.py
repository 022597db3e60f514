"""Every error code of the protocol: what it means and what the other side should do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley_protocol.messages import ErrorBody


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One entry of the registry.

    Attributes:
        cause: When the code is sent.
        remedy: What whoever receives it should do.
    """

    cause: str
    remedy: str


MESSAGE_CODES: Mapping[str, CodeInfo] = {
    "encoding.malformed": CodeInfo(
        "The frame is not one MessagePack value of the profile.",
        "Encode one map with string keys; no bin, no ext, nothing behind it.",
    ),
    "message.invalid": CodeInfo(
        "A field is missing or has another type than its schema says; `path` names it.",
        "Compare the message with its schema.",
    ),
    "message.unknown": CodeInfo(
        "No message of this type is defined.", "Send one of the types in `supported`."
    ),
    "message.unexpected": CodeInfo(
        "The message is not legal in this state of the session.",
        "Send one of the types in `supported`.",
    ),
    "message.undecodable": CodeInfo(
        "Too many messages could not be decoded; the session has failed.",
        "Mend the encoder; earlier errors said what was wrong.",
    ),
    "session.unknown": CodeInfo(
        "The message names another session than this connection has.",
        "Repeat `session` and `epoch` as the welcome gave them, or say hello.",
    ),
    "sequence.mismatch": CodeInfo(
        "`re` is not the number of the message that waits for an answer.",
        "Answer the message with the highest `seq` that expects one.",
    ),
    "state.version": CodeInfo(
        "The reply was made for another state of the simulation.",
        "Repeat `state_version` as the request gave it.",
    ),
    "version.unsupported": CodeInfo(
        "None of the versions in the hello is spoken here.", "Speak one of `supported`."
    ),
    "scenario.unknown": CodeInfo(
        "No scenario of this name is offered.", "Ask for one of `supported`."
    ),
    "wants.unknown": CodeInfo(
        "The hello wants an event kind that is not defined.", "Want only kinds in `supported`."
    ),
    "limit.decisions": CodeInfo(
        "A reply holds more decisions than the limit announced.",
        "Send the rest with the next reply.",
    ),
    "limit.sessions": CodeInfo(
        "The server takes no further session.", "Try another server, or later."
    ),
    "deadline.missed": CodeInfo(
        "The answer did not come within the deadline; the session has failed.",
        "Decide faster, or ask for a longer deadline where the run is started.",
    ),
    "server.failed": CodeInfo(
        "The server could not go on; the fault is not the client's.", "Read the server's output."
    ),
}

DECISION_CODES: Mapping[str, CodeInfo] = {
    "job.unknown": CodeInfo(
        "No job of this number has been submitted.", "Use the numbers of job.submitted."
    ),
    "job.not_pending": CodeInfo(
        "The job runs already or is over.", "Start and reject pending jobs only."
    ),
    "job.not_running": CodeInfo("The job is not running.", "Kill running jobs only."),
    "alloc.groups": CodeInfo(
        "The allocation has another number of groups than the request.",
        "Give one list of spans for each group of the request.",
    ),
    "alloc.span": CodeInfo(
        "A span ends before it begins or holds no chunk.",
        "Write spans as [first, last, chunks_per_node].",
    ),
    "alloc.order": CodeInfo(
        "Spans overlap or do not ascend.", "Sort the spans; name each node once."
    ),
    "alloc.too_few": CodeInfo(
        "The allocation holds fewer chunks than the request.", "Place every chunk."
    ),
    "alloc.too_many": CodeInfo(
        "The allocation holds more chunks than the request.", "Place each chunk once."
    ),
    "alloc.no_fit": CodeInfo(
        "The server was to place the job and it does not fit now.", "Start it later."
    ),
    "alloc.exclusive": CodeInfo(
        "Several chunks on one node, of a job that wants whole nodes.", "Place one chunk a node."
    ),
    "node.unknown": CodeInfo("There is no such node.", "Use the numbers of the platform."),
    "node.busy": CodeInfo(
        "A node has not enough left for the chunks.", "Compare your view of the nodes."
    ),
    "node.partition": CodeInfo(
        "A node is in another partition than the job.",
        "Place chunks by all resources that they ask for.",
    ),
    "node.constraint": CodeInfo(
        "A node has not the attribute that the job demands.",
        "Place chunks by all resources that they ask for.",
    ),
    "timer.past": CodeInfo("A timer must lie after now.", "Set it later."),
    "timer.set": CodeInfo("A timer of this number waits already.", "Use another number."),
    "decision.unsupported": CodeInfo(
        "No decision of this kind is defined.", "Use the kinds of the version in the welcome."
    ),
}


_LONGEST = 500
"""Characters of a text that quotes what the other side sent."""


@dataclass
class ProtocolError(Exception):
    """A message that its receiver refuses.

    Attributes:
        code: From `MESSAGE_CODES`.
        path: The field in question, as in `body.decisions.0.job`.
        supported: What would have done instead.
        fatal: The session cannot go on.
    """

    code: str
    message: str
    path: str | None = None
    supported: Sequence[str] = field(default=())
    fatal: bool = False

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        instead = f" (expected: {', '.join(self.supported)})" if self.supported else ""
        return f"{where}{self.message}{instead} [{self.code}]"

    def body(self) -> ErrorBody:
        """Return the body of the message that tells the other side."""
        body: ErrorBody = {
            "code": self.code,
            "message": self.message[:_LONGEST],
            "fatal": self.fatal,
        }
        if self.path is not None:
            body["path"] = self.path[:_LONGEST]
        if self.supported:
            body["supported"] = list(self.supported)
        return body
