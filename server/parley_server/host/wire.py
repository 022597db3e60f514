"""The ROUTER socket: frames in, frames out, who is connected and who may be."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import zmq

from parley_protocol.codec import FROM_CLIENT
from parley_server.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from zmq.auth.thread import ThreadAuthenticator

TICK_MS = 100
"""How long to wait for a message before looking around."""

# As numbers: to join flags of an enumeration costs more than to send.
_NOW = int(zmq.DONTWAIT)
_MORE = int(zmq.DONTWAIT | zmq.SNDMORE)

_MOST_UNREAD = 64
_MOST_WAITING = 4
_LINGER_MS = 2000


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys with which a server encrypts, and tells who may speak to it.

    Attributes:
        secret: The server's secret certificate.
        clients: A directory of the public certificates of those who are let in; None lets in
            whoever knows the server's public key.
    """

    secret: Path
    clients: Path | None = None


class Arrival(NamedTuple):
    """A message as it came.

    Attributes:
        identity: Of the peer, as the socket calls it.
        envelope: The frames to send back before an answer.
        payload: The frames behind the first empty one; there should be one.
        connection: Number of the connection, for a peer that was not known; else -1.
    """

    identity: bytes
    envelope: list[bytes]
    payload: list[bytes]
    connection: int


class Wire:
    """A bound ROUTER socket.

    Args:
        endpoint: Where to listen; `tcp://127.0.0.1:*` takes a free port.
        curve: Keys; without them only this machine is listened to.

    Attributes:
        endpoint: Where it listens, with the port.

    Raises:
        UsageError: It cannot listen there.
        InputError: A certificate cannot be read.
    """

    def __init__(self, endpoint: str, curve: Curve | None = None) -> None:
        if curve is None:
            require_loopback(
                endpoint,
                "name the server's key with --curve-secret (parley keys makes one), or listen on "
                "127.0.0.1",
            )
        self._context = zmq.Context()
        self._authenticator: ThreadAuthenticator | None = None
        self._socket = self._context.socket(zmq.ROUTER)
        # A socket looks every name up among its options first, and its own `send` looks for
        # groups: what is called for each frame is looked up once, below that.
        self._recv = self._socket.recv
        self._send = super(zmq.Socket, self._socket).send
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self._configure()
            if curve is not None:
                self._encrypt(curve)
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(f"cannot listen at {endpoint!r}: {error}") from None
        except BaseException:
            self.close()
            raise
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def close(self) -> None:
        """Send what is still on its way and let go of the socket."""
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()

    def receive(self, known: Container[bytes], *, wait: bool) -> Arrival | None:
        """Take one message, if one is there, or comes within a tick.

        Args:
            known: Peers whose connection's number is not asked for: telling it costs.
            wait: Whether to wait at all.
        """
        try:
            # Not polled first: that would cost more than receiving does.
            identity = self._recv(0 if wait else zmq.DONTWAIT)
        except zmq.Again:
            return None
        # A frame knows whether another follows; to ask the socket costs as much as to receive.
        part = self._recv(copy=False)
        connection = -1 if identity in known else int(part.get(zmq.SRCFD))
        frames = [part.bytes]
        while part.more:
            part = self._recv(copy=False)
            frames.append(part.bytes)
        cut = frames.index(b"") + 1 if b"" in frames else len(frames)
        return Arrival(identity, [identity, *frames[:cut]], frames[cut:], connection)

    def send(self, envelope: Sequence[bytes], frame: bytes) -> bool:
        """Send to a peer; whether it is still there."""
        send = self._send
        try:
            for part in envelope:
                send(part, _MORE)
            send(frame, _NOW)
        except zmq.ZMQError as error:
            if error.errno not in {zmq.EHOSTUNREACH, zmq.EAGAIN}:
                raise
            return False
        return True

    def closed_connections(self) -> Iterator[int]:
        """Yield the numbers of the connections that were closed since the last call."""
        while self._monitor.poll(0):
            event, _endpoint = self._monitor.recv_multipart()
            # The event's number in 16 bits, then its value in 32: the manual of
            # zmq_socket_monitor. pyzmq's own reader would bring in asyncio.
            yield int.from_bytes(event[2:6], sys.byteorder)

    def _configure(self) -> None:
        socket = self._socket
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        # Somewhat more than the limit is read, so that who exceeds it is told.
        socket.setsockopt(zmq.MAXMSGSIZE, 4 * FROM_CLIENT.message_bytes)
        # Who does not read its answers is taken for gone, before they fill the memory; and as
        # each message waits for its answer, nobody has a reason to send many.
        socket.setsockopt(zmq.SNDHWM, _MOST_UNREAD)
        socket.setsockopt(zmq.RCVHWM, _MOST_WAITING)
        socket.setsockopt(zmq.RCVTIMEO, TICK_MS)

    def _encrypt(self, curve: Curve) -> None:
        public, secret = read_certificate(curve.secret, secret=True)
        # Few sessions are guarded, and this brings in asyncio.
        from zmq.auth import CURVE_ALLOW_ANY, load_certificates  # noqa: PLC0415
        from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415

        location = CURVE_ALLOW_ANY
        if curve.clients is not None:
            location = str(curve.clients)
            if not curve.clients.is_dir() or not load_certificates(location):
                raise UsageError(f"{location}: holds no public certificate (*.key) of any client")
        # It answers who may connect in a thread of its own: pyzmq's, and the only way it has.
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve(domain="*", location=location)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, secret)


def read_certificate(path: Path, *, secret: bool) -> tuple[bytes, bytes]:
    """Return the public and the secret key of a certificate; without *secret* the latter is empty.

    Raises:
        InputError: It cannot be read, or holds no such key.
    """
    try:
        from zmq.auth import load_certificate  # noqa: PLC0415

        public, private = load_certificate(path)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path}: no certificate: {reason}; parley keys makes them") from None
    if secret and private is None:
        raise InputError(f"{path}: holds a public key only; name the file with the secret one")
    return public, private or b""


def require_loopback(endpoint: str, remedy: str) -> None:
    """Refuse to listen where strangers could speak.

    Args:
        endpoint: Where to listen.
        remedy: What to do instead.

    Raises:
        UsageError: The endpoint is not on this machine's loopback.
    """
    scheme, _, address = endpoint.partition("://")
    if scheme == "ipc" and address:
        return
    host = address.rpartition(":")[0]
    if scheme != "tcp" or not host:
        raise UsageError(f"{endpoint!r} is no endpoint; it looks like tcp://127.0.0.1:5555")
    if host.startswith("127.") or host in {"localhost", "[::1]"}:
        return
    raise UsageError(
        f"{endpoint!r} can be reached from other machines, where nothing would be encrypted or "
        f"authenticated; {remedy}"
    )
