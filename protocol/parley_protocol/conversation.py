"""The legal conversation, as one table: who may say what, when, and what comes of it.

Strict alternation: the client speaks first, and each of its messages gets exactly one answer.
An answer of type `error` that is not fatal leaves both sides where they were before the message
that it refuses; a fatal one ends the session from any state.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Role(Enum):
    """The two sides."""

    # By identity, which is what members are compared by: an enumeration's own hash is a call.
    __hash__ = object.__hash__

    CLIENT = "client"
    SERVER = "server"


class State(Enum):
    """Where a session stands; each state belongs to the side whose turn it is."""

    __hash__ = object.__hash__

    NEW = "new"
    GREETED = "greeted"
    NEGOTIATED = "negotiated"
    NEGOTIATED_PINGED = "negotiated, pinged"
    RUNNING = "running"
    DECIDING = "deciding"
    DECIDING_PINGED = "deciding, pinged"
    DECIDING_STATE_ASKED = "deciding, state asked"
    DECIDING_TIME_ASKED = "deciding, time asked"
    LEAVING = "leaving"
    ENDED = "ended"


NEXT: Mapping[tuple[State, Role, str], State] = {
    (State.NEW, Role.CLIENT, "hello"): State.GREETED,
    (State.GREETED, Role.SERVER, "welcome"): State.NEGOTIATED,
    (State.NEGOTIATED, Role.CLIENT, "ready"): State.RUNNING,
    (State.NEGOTIATED, Role.CLIENT, "ping"): State.NEGOTIATED_PINGED,
    (State.NEGOTIATED, Role.CLIENT, "bye"): State.LEAVING,
    (State.NEGOTIATED_PINGED, Role.SERVER, "pong"): State.NEGOTIATED,
    (State.RUNNING, Role.SERVER, "decision.request"): State.DECIDING,
    (State.RUNNING, Role.SERVER, "session.end"): State.ENDED,
    (State.DECIDING, Role.CLIENT, "decision.reply"): State.RUNNING,
    (State.DECIDING, Role.CLIENT, "ping"): State.DECIDING_PINGED,
    (State.DECIDING, Role.CLIENT, "bye"): State.LEAVING,
    (State.DECIDING_PINGED, Role.SERVER, "pong"): State.DECIDING,
    (State.DECIDING, Role.CLIENT, "state.request"): State.DECIDING_STATE_ASKED,
    (State.DECIDING_STATE_ASKED, Role.SERVER, "state.snapshot"): State.DECIDING,
    (State.DECIDING, Role.CLIENT, "progress"): State.DECIDING_TIME_ASKED,
    (State.DECIDING_TIME_ASKED, Role.SERVER, "progress.ack"): State.DECIDING,
    (State.LEAVING, Role.SERVER, "session.end"): State.ENDED,
}


def legal(state: State, role: Role) -> list[str]:
    """Return the types of message that *role* may send in *state*, ascending."""
    return sorted(kind for (at, who, kind) in NEXT if at is state and who is role)


class Conversation:
    """One session's place in the table, as either side keeps it."""

    def __init__(self) -> None:
        self.state = State.NEW

    @property
    def over(self) -> bool:
        """Whether nothing may be said any more."""
        return self.state is State.ENDED

    def check(self, role: Role, kind: str) -> State:
        """Return the state that a message would lead to; nothing changes.

        Raises:
            ProtocolError: The message is not legal now.
        """
        state = NEXT.get((self.state, role, kind))
        if state is None:
            raise ProtocolError(
                "message.unexpected",
                f"a {kind!r} from the {role.value} is not legal while the session is "
                f"{self.state.value}",
                supported=legal(self.state, role),
            )
        return state

    def follow(self, role: Role, kind: str) -> None:
        """Go where the message leads.

        Raises:
            ProtocolError: The message is not legal now.
        """
        self.state = self.check(role, kind)

    def fail(self) -> None:
        """End here: a fatal error was sent or received."""
        self.state = State.ENDED
