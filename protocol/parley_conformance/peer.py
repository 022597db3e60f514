"""A dispatcher that sends what its script says: right messages, wrong ones, or mere bytes.

It shares nothing with the client library, so that the two do not make the same mistake, and it
checks nothing unless it is asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgpack
import zmq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType


class NoAnswer(Exception):
    """Nothing came back in time."""


class ScriptedDispatcher:
    """One connection to a server.

    Args:
        endpoint: Where the server listens.
        kind: `DEALER`, or `REQ` to be as plain as a client can be.
        timeout: Seconds to wait for each answer.

    Attributes:
        session: Name and epoch as the welcome gave them.
        seq: Number of the server's last message.
        asked: Number of the last decision request.
    """

    def __init__(self, endpoint: str, *, kind: str = "DEALER", timeout: float = 10.0) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(getattr(zmq, kind))
        self._socket.setsockopt(zmq.LINGER, 0)
        self._prefix: tuple[bytes, ...] = () if kind == "REQ" else (b"",)
        self._timeout_ms = int(timeout * 1000)
        self.session: dict[str, Any] = {}
        self.seq = 0
        self.asked = 0
        self._socket.connect(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Vanish without a word."""
        self._socket.close()
        self._context.term()

    # ------------------------------------------------------------------ frames

    def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames as they are, without the empty one a DEALER has to put first."""
        self._socket.send_multipart(frames)

    def send_bytes(self, payload: bytes) -> None:
        """Send one payload, whatever is in it."""
        self._socket.send_multipart((*self._prefix, payload))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a map, whatever is in it."""
        self.send_bytes(msgpack.packb(message))

    def receive(self) -> dict[str, Any]:
        """Return the next message, undone from MessagePack and not checked.

        Raises:
            NoAnswer: None came in time.
        """
        if not self._socket.poll(self._timeout_ms):
            raise NoAnswer(f"no answer within {self._timeout_ms / 1000:g} s")
        message: dict[str, Any] = msgpack.unpackb(self._socket.recv_multipart()[-1])
        self.seq = message.get("seq") or self.seq
        if message["type"] == "welcome":
            self.session = {"session": message["session"], "epoch": message["epoch"]}
        if message["type"] == "decision.request":
            self.asked = message["seq"]
        return message

    # ------------------------------------------------------------------ the usual messages

    def hello(self, **changes: Any) -> dict[str, Any]:
        """Say hello and return the answer; *changes* go into the body."""
        body = {
            "versions": ["1.0"],
            "client": {"name": "scripted", "version": "0"},
            "ask": "always",
            **changes,
        }
        self.send({"v": 1, "type": "hello", "body": body})
        return self.receive()

    def say(self, kind: str, body: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """Send a message of the session and return the answer; *changes* go into the envelope."""
        self.send({"v": 1, "type": kind, **self.session, "re": self.seq, "body": body, **changes})
        return self.receive()

    def ready(self) -> dict[str, Any]:
        """Say ready and return the first request."""
        return self.say("ready", {})

    def reply(
        self, request: Mapping[str, Any], decisions: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Answer a request and return what comes next; decisions without an id get one."""
        numbered = [{"id": index, **decision} for index, decision in enumerate(decisions)]
        body = {"decisions": numbered, "state_version": request["body"]["state_version"]}
        return self.say("decision.reply", body, re=request["seq"])

    def open(self, **changes: Any) -> dict[str, Any]:
        """Say hello, then ready; return the first request."""
        self.hello(**changes)
        return self.ready()
