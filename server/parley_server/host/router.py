"""Many sessions on one ZeroMQ ROUTER socket, without a thread.

A session is an engine that waits for a reply. The loop takes whatever has arrived, gives each
session that has something to simulate a bounded turn, and looks at the clock; no dispatcher and
no long quiet stretch keeps another session waiting.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import zmq
from zmq.utils.monitor import recv_monitor_message

from parley_protocol.codec import FROM_CLIENT, decode, encode, read_client_message
from parley_protocol.conversation import Conversation, Role, State
from parley_protocol.errors import ProtocolError
from parley_server.engine import PAUSED
from parley_server.errors import ParleyError, RunFailed, UsageError
from parley_server.host.inprocess import BUDGET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley_protocol.messages import ClientMessage, DecisionReply, HelloBody
    from parley_server.host.session import Session, Sink

STRIKES = 3
"""Messages that cannot be decoded before a session fails."""

_TICK_NS = 100_000_000
"""How often deadlines and child processes are looked at, nanoseconds."""

_MOST_STRANGERS = 1024
_MOST_UNREAD = 64
_LINGER_MS = 2000


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

    def finished(self, failure: ParleyError | None) -> None:
        """The session is over: complete if there is no failure, or broken off."""
        ...


@dataclass(slots=True)
class _Peer:
    """A dispatcher on the other end, from its hello to its end."""

    identity: bytes
    hosted: Hosted
    name: str
    connection: int
    epoch: int = 1
    conversation: Conversation = field(default_factory=Conversation)
    envelope: list[bytes] = field(default_factory=list)
    seq: int = 0
    awaited: int = 0
    strikes: int = 0
    deadline_ns: int = 0
    now: int = 0
    asked_ns: int = 0
    answered_ns: int = 0
    gone: bool = False
    suspect: bool = False


class Router:
    """A server of sessions.

    Args:
        endpoint: Where to listen; `tcp://127.0.0.1:*` takes a free port.
        open_hosted: Makes the run for a hello; may raise what `Session.open` raises.
        limit: How many sessions to host in all; None is without limit.
        trace: Is told of each message: its direction, `>` to a dispatcher or `<` from one, its
            type, and its body.

    Attributes:
        endpoint: Where it listens, with the port.
        finished: How many sessions are over.
        refused: The last fatal error sent to somebody before there was any session.

    Raises:
        UsageError: It cannot listen there.
    """

    def __init__(
        self,
        endpoint: str,
        open_hosted: Callable[[HelloBody], Hosted],
        *,
        limit: int | None = None,
        trace: Callable[[str, str, Any], None] | None = None,
    ) -> None:
        _require_loopback(endpoint)
        self._open = open_hosted
        self._limit = limit
        self._trace = trace
        self._opened = 0
        self.finished = 0
        self.refused: ProtocolError | None = None
        self._peers: dict[bytes, _Peer] = {}
        self._strangers: OrderedDict[bytes, int] = OrderedDict()
        self._runnable: deque[_Peer] = deque()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, FROM_CLIENT.message_bytes)
        # Who does not read its answers is taken for gone, before they fill the memory.
        self._socket.setsockopt(zmq.SNDHWM, _MOST_UNREAD)
        self._socket.setsockopt(zmq.RCVTIMEO, _TICK_NS // 1_000_000)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UsageError(f"cannot listen at {endpoint!r}: {error}") from None
        self.endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def close(self) -> None:
        """Send what is still on its way and let go of the socket."""
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def run(self, watch: Callable[[], None] | None = None) -> None:
        """Host sessions until as many as the limit says are over.

        Args:
            watch: Called about ten times a second; what it raises ends the loop.
        """
        looked_ns = 0
        runnable = self._runnable
        while self._limit is None or self.finished < self._limit:
            self._receive(zmq.DONTWAIT if runnable else 0)
            if runnable:
                self._advance(runnable.popleft())
            clock_ns = time.perf_counter_ns()
            if clock_ns - looked_ns > _TICK_NS:
                looked_ns = clock_ns
                self._look_around(clock_ns)
                if watch is not None:
                    watch()

    def fail_all(self, failure: ParleyError) -> None:
        """Break every open session off and tell its dispatcher."""
        for peer in list(self._peers.values()):
            self._fail(peer, failure, _explanation(failure))

    # ------------------------------------------------------------------ receiving

    def _receive(self, flags: int) -> None:
        """Take one message, if one comes soon, and see to it that it gets its one answer."""
        try:
            # Not polled first: that would cost more than receiving does.
            identity = self._socket.recv(flags)
        except zmq.Again:
            return
        peer = self._peers.get(identity)
        if peer is not None:
            frames, connection = self._socket.recv_multipart(), peer.connection
        else:
            frames, connection = self._receive_from_stranger()
        try:
            cut = frames.index(b"") + 1
        except ValueError:
            cut = len(frames)
        envelope = [identity, *frames[:cut]]
        if peer is not None:
            peer.envelope = envelope
        try:
            message = _decode(frames[cut:])
            if peer is None:
                self._greet(envelope, message, connection)
            else:
                self._converse(peer, message)
        except ProtocolError as error:
            self._refuse(identity, envelope, error)
        except ParleyError as error:
            if peer is None:
                raise
            self._fail(peer, error, _explanation(error))

    def _receive_from_stranger(self) -> tuple[list[bytes], int]:
        """Return a message's frames and the number of the connection they came by."""
        parts = self._socket.recv_multipart(copy=False)
        # Numbers are used again: those that are gone must be forgotten before one of them is new.
        self._note_disconnections()
        return [part.bytes for part in parts], int(parts[0].get(zmq.SRCFD))

    def _note_disconnections(self) -> None:
        """Mark the peers whose connection was closed, as the socket's monitor tells it."""
        while self._monitor.poll(0):
            connection = recv_monitor_message(self._monitor)["value"]
            for peer in self._peers.values():
                peer.gone |= peer.connection == connection

    def _greet(self, envelope: list[bytes], message: ClientMessage, connection: int) -> None:
        """Open a session for whoever says hello."""
        if message["type"] != "hello":
            Conversation().check(Role.CLIENT, message["type"])
            return
        if self._limit is not None and self._opened >= self._limit:
            raise ProtocolError("limit.sessions", "no further session is taken here", fatal=True)
        body = message["body"]
        self._tell("<", "hello", body)
        try:
            hosted = self._open(body)
        except ParleyError as error:
            raise ProtocolError("server.failed", str(error), fatal=True) from None
        try:
            welcome = hosted.session.open(body)
        except ProtocolError as error:
            hosted.finished(RunFailed("refused", f"the dispatcher was refused: {error}"))
            raise
        except ParleyError as error:
            hosted.finished(error)
            raise ProtocolError("server.failed", str(error), fatal=True) from None
        self._opened += 1
        peer = _Peer(envelope[0], hosted, secrets.token_hex(8), connection, envelope=envelope)
        peer.conversation.follow(Role.CLIENT, "hello")
        self._peers[peer.identity] = peer
        self._strangers.pop(peer.identity, None)
        self._say(peer, "welcome", welcome)
        self._await(peer)

    def _converse(self, peer: _Peer, message: ClientMessage) -> None:
        kind = message["type"]
        peer.conversation.check(Role.CLIENT, kind)
        if message["type"] == "hello":
            return
        if message["session"] != peer.name or message["epoch"] != peer.epoch:
            raise ProtocolError(
                "session.unknown",
                f"session {message['session'][:64]!r}, epoch {message['epoch']} is not open here",
                "session",
                [peer.name],
            )
        expected = peer.seq if message["type"] in {"ping", "bye"} else peer.awaited
        if message["re"] != expected and message["re"] != peer.awaited:
            raise ProtocolError(
                "sequence.mismatch",
                f"an answer to message {message['re']}, {peer.awaited} waits for one",
                "re",
                [str(peer.awaited)],
            )
        if message["type"] != "decision.reply":
            self._tell("<", kind, message["body"])
        match message["type"]:
            case "ready":
                peer.conversation.follow(Role.CLIENT, kind)
                peer.answered_ns = time.perf_counter_ns()
                self._runnable.append(peer)
            case "decision.reply":
                self._on_reply(peer, message)
            case "ping":
                peer.conversation.follow(Role.CLIENT, kind)
                self._say(peer, "pong", {})
            case "bye":
                peer.conversation.follow(Role.CLIENT, kind)
                self._on_bye(peer)

    def _on_reply(self, peer: _Peer, message: DecisionReply) -> None:
        arrived = time.perf_counter_ns()
        body = message["body"]
        self._tell("<", "decision.reply", body)
        peer.hosted.session.reply(body)
        peer.conversation.follow(Role.CLIENT, "decision.reply")
        round_trip_us = (arrived - peer.asked_ns) // 1000
        dispatcher_us = min(body.get("compute_us") or 0, round_trip_us)
        peer.hosted.sink.timed(
            peer.now,
            dispatcher_us=dispatcher_us,
            server_us=(peer.asked_ns - peer.answered_ns) // 1000,
            wire_us=round_trip_us - dispatcher_us,
        )
        peer.answered_ns = arrived
        self._runnable.append(peer)

    def _on_bye(self, peer: _Peer) -> None:
        self._say(peer, "session.end", peer.hosted.session.end_body("bye"))
        self._forget(
            peer, RunFailed("dispatcher_left", "the dispatcher said bye before the run was over")
        )

    # ------------------------------------------------------------------ advancing

    def _advance(self, peer: _Peer) -> None:
        """Give a session a turn; it is then asked, over, or runnable again."""
        hosted = peer.hosted
        try:
            message = hosted.session.advance(BUDGET)
            hosted.sink.tick(peer.answered_ns)
        except ParleyError as error:
            self._fail(peer, error, _explanation(error))
            return
        if message is PAUSED:
            self._runnable.append(peer)
        elif "reason" in message:
            self._say(peer, "session.end", message)
            try:
                hosted.session.require_completed()
            except RunFailed as failure:
                self._forget(peer, failure)
            else:
                self._forget(peer, None)
        else:
            peer.now = message["now_us"]
            self._say(peer, "decision.request", message)
            self._await(peer)

    def _await(self, peer: _Peer) -> None:
        """Wait for the answer to what was said just now, but not for ever."""
        peer.awaited = peer.seq
        peer.asked_ns = time.perf_counter_ns()
        peer.deadline_ns = peer.asked_ns + peer.hosted.session.offer.deadline_us * 1000

    def _look_around(self, clock_ns: int) -> None:
        self._note_disconnections()
        for peer in list(self._peers.values()):
            try:
                peer.hosted.sink.tick(clock_ns)
                self._look_after(peer, clock_ns)
            except ParleyError as error:
                self._fail(peer, error, _explanation(error))

    def _look_after(self, peer: _Peer, clock_ns: int) -> None:
        """Raise what a peer has failed of: it is gone, or late.

        What it sent last may wait to be read; so it is only suspected at first, and failed at the
        next look, a tenth of a second and at least one message later.
        """
        waiting = peer.conversation.state in {State.NEGOTIATED, State.DECIDING}
        late = waiting and clock_ns > peer.deadline_ns
        if not late and not peer.gone:
            peer.suspect = False
        elif not peer.suspect:
            peer.suspect = True
        elif peer.gone:
            raise RunFailed("dispatcher_lost", "the dispatcher has closed its connection")
        else:
            what = "ready" if peer.conversation.state is State.NEGOTIATED else "reply"
            limit_s = peer.hosted.session.offer.deadline_us / 1e6
            raise RunFailed(
                "deadline_missed",
                f"the dispatcher sent no {what} within {limit_s:g} s (--deadline)",
            )

    # ------------------------------------------------------------------ sending

    def _say(self, peer: _Peer, kind: str, body: Any) -> None:
        peer.conversation.follow(Role.SERVER, kind)
        self._post(peer, kind, body)

    def _post(self, peer: _Peer, kind: str, body: Any) -> None:
        peer.seq += 1
        self._tell(">", kind, body)
        message = {
            "v": 1,
            "type": kind,
            "session": peer.name,
            "epoch": peer.epoch,
            "seq": peer.seq,
            "body": body,
        }
        peer.gone |= not self._send(peer.envelope, message)

    def _send(self, envelope: Sequence[bytes], message: dict[str, Any]) -> bool:
        """Send to a peer; whether it is still there."""
        try:
            self._socket.send_multipart([*envelope, encode(message)], zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno not in {zmq.EHOSTUNREACH, zmq.EAGAIN}:
                raise
            return False
        return True

    def _refuse(self, identity: bytes, envelope: Sequence[bytes], error: ProtocolError) -> None:
        """Answer a message that counts as never sent; too many of them end the session."""
        peer = self._peers.get(identity)
        strikes = 0
        if error.code in {"encoding.malformed", "message.invalid"}:
            strikes = self._strike(identity, peer)
        if strikes >= STRIKES:
            error = ProtocolError(
                "message.undecodable",
                f"{strikes} messages could not be decoded; the last: {error}",
                fatal=True,
            )
        if peer is None:
            self._tell(">", "error", error.body())
            self._send(envelope, {"v": 1, "type": "error", "body": error.body()})
            if error.fatal and not self._opened:
                self.refused = error
        elif error.fatal:
            self._fail(peer, RunFailed("protocol_error", f"the dispatcher: {error}"), error)
        else:
            self._post(peer, "error", error.body())

    def _strike(self, identity: bytes, peer: _Peer | None) -> int:
        if peer is not None:
            peer.strikes += 1
            return peer.strikes
        strikes = self._strangers.pop(identity, 0) + 1
        self._strangers[identity] = strikes
        if len(self._strangers) > _MOST_STRANGERS:
            self._strangers.popitem(last=False)
        return strikes

    def _fail(self, peer: _Peer, failure: ParleyError, error: ProtocolError) -> None:
        peer.conversation.fail()
        self._post(peer, "error", error.body())
        self._forget(peer, failure)

    def _forget(self, peer: _Peer, failure: ParleyError | None) -> None:
        del self._peers[peer.identity]
        if peer in self._runnable:
            self._runnable.remove(peer)
        self.finished += 1
        peer.hosted.finished(failure)

    def _tell(self, direction: str, kind: str, body: Any) -> None:
        if self._trace is not None:
            self._trace(direction, kind, body)


def _explanation(error: ParleyError) -> ProtocolError:
    """Return what a dispatcher is told of why its session failed."""
    if isinstance(error, RunFailed) and error.reason == "deadline_missed":
        return ProtocolError("deadline.missed", str(error), fatal=True)
    return ProtocolError("server.failed", str(error), fatal=True)


def _decode(payload: list[bytes]) -> ClientMessage:
    if len(payload) != 1:
        raise ProtocolError(
            "encoding.malformed",
            f"{len(payload)} frames behind the empty one; a DEALER sends an empty frame, then one "
            "with the message",
        )
    return read_client_message(decode(payload[0]))


def _require_loopback(endpoint: str) -> None:
    """Refuse to listen where strangers could speak.

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
        "authenticated; listen on 127.0.0.1 and tunnel to it"
    )
