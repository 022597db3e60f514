"""Who may speak: a session for whoever says hello, or the one that is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from parley_protocol.conversation import Conversation, Role
from parley_protocol.errors import ProtocolError
from parley_server.errors import ParleyError
from parley_server.host.conduct import Conduct
from parley_server.host.peer import Hosted, Peer
from parley_server.host.session import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_protocol.messages import Hello, HelloBody, WelcomeBody
    from parley_server.host.wire import Arrival


class Reception:
    """Knows the open sessions, and makes new ones.

    Args:
        open_hosted: Makes the run for a hello; may raise what `Session.open` raises.
        limit: How many sessions to open in all; None is without limit.
        at_once: How many of them at the same time; None is without limit.

    Attributes:
        sessions: The open ones by name.
        opened: How many there have been.
    """

    def __init__(
        self,
        open_hosted: Callable[[HelloBody], Hosted],
        *,
        limit: int | None,
        at_once: int | None,
    ) -> None:
        self._open = open_hosted
        self._limit = limit
        self._at_once = at_once
        self._tried = 0
        self.opened = 0
        self.sessions: dict[str, Peer] = {}

    def admit(self, arrival: Arrival, hello: Hello) -> tuple[Peer, WelcomeBody]:
        """Return the peer that a hello makes of a stranger, and what to tell it.

        Raises:
            ProtocolError: It is not let in.
        """
        resume = hello["body"].get("resume")
        if resume is not None:
            return self._resumed(arrival, hello["body"], resume["session"])
        return self._begun(arrival, hello["body"])

    def turn_away(self, message: Any) -> NoReturn:
        """Tell a stranger why a `ClientMessage` other than a hello is not listened to.

        Raises:
            ProtocolError: Always.
        """
        name = message["session"]
        peer = self.sessions.get(name)
        if peer is None:
            if self._is_over(name):
                raise ProtocolError("session.over", f"session {name} has ended", fatal=True)
            Conversation().check(Role.CLIENT, message["type"])
        elif peer.detached or message["epoch"] < peer.session.epoch:
            raise ProtocolError(
                "epoch.stale",
                f"session {name} is for others to decide now; only who resumes it is heard",
                "epoch",
                [str(peer.session.epoch)],
                fatal=True,
            )
        raise ProtocolError(
            "session.unknown",
            f"session {name[:64]!r} is not this connection's; say hello with resume",
            "session",
        )

    def _begun(self, arrival: Arrival, hello: HelloBody) -> tuple[Peer, WelcomeBody]:
        self._require_room()
        # Before anything is made for it, such as a directory.
        Terms.agreed(hello, Conduct())
        # Counted whatever comes of it: whoever keeps the runs counts their directories so.
        self._tried += 1
        try:
            hosted = self._open(hello)
        except ParleyError as error:
            raise ProtocolError("server.failed", str(error), fatal=True) from None
        try:
            welcome = hosted.session.open(hello)
        except ParleyError as error:
            hosted.finished(error)
            raise ProtocolError("server.failed", str(error), fatal=True) from None
        if self._at_once is not None:
            welcome["limits"]["sessions"] = self._at_once
        self.opened += 1
        hosted.session.name = str(self._tried)
        peer = Peer(arrival.identity, hosted, arrival.connection, arrival.envelope)
        self.sessions[peer.name] = peer
        return peer, welcome

    def _resumed(self, arrival: Arrival, hello: HelloBody, name: str) -> tuple[Peer, WelcomeBody]:
        peer = self.sessions.get(name)
        if peer is None or peer.farewell is not None:
            if self._is_over(name):
                raise ProtocolError("session.over", f"session {name} has ended", fatal=True)
            raise ProtocolError(
                "session.token",
                f"there is no session {name[:64]!r}",
                "body.resume.session",
                fatal=True,
            )
        welcome = peer.session.resume(hello)
        peer.take_over(arrival.identity, arrival.connection, arrival.envelope)
        return peer, welcome

    def _require_room(self) -> None:
        all_taken = self._limit is not None and self.opened >= self._limit
        if all_taken or (self._at_once is not None and len(self.sessions) >= self._at_once):
            raise ProtocolError("limit.sessions", "no further session is taken here", fatal=True)

    def _is_over(self, name: str) -> bool:
        number = int(name[:20]) if name.isascii() and name.isdecimal() else 0
        return 0 < number <= self._tried and name == str(number)
