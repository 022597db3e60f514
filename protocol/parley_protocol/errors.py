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
    "encoding.truncated": CodeInfo(
        "The frame ends before its value does.", "Send the whole message in one frame."
    ),
    "encoding.trailing": CodeInfo(
        "Bytes follow the value in the frame.", "Send one message per frame and nothing behind it."
    ),
    "encoding.malformed": CodeInfo(
        "The frame is neither MessagePack nor JSON text, or holds no map, or the frames around it "
        "are not those of one message.",
        "Encode one map; a DEALER sends an empty frame, then one with the message.",
    ),
    "encoding.dialect": CodeInfo(
        "The session began in the other of the two encodings.",
        "Stay with MessagePack or with JSON text, as the hello was sent.",
    ),
    "encoding.type": CodeInfo(
        "A value is not of the profile: bin, ext, a key that is no string, text that is not UTF-8, "
        "NaN, an infinity, or an integer beyond 2^53 - 1.",
        "Use maps with string keys, arrays, str, integers, finite floats, booleans and nil.",
    ),
    "encoding.duplicate_key": CodeInfo(
        "A key stands twice in one map.", "Write each key of a map once."
    ),
    "limit.message": CodeInfo(
        "The frame holds more bytes than the limit announced.", "Send less in one message."
    ),
    "limit.depth": CodeInfo(
        "Maps and arrays are nested deeper than the limit announced.", "Nest less."
    ),
    "limit.length": CodeInfo(
        "A string, an array or a map is longer than the limit announced, or its header says so, or "
        "there are more arrays and maps.",
        "Send less; or mend the header's length.",
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
    "session.over": CodeInfo(
        "The session that the message names, or is to resume, has ended.",
        "Exit; say hello without `resume` only where another run is meant.",
    ),
    "session.token": CodeInfo(
        "The token is not that of the session to be resumed, or there is no such session.",
        "Repeat `session` and `token` as the welcome gave them; exit if they are those.",
    ),
    "epoch.stale": CodeInfo(
        "Another client has resumed the session; this one is shut out.",
        "Exit; only the client that resumed last decides.",
    ),
    "epoch.future": CodeInfo(
        "The message names an epoch that the session has not come to.",
        "Repeat `epoch` as the last welcome gave it.",
    ),
    "sequence.stale": CodeInfo(
        "`re` names a message that has been answered already.",
        "Answer each message once: the one whose `seq` is in `supported`.",
    ),
    "sequence.future": CodeInfo(
        "`re` names a message that was never sent.",
        "Repeat in `re` the `seq` of the message that is answered.",
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
    "decision.refused": CodeInfo(
        "A decision was refused and the scenario says that this ends the run.",
        "Mend the dispatcher, or run with on_reject = report.",
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
    "job.held": CodeInfo("The job is held.", "Release it first."),
    "job.not_held": CodeInfo("The job is not held.", "Release held jobs only."),
    "job.never_fits": CodeInfo(
        "The job to be submitted asks for more than the empty machine holds.",
        "Compare the request with the platform of the welcome.",
    ),
    "job.name": CodeInfo(
        "A job of this name was submitted by the dispatcher before.", "Use another name, or none."
    ),
    "job.request": CodeInfo(
        "The request of the job to be submitted cannot be simulated.",
        "Ask for one group of chunks, each of some resource or of an exclusive node.",
    ),
    "job.past": CodeInfo("A job cannot be submitted before now.", "Submit it now or later."),
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
    "node.down": CodeInfo("A node is out of service.", "Wait for its node.up."),
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
    "timer.unknown": CodeInfo("No timer of this number waits.", "Cancel waiting timers only."),
    "decision.unsupported": CodeInfo(
        "No decision of this kind is defined.", "Use the kinds of the version in the welcome."
    ),
    "decision.not_granted": CodeInfo(
        "The decision needs a capability that the welcome did not grant.",
        "Ask for it in the hello; the scenario must allow it.",
    ),
    "decision.rolled_back": CodeInfo(
        "The session is atomic and another decision of the reply was refused.",
        "Mend the other; then send both again.",
    ),
    "decision.late": CodeInfo(
        "The reply came after its deadline, when it had been taken for empty.",
        "Decide again, on the request that brings this outcome.",
    ),
    "run.stopped": CodeInfo(
        "A decision before this one has ended the run.", "Let stop be the last decision."
    ),
}


_UNREADABLE = frozenset({"limit.message", "limit.depth", "limit.length", "message.invalid"})

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

    @property
    def undecodable(self) -> bool:
        """Whether the message could not even be read: too many of these end a session."""
        return self.code.startswith("encoding.") or self.code in _UNREADABLE

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
