"""A session with a dispatcher in the same process: the same requests, without codec and socket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from parley_protocol.transcript import masked
from parley_server.engine import PAUSED
from parley_server.host.transcripts import Dialogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_protocol.messages import (
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        WelcomeBody,
    )
    from parley_server.host.session import Session, Sink
    from parley_server.host.transcripts import TranscriptFile

BUDGET = 4096
"""Events after which a quiet stretch is interrupted, to write results and show progress."""


class Decider(Protocol):
    """A dispatcher without a socket."""

    def hello(self) -> HelloBody:
        """Introduce itself."""
        ...

    def begin(self, welcome: WelcomeBody) -> None:
        """Make ready."""
        ...

    def decide(self, request: DecisionRequestBody) -> DecisionReplyBody:
        """Answer one request."""
        ...


def run_in_process(
    session: Session,
    decider: Decider,
    sink: Sink,
    *,
    trace: Callable[[str, str, Any], None] | None = None,
    transcript: TranscriptFile | None = None,
    welcome: WelcomeBody | None = None,
) -> None:
    """Drive a session to its end.

    Args:
        session: Not opened yet.
        decider: Who decides.
        sink: Is told where the time of each request went.
        trace: Is told of each message: its direction, `>` to the dispatcher or `<` from it, its
            type, and its body.
        transcript: Where the messages are written as they would have gone over the wire.
        welcome: That of a decider which has begun already, and has followed the run so far.

    Raises:
        InputError: The workload cannot be read on.
        RunFailed: A decision was refused, and that ends the run.
        Exception: Whatever the dispatcher raises.
    """
    told: _Told | _Silent = _Silent()
    if trace is not None or transcript is not None:
        told = _Told(trace, None if transcript is None else Dialogue(transcript))
    hello = decider.hello()
    told.received("hello", hello, 0)
    if welcome is None:
        welcome = session.open(hello)
        decider.begin(welcome)
    told.sent("welcome", welcome, 0)
    told.received("ready", {}, 0)
    clock = time.perf_counter_ns
    server_began = clock()
    charged = 0
    while True:
        message = session.advance(BUDGET)
        if message is PAUSED:
            sink.tick(clock())
            continue
        now = message["now_us"]
        if "reason" in message:
            told.sent("session.end", message, now, charged)
            return
        asked = clock()
        # Before it thinks, however long: what is known by now is not to wait for it.
        sink.tick(asked)
        told.sent("decision.request", message, now, charged)
        began = clock()
        reply = decider.decide(message)
        answered = clock()
        told.received("decision.reply", reply, now)
        sink.timed(
            now,
            dispatcher_us=(answered - began) // 1000,
            server_us=(began - server_began) // 1000,
            wire_us=0,
        )
        server_began = answered
        charged = session.reply(reply, wall_us=(answered - began) // 1000)


class _Told:
    """Whoever wants to know what is said."""

    def __init__(
        self, trace: Callable[[str, str, Any], None] | None, dialogue: Dialogue | None
    ) -> None:
        self._trace = trace
        self._dialogue = dialogue

    def sent(self, kind: str, body: Any, now: int, charged: int = 0) -> None:
        if self._trace is not None:
            self._trace(">", kind, masked({"type": kind, "body": body})[0]["body"])
        if self._dialogue is not None:
            self._dialogue.sent(kind, body, now_us=now, charged_us=charged)

    def received(self, kind: str, body: Any, now: int) -> None:
        if self._trace is not None:
            self._trace("<", kind, body)
        if self._dialogue is not None:
            self._dialogue.received(kind, body, now_us=now)


class _Silent:
    """Nobody wants to know, as a rule."""

    def sent(self, kind: str, body: Any, now: int, charged: int = 0) -> None:
        pass

    def received(self, kind: str, body: Any, now: int) -> None:
        pass
