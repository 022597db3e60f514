"""A session with a dispatcher in the same process: the same requests, without codec and socket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from parley_server.engine import PAUSED

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_protocol.messages import (
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        WelcomeBody,
    )
    from parley_server.host.session import Session, Sink

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
) -> None:
    """Drive a session to its end.

    Args:
        session: Not opened yet.
        decider: Who decides.
        sink: Is told where the time of each request went.
        trace: Is told of each message: its direction, `>` to the dispatcher or `<` from it, its
            type, and its body.

    Raises:
        InputError: The workload cannot be read on.
        Exception: Whatever the dispatcher raises.
    """
    tell = trace or _nobody
    hello = decider.hello()
    tell("<", "hello", hello)
    welcome = session.open(hello)
    tell(">", "welcome", welcome)
    decider.begin(welcome)
    clock = time.perf_counter_ns
    server_began = clock()
    while True:
        message = session.advance(BUDGET)
        if message is PAUSED:
            sink.tick(clock())
            continue
        if "reason" in message:
            tell(">", "session.end", message)
            return
        asked = clock()
        # Before it thinks, however long: what is known by now is not to wait for it.
        sink.tick(asked)
        tell(">", "decision.request", message)
        reply = decider.decide(message)
        tell("<", "decision.reply", reply)
        answered = clock()
        sink.timed(
            message["now_us"],
            dispatcher_us=(answered - asked) // 1000,
            server_us=(asked - server_began) // 1000,
            wire_us=0,
        )
        server_began = answered
        session.reply(reply)


def _nobody(direction: str, kind: str, body: Any) -> None:
    pass
