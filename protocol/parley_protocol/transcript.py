"""Transcripts: a dialogue as lines of JSON, to be read, replayed and kept as evidence.

A header; a line for each message, with its bytes and a view of them; a footer with the digest of
all lines before it. Tokens are never in it: they are masked in the view and in the bytes.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from parley_protocol.codec import (
    FROM_CLIENT,
    FROM_SERVER,
    decode,
    dialect_of,
    encode,
    read_client_message,
    read_server_message,
)
from parley_protocol.conversation import Conversation, Role
from parley_protocol.errors import ProtocolError
from parley_protocol.messages import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VERSION = 1

Direction: TypeAlias = Literal[">", "<"]
"""`>` from the server to the dispatcher, `<` from it."""

_SECRETS = {"welcome": ("token",), "hello": ("resume", "token")}
"""Where a message's body holds what nobody else may know."""


class TranscriptError(Exception):
    """A transcript that is not in order; the text names the line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a transcript.

    Attributes:
        line: Of the file, from 1.
        frame: The message's bytes, tokens masked.
        message: What is in them; None if they could not be decoded.
        now_us: The simulated instant at which the session stood.
        masked: Paths of what was replaced by an empty string.
        charged_us: Simulated time that the reply before this message was charged, if any.
    """

    line: int
    direction: Direction
    frame: bytes
    message: Mapping[str, Any] | None
    now_us: int
    masked: tuple[str, ...] = ()
    charged_us: int | None = None

    @property
    def kind(self) -> str | None:
        """The type of the message, if it has one."""
        return None if self.message is None else str(self.message.get("type"))


