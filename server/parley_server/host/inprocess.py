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

_TICK_NS = 5_000_000
"""Wall time after which the sink is given a chance to flush and to show progress."""


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
    told: _Told | None = None
    if trace is not None or transcript is not None:
        told = _Told(trace, None if transcript is None else Dialogue(transcript))
    hello = decider.hello()
    if told is not None:
        told.received("hello", hello, 0)
    if welcome is None:
        welcome = session.open(hello)
        decider.begin(welcome)
    if told is not None:
        told.sent("welcome", welcome, 0)
        told.received("ready", {}, 0)
    clock = time.perf_counter_ns
    advance, decide, reply, timed = session.advance, decider.decide, session.reply, sink.timed
    answered = clock()
    charged = ticked = 0
    while True:
        message = advance(BUDGET)
        if message is PAUSED:
            sink.tick(clock())
            continue
        now = message["now_us"]
        if "reason" in message:
            if told is not None:
                told.sent("session.end", message, now, charged)
            return
        began = clock()
        if began - ticked > _TICK_NS:
            # Before it thinks, however long: what is known by now is not to wait for it.
            sink.tick(began)
            ticked = began
        server_us = (began - answered) // 1000
        if told is not None:
            told.sent("decision.request", message, now, charged)
            began = clock()
        answer = decide(message)
        answered = clock()
        if told is not None:
            told.received("decision.reply", answer, now)
        dispatcher_us = (answered - began) // 1000
        timed(now, dispatcher_us=dispatcher_us, server_us=server_us, wire_us=0)
        charged = reply(answer, wall_us=dispatcher_us)


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
