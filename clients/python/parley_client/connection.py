"""The loop between a dispatcher and a server, over ZeroMQ."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import zmq

from parley_client.dispatcher import Dispatcher, PolicyLike
from parley_client.errors import ClientError, WrongUsage
from parley_client.ticket import Ticket, TicketFile
from parley_protocol.codec import FROM_CLIENT, FROM_SERVER, decode, encode, read_server_message
from parley_protocol.conversation import Conversation, Role
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TypeAlias

    from parley_client.allocators import Allocator
    from parley_protocol.messages import (
        DecisionRequest,
        Error,
        Pong,
        ProgressAck,
        SessionEnd,
        SessionEndBody,
        StateSnapshot,
        Welcome,
    )

    ServerAnswer: TypeAlias = (
        Welcome | DecisionRequest | StateSnapshot | ProgressAck | SessionEnd | Pong
    )

_TICK_MS = 1000
"""How often a waiting client looks whether its server is still there, milliseconds."""

# As a number: to join flags of an enumeration costs more than to send.
_MORE = int(zmq.SNDMORE)

# An enumeration takes as long to name its member as a call does.
_CLIENT: Final = Role.CLIENT
_SERVER: Final = Role.SERVER


class ConnectionLost(ClientError):
    """The server is gone, or never was there."""


class ServerRefused(ClientError):
    """The server sent an error, or something that is not the protocol.

    Attributes:
        code: The error's code; None if there was none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """With what to encrypt, and prove who one is.

    Attributes:
        server: The server's public certificate.
        secret: One's own secret certificate; None makes a key for this once, which will do where
            the server lets in whoever knows its public key.
    """

    server: Path
    secret: Path | None = None


def serve(
    policy: PolicyLike,
    endpoint: str | None = None,
    *,
    allocator: Allocator | str = "first-fit",
    ask: Literal["always", "actionable"] | None = None,
    scenario: str | None = None,
    timeout: float = 60.0,
    parameters: Mapping[str, str | int | float | bool] | None = None,
    curve: CurveKeys | None = None,
    session_file: Path | None = None,
) -> SessionEndBody:
    """Decide for a server until its run is over.

    Args:
        policy: A policy, a function that takes the view, or the name of a policy.
        endpoint: Where the server listens; None takes it from `PARLEY_ENDPOINT`.
        allocator: An allocator, or the name of one.
        ask: When to be asked; None leaves it to the policy.
        scenario: Which, where a server offers several.
        timeout: How long to wait for the server to appear, seconds.
        parameters: Of a policy that is given by its name.
        curve: Keys, where the server wants them.
        session_file: Where to keep what it takes to go on after a crash. If the file is there,
            the session in it is taken up instead of a new one.

    Returns:
        The body of the server's last message: why the run ended, and the jobs by their end.

    Raises:
        ConnectionLost: The server did not appear, or went away.
        ServerRefused: The server sent an error, or something that is not the protocol.
        WrongUsage: No endpoint is known, or it is none, or a name stands for nothing.
        ClientError: The policy did something impossible.
    """
    endpoint = endpoint or os.environ.get("PARLEY_ENDPOINT")
    if not endpoint:
        raise WrongUsage(
            "where is the server? pass an endpoint, or set PARLEY_ENDPOINT (parley run sets it)"
        )
    dispatcher = Dispatcher(
        policy, allocator=allocator, ask=ask, scenario=scenario, parameters=parameters
    )
    file = TicketFile(session_file)
    session = _Session(dispatcher, file)
    while True:
        try:
            with _Connection(endpoint, timeout, curve) as connection:
                end = session.converse(connection)
        except ConnectionLost:
            if not session.waited_for:
                raise
        except ServerRefused as error:
            if error.code == "session.over":
                file.forget()
            raise
        else:
            file.forget()
            return end


class _Session:
    """A dispatcher's side of a session, over as many connections as it takes.

    Attributes:
        waited_for: The server holds the session for whoever resumes it.
    """

    def __init__(self, dispatcher: Dispatcher, file: TicketFile) -> None:
        self._dispatcher = dispatcher
        self._file = file
        self._ticket = file.find()
        self.waited_for = False

    def converse(self, connection: _Connection) -> SessionEndBody:
        """Decide until the run is over.

        Raises:
            ClientError: It does not come to that.
        """
        dispatcher = self._dispatcher
        hello = dispatcher.hello()
        if self._ticket is not None:
            hello["resume"] = {"session": self._ticket.session, "token": self._ticket.token}
        self.waited_for = False
        message = connection.ask("hello", hello)
        if message["type"] != "welcome":
            raise ServerRefused(f"a welcome was due, the server sent {message['type']!r}")
        self._join(connection, message)
        dispatcher.begin(message["body"])
        message = connection.ask("ready", {})
        while message["type"] == "decision.request":
            began = time.perf_counter_ns()
            reply = dispatcher.decide(message["body"])
            reply["compute_us"] = (time.perf_counter_ns() - began) // 1000
            message = connection.ask("decision.reply", reply, re=message["seq"])
        if message["type"] != "session.end":
            raise ServerRefused(f"a request was due, the server sent {message['type']!r}")
        return message["body"]

    def _join(self, connection: _Connection, welcome: Welcome) -> None:
        connection.join(welcome)
        self._ticket = Ticket(welcome["session"], welcome["body"]["token"])
        self._file.keep(self._ticket)
        self.waited_for = welcome["body"]["policy"]["on_disconnect"] == "wait"


class _Connection:
    """One session's socket: a message out, a message in."""

    def __init__(self, endpoint: str, timeout: float, curve: CurveKeys | None) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        # A socket looks every name up among its options first, and its own `send` looks for
        # groups: what is called for each frame is looked up once, below that.
        self._recv = self._socket.recv
        self._send = super(zmq.Socket, self._socket).send
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.RCVTIMEO, _TICK_MS)
        # A server that turns the connection away leaves nobody to send to.
        self._socket.setsockopt(zmq.SNDTIMEO, max(1, round(timeout * 1000)))
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._conversation = Conversation()
        self._envelope: dict[str, Any] = {"v": 1}
        self._re = 0
        self._most_bytes = FROM_CLIENT.message_bytes
        try:
            if curve is not None:
                self._encrypt(curve)
            self._socket.connect(endpoint)
        except WrongUsage:
            self.__exit__()
            raise
        except zmq.ZMQError as error:
            self.__exit__()
            raise WrongUsage(
                f"{endpoint!r} is no endpoint to connect to ({error}); "
                "it looks like tcp://127.0.0.1:5555"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def _encrypt(self, curve: CurveKeys) -> None:
        from zmq.auth import load_certificate  # noqa: PLC0415 - few connections have keys

        try:
            server, _ = load_certificate(curve.server)
            public: bytes
            secret: bytes | None
            if curve.secret is None:
                public, secret = zmq.curve_keypair()
            else:
                public, secret = load_certificate(curve.secret)
        except (OSError, ValueError) as error:
            raise WrongUsage(f"no certificate: {error}; parley keys makes them") from None
        if secret is None:
            raise WrongUsage(f"{curve.secret}: holds a public key only; name the secret one")
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, server)
        self._socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, secret)

    def join(self, welcome: Welcome) -> None:
        """Speak in the session of the welcome from now on."""
        self._envelope["session"] = welcome["session"]
        self._envelope["epoch"] = welcome["epoch"]
        self._most_bytes = welcome["body"]["limits"]["message_bytes"]

    def ask(self, kind: str, body: Any, *, re: int | None = None) -> ServerAnswer:
        """Send a message and return the server's answer to it.

        Raises:
            ConnectionLost: None came.
            ServerRefused: An error came, or something that is not the protocol.
        """
        self._conversation.follow(_CLIENT, kind)
        message = {**self._envelope, "type": kind, "body": body}
        if kind != "hello":
            message["re"] = self._re if re is None else re
        frame = encode(message)
        if len(frame) > self._most_bytes:
            raise ClientError(f"a {kind} of {len(frame)} bytes is more than a server takes")
        try:
            self._send(b"", _MORE)
            self._send(frame)
        except zmq.Again:
            raise ConnectionLost(
                f"no server answered at {self._endpoint} within {self._timeout:g} s"
            ) from None
        return self._receive(patient=kind != "hello")

    def _receive(self, *, patient: bool) -> ServerAnswer:
        frame = self._wait(patient=patient)
        try:
            message = read_server_message(decode(frame, FROM_SERVER))
            if message["type"] == "error":
                raise ServerRefused(_told(message), message["body"]["code"])
            self._conversation.follow(_SERVER, message["type"])
        except ProtocolError as error:
            raise ServerRefused(f"the server does not speak the protocol: {error}") from None
        self._re = message["seq"]
        return message

    def _wait(self, *, patient: bool) -> bytes:
        """Wait for a message: the first for a while, the others as long as the server lives."""
        began = time.monotonic()
        while True:
            try:
                # Not polled first: that would cost more than receiving does.
                return self._last_part()
            except zmq.Again:
                if patient:
                    self._look_for_server()
                elif time.monotonic() - began > self._timeout:
                    raise ConnectionLost(
                        f"no server answered at {self._endpoint} within {self._timeout:g} s"
                    ) from None

    def _last_part(self) -> bytes:
        # A frame knows whether another follows; to ask the socket costs as much as to receive.
        part = self._recv(copy=False)
        while part.more:
            part = self._recv(copy=False)
        return part.bytes

    def _look_for_server(self) -> None:
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            if not self._socket.poll(0):
                raise ConnectionLost(f"the server at {self._endpoint} is gone")


def _told(message: Error) -> str:
    body = message["body"]
    where = f" ({body['path']})" if body.get("path") else ""
    supported = body.get("supported")
    instead = f"; expected: {', '.join(supported)}" if supported else ""
    return f"the server says {body['code']}: {body['message']}{where}{instead}"
