"""Plays one half of a recorded dialogue to a program, and holds its half against the record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import zmq

from parley_conformance.judging import canonical
from parley_conformance.oracle import Oracle
from parley_protocol.codec import FROM_SERVER, decode, encode, read_client_message
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley_protocol.transcript import Entry

_TICK_MS = 100


class Agreement(IntEnum):
    """How far a message is what the record says; each includes those below it."""

    NONE = 0
    LEGAL = 1
    CANONICAL = 2
    BYTES = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """The first message that is not what was demanded.

    Attributes:
        line: Of the transcript.
        now_us: The simulated instant.
        path: The first field that differs, if the messages could be compared.
        reason: What is wrong, in a sentence.
    """

    line: int
    now_us: int
    path: str
    reason: str


@dataclass(slots=True)
class Comparison:
    """What came of a replay.

    Attributes:
        counts: Messages by how far they agree.
        difference: Where it ended early.
        skipped: Messages of the record that were not played, because the dialogue in it goes on
            with another dispatcher, or with what the difference made impossible.
    """

    counts: dict[Agreement, int]
    difference: Difference | None = None
    skipped: int = 0

    @property
    def compared(self) -> int:
        """How many messages were compared."""
        return sum(self.counts.values())

    def holds(self, demanded: Agreement) -> bool:
        """Whether every message compared agrees so far at least."""
        return (
            self.difference is None
            and min(
                (level for level, count in self.counts.items() if count), default=Agreement.BYTES
            )
            >= demanded
        )


class Replay:
    """The server's half of a transcript, for a dispatcher.

    Args:
        entries: The transcript.
        demanded: How far each message of the dispatcher must agree.
        patience: How long to wait for each, seconds.

    Attributes:
        endpoint: Where the dispatcher is to connect.
    """

    def __init__(
        self, entries: Iterable[Entry], *, demanded: Agreement, patience: float = 60.0
    ) -> None:
        self._entries = entries
        self._demanded = demanded
        self._patience_ms = round(patience * 1000)
        self._comparison = Comparison(dict.fromkeys(Agreement, 0))
        self._judge = _Judge()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.bind("tcp://127.0.0.1:*")
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self._envelope: Sequence[bytes] = ()

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()
        self._context.term()

    def run(self, look: Callable[[], None]) -> Comparison:
        """Play until the transcript ends or a message is not what was demanded.

        Args:
            look: Called about ten times a second; what it raises ends the replay.
        """
        comparison, greeted = self._comparison, False
        for entry in self._entries:
            over = entry.kind == "hello" and greeted
            if comparison.difference is not None or over or comparison.skipped:
                comparison.skipped += 1
            elif entry.direction == ">":
                self._judge.hear(entry)
                self._socket.send_multipart([*self._envelope, entry.frame])
            else:
                greeted = True
                self._compare(entry, self._receive(look))
        return comparison

    def _receive(self, look: Callable[[], None]) -> bytes | None:
        for _ in range(0, self._patience_ms, _TICK_MS):
            if self._socket.poll(_TICK_MS):
                frames = self._socket.recv_multipart()
                cut = frames.index(b"", 1) + 1 if b"" in frames[1:] else len(frames)
                self._envelope = frames[:cut]
                return b"".join(frames[cut:])
            look()
        return None

    def _compare(self, entry: Entry, frame: bytes | None) -> None:
        comparison = self._comparison
        if frame is None:
            comparison.difference = Difference(
                entry.line, entry.now_us, "", f"no {entry.kind} came in time"
            )
            return
        if without_measured(frame) == without_measured(entry.frame):
            comparison.counts[Agreement.BYTES] += 1
            self._judge.answered(entry.message)
            return
        try:
            message = decode(frame)
            read_client_message(message)
        except ProtocolError as error:
            self._differ(entry, "", f"it cannot be read: {error}")
            return
        recorded, given = canonical(entry.message), canonical(message)
        if entry.kind == "hello":
            # Another program may play the part; what it calls itself is no difference.
            recorded["body"].pop("client", None)
            given["body"].pop("client", None)
            if recorded == given:
                return
        path = first_difference(recorded, given)
        if path is None:
            comparison.counts[Agreement.CANONICAL] += 1
            self._judge.answered(entry.message)
            if self._demanded > Agreement.CANONICAL:
                self._differ(entry, "", "the message says the same in other bytes", counted=True)
            return
        wrong = self._judge.why_illegal(entry, message)
        comparison.counts[Agreement.NONE if wrong else Agreement.LEGAL] += 1
        if wrong:
            reason = f"{_shown(recorded, path)} was recorded, {_shown(message, path)} came; {wrong}"
        else:
            reason = f"{_shown(recorded, path)} was recorded, {_shown(message, path)} came"
        if wrong or self._demanded > Agreement.LEGAL:
            self._differ(entry, path, reason, counted=True)
        else:
            # What follows in the record presupposes what was decided there.
            comparison.skipped += 1

    def _differ(self, entry: Entry, path: str, reason: str, *, counted: bool = False) -> None:
        if not counted:
            self._comparison.counts[Agreement.NONE] += 1
        self._comparison.difference = Difference(entry.line, entry.now_us, path, reason)


class _Judge:
    """Whether another message than the recorded one would have been legal in its place."""

    def __init__(self) -> None:
        self._oracle: Oracle | None = None
        self._decided: Sequence[Mapping[str, Any]] = ()
        self._version = 0

    def hear(self, entry: Entry) -> None:
        if entry.message is None:
            return
        body = entry.message["body"]
        if entry.kind == "welcome":
            self._oracle = Oracle(body)
        elif entry.kind == "decision.request" and self._oracle is not None:
            self._version = body["state_version"]
            self._oracle.see(body, self._decided)
            self._decided = ()

    def answered(self, message: Mapping[str, Any] | None) -> None:
        if message is not None and message.get("type") == "decision.reply":
            self._decided = message["body"]["decisions"]

    def why_illegal(self, entry: Entry, message: Mapping[str, Any]) -> str | None:
        if message["type"] != entry.kind:
            return f"a {entry.kind} is due, not a {message['type']}"
        if message["type"] != "decision.reply" or self._oracle is None:
            return None
        if message.get("re") != (entry.message or {}).get("re"):
            return "it answers another message"
        body = message["body"]
        if body["state_version"] != self._version:
            return f"it is for version {body['state_version']} of the state"
        codes = self._oracle.judge(body["decisions"])
        wrong = next((index for index, code in enumerate(codes) if code is not None), None)
        return None if wrong is None else f"decision {wrong} is illegal: {codes[wrong]}"


def replay_to_server(
    entries: Iterable[Entry], endpoint: str, *, patience: float = 60.0
) -> Comparison:
    """Play a dispatcher's half of a transcript to a server; compare what it says, canonically.

    What differs from session to session by its nature is left out: the session's name, its token,
    and what the server calls itself.
    """
    comparison = Comparison(dict.fromkeys(Agreement, 0))
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, round(patience * 1000))
    session: dict[str, Any] = {}
    greeted = False
    try:
        socket.connect(endpoint)
        for entry in entries:
            over = entry.kind == "hello" and greeted
            if comparison.difference is not None or over or comparison.skipped:
                comparison.skipped += 1
            elif entry.direction == "<":
                greeted = True
                socket.send_multipart([b"", _spoken_in(session, entry)])
            else:
                _compare_server(comparison, entry, socket, session)
    finally:
        socket.close()
        context.term()
    return comparison


def _spoken_in(session: Mapping[str, Any], entry: Entry) -> bytes:
    """Return a recorded message as it is said in this session."""
    if entry.message is None or entry.kind == "hello":
        return entry.frame
    return encode({**entry.message, **session})


def _compare_server(
    comparison: Comparison, entry: Entry, socket: zmq.Socket[bytes], session: dict[str, Any]
) -> None:
    try:
        frame = socket.recv_multipart()[-1]
        message = decode(frame, FROM_SERVER)
    except zmq.Again:
        comparison.difference = Difference(entry.line, entry.now_us, "", "no answer came in time")
        return
    except ProtocolError as error:
        reason = f"the answer cannot be read: {error}"
        comparison.difference = Difference(entry.line, entry.now_us, "", reason)
        return
    if message.get("type") == "welcome":
        session.update(session=message["session"], epoch=message["epoch"])
    recorded, given = _impersonal(entry.message), _impersonal(message)
    path = first_difference(recorded, given)
    if path is None:
        comparison.counts[Agreement.CANONICAL] += 1
        return
    comparison.counts[Agreement.NONE] += 1
    reason = f"{_shown(recorded, path)} was recorded, {_shown(given, path)} came"
    comparison.difference = Difference(entry.line, entry.now_us, path, reason)


def _impersonal(message: Mapping[str, Any] | None) -> Any:
    twin = canonical(message)
    twin.pop("session", None)
    if twin.get("type") == "welcome":
        for key in ("token", "server"):
            twin["body"].pop(key, None)
    return twin


_COMPUTE = b"\xaacompute_us"
_COMPUTE_SIZES = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xCA: 5, 0xCB: 9}
_COMPUTE_JSON = re.compile(rb'"compute_us"\s*:\s*[0-9.eE+]+')


def without_measured(frame: bytes) -> bytes:
    """Return a reply's bytes without the wall time in it, which is another every time."""
    if frame[:1] == b"{":
        return _COMPUTE_JSON.sub(b"", frame)
    begin = frame.rfind(_COMPUTE)
    if begin < 0 or begin + len(_COMPUTE) >= len(frame):
        return frame
    value = begin + len(_COMPUTE)
    return frame[:begin] + frame[value + _COMPUTE_SIZES.get(frame[value], 1) :]


def first_difference(recorded: Any, given: Any, path: str = "") -> str | None:
    """Return the path of the first field in which two canonical messages differ, or None."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        for key in [*recorded, *(key for key in given if key not in recorded)]:
            step = f"{path}.{key}" if path else str(key)
            if key not in recorded or key not in given:
                return step
            found = first_difference(recorded[key], given[key], step)
            if found is not None:
                return found
        return None
    if isinstance(recorded, list) and isinstance(given, list):
        for index in range(max(len(recorded), len(given))):
            step = f"{path}.{index}"
            if index >= len(recorded) or index >= len(given):
                return step
            found = first_difference(recorded[index], given[index], step)
            if found is not None:
                return found
        return None
    same = recorded == given and isinstance(recorded, bool) is isinstance(given, bool)
    return None if same else path


def _shown(message: Any, path: str) -> str:
    """Return what stands at a path, shortly."""
    value = message
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
