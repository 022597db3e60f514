"""How runs stand, told to whoever listens and heard from nobody: it cannot disturb a run.

A PUB socket beside the sessions' own; it never waits, keeps nothing for slow listeners, and reads
nothing that could change what is simulated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import zmq

from parley_server.errors import UsageError
from parley_server.host.wire import require_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_UNSENT = 4
_MOST_BYTES = 2**24


class Publication:
    """Sends each status to all who listen.

    Args:
        endpoint: Where to listen for them; `tcp://127.0.0.1:*` takes a free port.

    Attributes:
        endpoint: The same, with the port.

    Raises:
        UsageError: It cannot listen there.
    """

    def __init__(self, endpoint: str) -> None:
        require_loopback(endpoint, "let them watch the run's directory, or listen on 127.0.0.1")
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.SNDHWM, _MOST_UNSENT)
        self._socket.setsockopt(zmq.LINGER, 500)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(f"cannot listen at {endpoint!r}: {error}") from None
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def send(self, statuses: Sequence[Any]) -> None:
        """Tell how runs stand; who does not keep up misses it."""
        try:
            self._socket.send(json.dumps(list(statuses)).encode(), zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno != zmq.EAGAIN:
                raise

    def close(self) -> None:
        """Let go of the socket; the last status is given half a second to get away."""
        self._socket.close()
        self._context.term()


class Subscription:
    """Hears how runs stand.

    Args:
        endpoint: Where they are told.

    Raises:
        UsageError: It is no endpoint.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        # Only the newest counts.
        self._socket.setsockopt(zmq.RCVHWM, _MOST_UNSENT)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _MOST_BYTES)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.subscribe(b"")
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(
                f"{endpoint!r} is no endpoint ({error}); it looks like tcp://127.0.0.1:5555"
            ) from None

    def receive(self, seconds: float) -> bytes | None:
        """Return the next message; None if none comes in time."""
        if not self._socket.poll(round(seconds * 1000)):
            return None
        return self._socket.recv()

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()
        self._context.term()
