"""A dispatcher on the other end of the wire, and what it may say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from parley_protocol.codec import Dialect
from parley_protocol.conversation import Conversation, Role, State
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from parley_server.errors import ParleyError
    from parley_server.host.session import Session, Sink
    from parley_server.host.transcripts import TranscriptFile


class Hosted(Protocol):
    """A run that a session belongs to, as the router needs to know it."""

    @property
    def session(self) -> Session:
        """Where the simulation is."""
        ...

    @property
    def sink(self) -> Sink:
        """Who keeps what it leaves behind."""
        ...

    @property
    def transcript(self) -> TranscriptFile | None:
        """Where its messages are written, if they are."""
        ...

    def finished(self, failure: ParleyError | None) -> None:
        """The session is over: complete if there is no failure, or broken off."""
        ...


@dataclass(slots=True, eq=False)
class Peer:
    """A dispatcher, from the hello that opened its session to the end, and all that resumed it.

    Attributes:
        identity: As the socket calls the one that is heard.
        connection: Number of its connection.
        envelope: Frames to send before an answer.
        seq: Of the last message to it.
        awaited: That of the message which waits for an answer.
        overdue: That of a request whose answer was taken for empty; it will still come.
        charged_us: Simulated time that its last reply was charged.
        farewell: The end of the session, for a peer that owes a message; then nothing else counts.
        gone: Its connection is closed.
        detached: Nobody is heard any more but who resumes the session.
        deadline_ns: When to lose patience with what is waited for.
        now: The simulated instant it was asked about.
        session: Where the simulation is.
    """

    identity: bytes
    hosted: Hosted
    connection: int
    envelope: list[bytes]
    dialect: Dialect = Dialect.MESSAGEPACK
    conversation: Conversation = field(default_factory=Conversation)
    seq: int = 0
    awaited: int = 0
    overdue: int | None = None
    charged_us: int = 0
    farewell: Any = None
    strikes: int = 0
    gone: bool = False
    suspect: bool = False
    detached: bool = False
    deadline_ns: int = 0
    now: int = 0
    asked_ns: int = 0
    answered_ns: int = 0
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.session = self.hosted.session

    @property
    def name(self) -> str:
        """What its session is called."""
        return self.session.name

    def check(self, message: Any) -> None:
        """Find out whether a `ClientMessage` is one that the session waits for.

        Raises:
            ProtocolError: It is not.
        """
        kind = message["type"]
        self.conversation.check(Role.CLIENT, kind)
        if kind == "hello":
            return
        self._check_session(message)
        self._check_re(message["re"], kind, self.awaited)

    def check_overdue(self, message: Any) -> None:
        """Find out the same of a message from one that does not know that it was late.

        Raises:
            ProtocolError: It is not.
        """
        if message["type"] not in {*_SIDE_TALK, "decision.reply"}:
            raise ProtocolError(
                "message.unexpected",
                f"a {message['type']!r} is not legal while a reply is due",
                supported=sorted({*_SIDE_TALK, "decision.reply"}),
            )
        self._check_session(message)
        self._check_re(message["re"], message["type"], self.overdue)

    def take_over(self, identity: bytes, connection: int, envelope: list[bytes]) -> None:
        """Hear another dispatcher in the place of the one before."""
        self.identity = identity
        self.connection = connection
        self.envelope = envelope
        self.conversation = Conversation()
        self.overdue = None
        self.strikes = 0
        self.gone = self.suspect = self.detached = False

    def _check_re(self, re: int, kind: str, due: int | None) -> None:
        if re == due or (kind in _SIDE_TALK and re == self.seq):
            return
        if re > self.seq:
            raise ProtocolError(
                "sequence.future",
                f"an answer to message {re}, {self.seq} was the last",
                "re",
                [str(due)],
            )
        raise ProtocolError(
            "sequence.stale", f"an answer to message {re}, {due} waits for one", "re", [str(due)]
        )

    def _check_session(self, message: Any) -> None:
        session = self.session
        epoch = session.epoch
        if message["session"] != session.name:
            raise ProtocolError(
                "session.unknown",
                f"session {message['session'][:64]!r} is not this one",
                "session",
                [self.name],
            )
        if message["epoch"] < epoch:
            raise ProtocolError(
                "epoch.stale", f"epoch {message['epoch']} is over", "epoch", [str(epoch)]
            )
        if message["epoch"] > epoch:
            raise ProtocolError(
                "epoch.future", f"there is no epoch {message['epoch']} yet", "epoch", [str(epoch)]
            )

    @property
    def waited_for(self) -> bool:
        """Whether a message of it is due."""
        return self.conversation.state in {State.NEGOTIATED, State.DECIDING}


_SIDE_TALK = frozenset({"ping", "bye", "state.request", "progress"})
"""What may be said beside the answer that is due."""
