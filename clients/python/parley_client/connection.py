"""The loop between a dispatcher and a server, over ZeroMQ."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal, Self

import zmq
from zmq.utils.monitor import recv_monitor_message

from parley_client.dispatcher import Dispatcher, PolicyLike
from parley_client.errors import ClientError, WrongUsage
from parley_protocol.codec import FROM_CLIENT, decode, encode, read_server_message
from parley_protocol.conversation import Conversation, Role
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_client.allocators import Allocator
    from parley_protocol.messages import (
        DecisionRequest,
        Error,
        Pong,
        SessionEnd,
        SessionEndBody,
        Welcome,
    )

_TICK_MS = 1000
"""How often a waiting client looks whether its server is still there, milliseconds."""


class ConnectionLost(ClientError):
    """The server is gone, or never was there."""


class ServerRefused(ClientError):
    """The server sent an error, or something that is not the protocol."""


def serve(
    policy: PolicyLike,
    endpoint: str | None = None,
    *,
    allocator: Allocator | str = "first-fit",
    ask: Literal["always", "actionable"] | None = None,
    scenario: str | None = None,
    timeout: float = 60.0,
    parameters: Mapping[str, str | int | float | bool] | None = None,
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
    with _Connection(endpoint, timeout) as connection:
        return _converse(dispatcher, connection)


def _converse(dispatcher: Dispatcher, connection: _Connection) -> SessionEndBody:
    message = connection.ask("hello", dispatcher.hello())
    if message["type"] != "welcome":
        raise ServerRefused(f"a welcome was due, the server sent {message['type']!r}")
    connection.join(message)
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


class _Connection:
    """One session's socket: a message out, a message in."""

    def __init__(self, endpoint: str, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.RCVTIMEO, _TICK_MS)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._conversation = Conversation()
        self._envelope: dict[str, Any] = {"v": 1}
        self._re = 0
        try:
            self._socket.connect(endpoint)
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

    def join(self, welcome: Welcome) -> None:
        """Speak in the session of the welcome from now on."""
        self._envelope["session"] = welcome["session"]
        self._envelope["epoch"] = welcome["epoch"]

    def ask(
        self, kind: str, body: Any, *, re: int | None = None
    ) -> Welcome | DecisionRequest | SessionEnd | Pong:
        """Send a message and return the server's answer to it.

        Raises:
            ConnectionLost: None came.
            ServerRefused: An error came, or something that is not the protocol.
        """
        self._conversation.follow(Role.CLIENT, kind)
        message = {**self._envelope, "type": kind, "body": body}
        if kind != "hello":
            message["re"] = self._re if re is None else re
        frame = encode(message)
        if len(frame) > FROM_CLIENT.message_bytes:
            raise ClientError(f"a {kind} of {len(frame)} bytes is more than a server takes")
        self._socket.send_multipart((b"", frame))
        return self._receive(patient=kind != "hello")

    def _receive(self, *, patient: bool) -> Welcome | DecisionRequest | SessionEnd | Pong:
        frames = self._wait(patient=patient)
        try:
            message = read_server_message(decode(frames[-1]))
            if message["type"] == "error":
                raise ServerRefused(_told(message))
            self._conversation.follow(Role.SERVER, message["type"])
        except ProtocolError as error:
            raise ServerRefused(f"the server does not speak the protocol: {error}") from None
        self._re = message["seq"]
        return message

    def _wait(self, *, patient: bool) -> list[bytes]:
        """Wait for a message: the first for a while, the others as long as the server lives."""
        began = time.monotonic()
        while True:
            try:
                # Not polled first: that would cost more than receiving does.
                return self._socket.recv_multipart()
            except zmq.Again:
                if patient:
                    self._look_for_server()
                elif time.monotonic() - began > self._timeout:
                    raise ConnectionLost(
                        f"no server answered at {self._endpoint} within {self._timeout:g} s"
                    ) from None

    def _look_for_server(self) -> None:
        while self._monitor.poll(0):
            recv_monitor_message(self._monitor)
            if not self._socket.poll(0):
                raise ConnectionLost(f"the server at {self._endpoint} is gone")


def _told(message: Error) -> str:
    body = message["body"]
    where = f" ({body['path']})" if body.get("path") else ""
    supported = body.get("supported")
    instead = f"; expected: {', '.join(supported)}" if supported else ""
    return f"the server says {body['code']}: {body['message']}{where}{instead}"
