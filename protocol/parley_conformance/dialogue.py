"""A dialogue between the kit and a program, as it took place."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parley_conformance import wire
from parley_conformance.verdicts import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_MOST_READ = 2**20
"""Bytes of a frame of the kit's own up to which it is shown as a message."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message, or something else worth telling.

    Attributes:
        number: From 1.
        sender: `program`, `kit`, or `note` for what happened beside the messages.
        at_ms: Wall time since the dialogue began.
        frames: As they were on the wire, the envelope of the socket left out.
        message: What they say, as far as they can be read; None if they cannot.
        faults: Breaches of the encoding.
        peer: Which connection, where the kit has several.
        text: Of a note.
        envelope: The frames before the message, up to the first empty one.
    """

    number: int
    sender: str
    at_ms: int
    frames: tuple[bytes, ...] = ()
    message: dict[str, Any] | None = None
    faults: tuple[wire.Fault, ...] = ()
    peer: str = ""
    text: str = ""
    envelope: tuple[bytes, ...] = ()

    @property
    def kind(self) -> str:
        """The type of the message; empty if there is none."""
        kind = (self.message or {}).get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def body(self) -> dict[str, Any]:
        """The body of the message; empty if there is none."""
        body = (self.message or {}).get("body")
        return body if isinstance(body, dict) else {}


@dataclass(slots=True)
class Record:
    """A dialogue and how it ended.

    Attributes:
        scene: Its name.
        lines: In their order.
        facts: What the scene noted for those who judge.
        broke: Why it ended before its time; empty if it did not.
        fault: What went wrong in the kit itself; empty if nothing did.
        ending: How the program ended.
        status: Its exit status; None if it was ended, or goes on.
        output: What it printed.
    """

    scene: str
    lines: list[Line] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    broke: str = ""
    fault: str = ""
    ending: Ending | None = None
    status: int | None = None
    output: str = ""
    began: float = field(default_factory=time.monotonic)
    took_ms: int = 0
    trace: Callable[[str, Line], None] | None = None

    def heard(
        self, frames: Sequence[bytes], *, peer: str = "", envelope: Sequence[bytes] = ()
    ) -> Line:
        """Note what the program sent."""
        message, faults = wire.read(frames[-1]) if frames else (None, [])
        return self._add("program", tuple(frames), message, faults, peer, envelope=tuple(envelope))

    def said(self, frames: Sequence[bytes], *, peer: str = "") -> Line:
        """Note what the kit sent."""
        # What the kit sends to burden a program need not burden the kit twice.
        brief = frames and len(frames[-1]) < _MOST_READ
        message, _ = wire.read(frames[-1]) if brief else (None, [])
        return self._add("kit", tuple(frames), message, (), peer)

    def note(self, text: str, *, peer: str = "") -> Line:
        """Note what happened beside the messages."""
        return self._add("note", (), None, (), peer, text=text)

    def _add(
        self,
        sender: str,
        frames: tuple[bytes, ...],
        message: dict[str, Any] | None,
        faults: Sequence[wire.Fault],
        peer: str,
        **more: Any,
    ) -> Line:
        at_ms = round((time.monotonic() - self.began) * 1000)
        line = Line(
            len(self.lines) + 1, sender, at_ms, frames, message, tuple(faults), peer, **more
        )
        self.lines.append(line)
        if self.trace is not None:
            self.trace(self.scene, line)
        return line

    def of_program(self, *kinds: str) -> Iterator[Line]:
        """Yield the program's messages, all or those of some types."""
        for line in self.lines:
            if line.sender == "program" and (not kinds or line.kind in kinds):
                yield line

    def of_kit(self, *kinds: str) -> Iterator[Line]:
        """Yield the kit's messages, all or those of some types."""
        for line in self.lines:
            if line.sender == "kit" and (not kinds or line.kind in kinds):
                yield line

    def first(self, kind: str, sender: str = "program") -> Line | None:
        """Return the first message of a type, or None."""
        lines = self.of_program(kind) if sender == "program" else self.of_kit(kind)
        return next(lines, None)