class TranscriptWriter:
    """Makes the lines of a transcript, in order; whoever calls it writes them."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._count = 0

    def header(self, *, scenario: Mapping[str, str], software: Mapping[str, str]) -> str:
        """Return the first line.

        Args:
            scenario: Name and digest.
            software: Name and version of the server.
        """
        return self._line(
            {
                "transcript": VERSION,
                "protocol": PROTOCOL_VERSION,
                "scenario": dict(scenario),
                "software": dict(software),
            }
        )

    def message(
        self,
        direction: Direction,
        frame: bytes,
        message: Mapping[str, Any] | None,
        *,
        now_us: int,
        charged_us: int | None = None,
        secret: str = "",
    ) -> str:
        """Return the line of a message.

        Args:
            direction: Who sent it.
            frame: Its bytes.
            message: What is in them, or None if they cannot be decoded.
            now_us: The simulated instant at which the session stands.
            charged_us: What the reply before it was charged, where decisions take time.
            secret: The session's token, for messages that hold it where it does not belong.
        """
        self._count += 1
        line: dict[str, Any] = {"n": self._count, "dir": direction, "now_us": now_us}
        if charged_us:
            line["charged_us"] = charged_us
        if message is not None:
            message, paths = masked(message)
            if paths:
                line["masked"] = paths
                frame = encode(message, dialect_of(frame))
        if secret and secret.encode() in frame:
            line["masked"] = [*line.get("masked", ()), "*"]
            frame = frame.replace(secret.encode(), b"*" * len(secret))
            message = None if message is None else decode(frame, FROM_SERVER)
        line["bytes"] = frame.hex()
        line["view"] = message
        return self._line(line)

    def footer(self) -> str:
        """Return the last line."""
        digest = self._digest.hexdigest()
        return self._line({"messages": self._count, "sha256": digest})

    def _line(self, content: Mapping[str, Any]) -> str:
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
        self._digest.update(text.encode())
        return text


@dataclass(slots=True)
class TranscriptReader:
    """Reads a transcript line by line.

    Attributes:
        header: The first line, once `entries` has begun.
        complete: The footer was there.
    """

    lines: Iterable[str]
    header: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False

    def entries(self, *, partial: bool = False) -> Iterator[Entry]:
        """Yield the messages.

        Args:
            partial: A transcript without its footer will do: its run was broken off.

        Raises:
            TranscriptError: A line is not what was written there, or one is missing.
        """
        digest = sha256()
        number = count = 0
        for number, text in enumerate(self.lines, 1):
            if self.complete:
                raise TranscriptError(number, "there is nothing behind the footer")
            content = _content(number, text)
            if number == 1:
                self._read_header(content)
            elif "sha256" in content:
                if content != {"messages": count, "sha256": digest.hexdigest()}:
                    raise TranscriptError(number, "the footer's digest is not that of the lines")
                self.complete = True
            else:
                count += 1
                yield _entry(number, count, content)
            digest.update(text.encode())
        if not number:
            raise TranscriptError(1, "empty")
        if not self.complete and not partial:
            raise TranscriptError(number, "the footer is missing: the transcript is not whole")

    def _read_header(self, content: Mapping[str, Any]) -> None:
        if content.get("transcript") != VERSION:
            raise TranscriptError(1, "no header of a transcript that is understood here")
        self.header = content


def check_dialogue(entries: Iterable[Entry]) -> int:
    """Hold a transcript against the state table; return the number of messages.

    Raises:
        TranscriptError: A message of the server is not legal where it stands, or one of the
            client's was not and the server did not refuse it.
    """
    conversation, count, pending = Conversation(), 0, None
    for entry in entries:
        count += 1
        if entry.direction == "<":
            if pending is not None:
                raise TranscriptError(entry.line, "two messages of the dispatcher in a row")
            pending = entry
            continue
        kind = str(entry.kind)
        if kind == "error":
            if (entry.message or {})["body"]["fatal"]:
                conversation.fail()
        else:
            conversation = _followed(conversation, pending, entry)
        pending = None
    return count


def _followed(conversation: Conversation, asked: Entry | None, answer: Entry) -> Conversation:
    """Return where a message and its answer lead; a hello that resumes begins anew."""
    if asked is not None and asked.kind == "hello":
        conversation = Conversation()
    try:
        if asked is not None:
            conversation.follow(Role.CLIENT, str(asked.kind))
        conversation.follow(Role.SERVER, str(answer.kind))
    except ProtocolError as error:
        raise TranscriptError(answer.line, str(error)) from None
    return conversation


def _content(number: int, text: str) -> dict[str, Any]:
    if not text.endswith("\n"):
        raise TranscriptError(number, "broken off in the middle of the line")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise TranscriptError(number, "not a line of JSON") from None
    if not isinstance(content, dict):
        raise TranscriptError(number, "an object is due on every line")
    return content


def _entry(number: int, count: int, content: Mapping[str, Any]) -> Entry:
    if content.get("n") != count:
        raise TranscriptError(number, f"message {count} is due here, not {content.get('n')}")
    try:
        frame = bytes.fromhex(content["bytes"])
        direction, now_us = content["dir"], content["now_us"]
        view = content["view"]
    except (KeyError, TypeError, ValueError):
        raise TranscriptError(number, "dir, now_us, bytes and view are due on the line") from None
    masked, charged_us = content.get("masked", []), content.get("charged_us")
    if direction not in (">", "<"):
        raise TranscriptError(number, f"a direction is > or <, not {direction!r}")
    for name, value in (("now_us", now_us), ("charged_us", charged_us)):
        if type(value) is not int and (name == "now_us" or value is not None):
            raise TranscriptError(number, f"{name} is whole microseconds, not {value!r}")
    if not isinstance(masked, list) or not all(isinstance(path, str) for path in masked):
        raise TranscriptError(number, f"masked is a list of paths, not {masked!r}")
    if view is not None and _decoded(number, frame, direction) != view:
        raise TranscriptError(number, "the view is not what the bytes say")
    return Entry(
        number,
        direction,
        frame,
        view,
        now_us,
        tuple(masked),
        charged_us,
    )


def _decoded(number: int, frame: bytes, direction: str) -> Mapping[str, Any]:
    try:
        if direction == ">":
            value = decode(frame, FROM_SERVER)
            read_server_message(value)
        else:
            value = decode(frame, FROM_CLIENT)
            read_client_message(value)
    except ProtocolError as error:
        raise TranscriptError(number, f"the bytes are no message: {error}") from None
    return value


def masked(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return a message without its secrets, and where they were."""
    path = _SECRETS.get(str(message.get("type")))
    body = message.get("body")
    if path is None or not isinstance(body, dict):
        return message, []
    twin = copy.deepcopy(dict(message))
    place: Any = twin["body"]
    for step in path[:-1]:
        place = place.get(step)
        if not isinstance(place, dict):
            return message, []
    if path[-1] not in place:
        return message, []
    place[path[-1]] = ""
    return twin, ["body." + ".".join(path)]
