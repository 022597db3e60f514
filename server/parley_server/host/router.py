"""Many sessions on one ZeroMQ ROUTER socket, in one loop.

A session is an engine that waits for a reply. The loop takes whatever has arrived, gives each
session that has something to simulate a bounded turn, and looks at the clock; no dispatcher and
no long quiet stretch keeps another session waiting.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from parley_protocol.codec import decode, dialect_of, encode, read_client_message
from parley_protocol.conversation import Role, State
from parley_protocol.errors import ProtocolError
from parley_protocol.transcript import masked
from parley_server.engine import PAUSED
from parley_server.errors import ParleyError, RunFailed
from parley_server.host.inprocess import BUDGET
from parley_server.host.peer import Hosted, Peer
from parley_server.host.reception import Reception
from parley_server.host.session import STRIKES
from parley_server.host.wire import TICK_MS, Arrival, Curve, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_protocol.messages import ClientMessage, DecisionReply, Hello, HelloBody

_TICK_NS = TICK_MS * 1_000_000
"""How often deadlines and child processes are looked at, nanoseconds."""

_MOST_STRANGERS = 1024

# An enumeration takes as long to name its member as a call does.
_CLIENT: Final = Role.CLIENT
_SERVER: Final = Role.SERVER
_RUNNING: Final = State.RUNNING


class Router:
    """A server of sessions.

    Args:
        endpoint: Where to listen; `tcp://127.0.0.1:*` takes a free port.
        open_hosted: Makes the run for a hello; may raise what `Session.open` raises.
        limit: How many sessions to host in all; None is without limit.
        at_once: How many of them at the same time; None is without limit.
        curve: Keys with which to encrypt.
        trace: Is told of each message: its direction, `>` to a dispatcher or `<` from one, its
            type, and its body; tokens are masked.

    Attributes:
        endpoint: Where it listens, with the port.
        finished: How many sessions are over.
        refused: The last fatal error sent to somebody before there was any session.

    Raises:
        UsageError: It cannot listen there.
        InputError: A certificate cannot be read.
    """

    def __init__(
        self,
        endpoint: str,
        open_hosted: Callable[[HelloBody], Hosted],
        *,
        limit: int | None = None,
        at_once: int | None = None,
        curve: Curve | None = None,
        trace: Callable[[str, str, Any], None] | None = None,
    ) -> None:
        self._reception = Reception(open_hosted, limit=limit, at_once=at_once)
        self._sessions = self._reception.sessions
        self._limit = limit
        self._trace = trace
        self.finished = 0
        self.refused: ProtocolError | None = None
        self._peers: dict[bytes, Peer] = {}
        self._strangers: OrderedDict[bytes, int] = OrderedDict()
        self._runnable: deque[Peer] = deque()
        self._wire = Wire(endpoint, curve)
        self.endpoint = self._wire.endpoint

    def close(self) -> None:
        """Send what is still on its way and let go of the socket."""
        self._wire.close()

    def run(self, watch: Callable[[], None] | None = None) -> None:
        """Host sessions until as many as the limit says are over.

        Args:
            watch: Called about ten times a second; what it raises ends the loop.
        """
        looked_ns = 0
        runnable = self._runnable
        while self._limit is None or self.finished < self._limit:
            arrival = self._wire.receive(self._peers, wait=not runnable)
            if arrival is not None:
                self._take(arrival)
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
        for peer in list(self._sessions.values()):
            self._fail(peer, failure, _explanation(failure))

    # ------------------------------------------------------------------ receiving

    def _take(self, arrival: Arrival) -> None:
        """See to it that a message gets its one answer."""
        peer = self._peers.get(arrival.identity)
        if peer is not None:
            peer.envelope = arrival.envelope
        else:
            # Numbers are used again: those that are gone must be forgotten before one is new.
            self._note_disconnections()
        try:
            message = self._decode(peer, arrival)
            if peer is not None:
                self._converse(peer, message)
            elif message["type"] == "hello":
                self._greet(arrival, message)
            else:
                self._reception.turn_away(message)
        except ProtocolError as error:
            self._refuse(peer, arrival, error)
        except ParleyError as error:
            if peer is None:
                raise
            self._fail(peer, error, _explanation(error))

    def _decode(self, peer: Peer | None, arrival: Arrival) -> ClientMessage:
        """Return what a message says, and note it.

        Raises:
            ProtocolError: It cannot be decoded.
        """
        frame, message = b"".join(arrival.payload), None
        try:
            if len(arrival.payload) != 1:
                raise ProtocolError(
                    "encoding.malformed",
                    f"{len(arrival.payload)} frames behind the empty one; a DEALER sends an empty "
                    "frame, then one with the message",
                )
            if peer is not None and dialect_of(frame) is not peer.dialect:
                raise ProtocolError(
                    "encoding.dialect",
                    f"the session began in {peer.dialect.value}; stay with it",
                    supported=[peer.dialect.value],
                )
            message = read_client_message(decode(frame))
        finally:
            transcript = peer.hosted.transcript if peer is not None else None
            if peer is not None and transcript is not None:
                transcript.note("<", frame, message, now_us=peer.now)
        return message

    def _note_disconnections(self) -> None:
        """Mark the peers whose connection was closed, as the socket's monitor tells it."""
        for connection in self._wire.closed_connections():
            for peer in self._peers.values():
                peer.gone |= peer.connection == connection

    def _greet(self, arrival: Arrival, message: Hello) -> None:
        """Open a session for whoever says hello, or give it the one it resumes."""
        self._tell("<", "hello", message["body"])
        peer, welcome = self._reception.admit(arrival, message)
        # Who was heard before in a session that is resumed is heard no more.
        self._peers = {
            identity: other for identity, other in self._peers.items() if other is not peer
        }
        self._peers[peer.identity] = peer
        self._strangers.pop(peer.identity, None)
        (frame,) = arrival.payload
        peer.dialect = dialect_of(frame)
        transcript = peer.hosted.transcript
        if transcript is not None:
            transcript.token = peer.session.token
            transcript.note("<", frame, message, now_us=peer.now)
        peer.conversation.follow(_CLIENT, "hello")
        self._say(peer, "welcome", welcome)
        self._await(peer)

    # ------------------------------------------------------------------ in a session

    def _converse(self, peer: Peer, message: ClientMessage) -> None:
        if peer.overdue is not None:
            self._on_overdue(peer, message)
            return
        peer.check(message)
        kind = message["type"]
        if message["type"] == "decision.reply":
            self._on_reply(peer, message)
            return
        self._tell("<", kind, message["body"])
        peer.conversation.follow(_CLIENT, kind)
        match message["type"]:
            case "ready":
                self._on_ready(peer)
            case "bye":
                self._on_bye(peer)
            case "ping":
                self._say(peer, "pong", {})
            case "state.request":
                self._say(peer, "state.snapshot", peer.session.snapshot())
            case "progress":
                self._extend(peer)
                self._say(peer, "progress.ack", {"deadline_ms": self._deadline_us(peer) // 1000})

    def _on_ready(self, peer: Peer) -> None:
        """Go on: with what was asked before the session was resumed, if anything was."""
        peer.answered_ns = time.perf_counter_ns()
        if peer.farewell is not None:
            self._say_farewell(peer)
            return
        request = peer.session.request_again(resumed=True)
        if request is not None:
            self._ask(peer, request)
        elif peer not in self._runnable:
            self._runnable.append(peer)

    def _on_reply(self, peer: Peer, message: DecisionReply) -> None:
        arrived = time.perf_counter_ns()
        body = message["body"]
        self._tell("<", "decision.reply", body)
        round_trip_us = (arrived - peer.asked_ns) // 1000
        peer.charged_us = peer.session.reply(body, wall_us=round_trip_us)
        peer.conversation.follow(_CLIENT, "decision.reply")
        dispatcher_us = body.get("compute_us") or 0
        if dispatcher_us > round_trip_us:
            dispatcher_us = round_trip_us
        peer.hosted.sink.timed(
            peer.now,
            dispatcher_us=dispatcher_us,
            server_us=(peer.asked_ns - peer.answered_ns) // 1000,
            wire_us=round_trip_us - dispatcher_us,
        )
        peer.answered_ns = arrived
        self._runnable.append(peer)

    def _on_overdue(self, peer: Peer, message: Any) -> None:
        """Answer a `ClientMessage` of a peer that does not know yet that it was late."""
        kind = message["type"]
        peer.check_overdue(message)
        self._tell("<", kind, message["body"])
        if peer.farewell is not None:
            self._say_farewell(peer)
        elif kind == "decision.reply":
            self._on_late_reply(peer, message)
        elif kind == "bye":
            self._on_bye(peer)
        elif kind == "progress":
            self._post(peer, "progress.ack", {"deadline_ms": 0})
        elif kind == "ping":
            self._post(peer, "pong", {})
        else:
            self._post(peer, "state.snapshot", peer.session.snapshot())

    def _on_late_reply(self, peer: Peer, message: DecisionReply) -> None:
        peer.overdue = None
        peer.session.reply_late(message["body"])
        if peer.conversation.state is State.DECIDING:
            request = peer.session.request_again()
            if request is not None:
                self._ask(peer, request)

    def _on_bye(self, peer: Peer) -> None:
        self._post(peer, "session.end", peer.session.end_body("bye"))
        self._forget(
            peer, RunFailed("dispatcher_left", "the dispatcher said bye before the run was over")
        )

    # ------------------------------------------------------------------ advancing

    def _advance(self, peer: Peer) -> None:
        """Give a session a turn; it is then asked, over, or runnable again."""
        try:
            message = peer.session.advance(BUDGET)
            peer.hosted.sink.tick(time.perf_counter_ns())
        except ParleyError as error:
            self._fail(peer, error, _explanation(error))
            return
        if message is PAUSED:
            self._runnable.append(peer)
        elif "reason" in message:
            self._end(peer, message)
        elif peer.conversation.state is _RUNNING and peer.overdue is None:
            self._ask(peer, message)
            self._tidy(peer)
        else:
            self._keep(peer, message["now_us"])

    def _tidy(self, peer: Peer) -> None:
        """Write down what has happened so far: while the dispatcher thinks, nobody waits for it."""
        try:
            peer.session.tidy()
        except ParleyError as error:
            self._fail(peer, error, _explanation(error))

    def _ask(self, peer: Peer, request: Any) -> None:
        """Send a request; the conversation has come to where it waits for the reply."""
        if peer.conversation.state is _RUNNING:
            peer.conversation.follow(_SERVER, "decision.request")
        peer.now = request["now_us"]
        self._post(peer, "decision.request", request)
        peer.asked_ns = time.perf_counter_ns()
        self._await(peer)

    def _keep(self, peer: Peer, now_us: int) -> None:
        """Leave a request unsent until its peer has spoken: it was late, or is being replaced."""
        peer.now = now_us
        if peer.conversation.state is _RUNNING and not peer.detached:
            peer.conversation.follow(_SERVER, "decision.request")
            self._extend(peer)

    def _end(self, peer: Peer, body: Any) -> None:
        """Finish a run; a peer that owes a message is told when it comes."""
        failure: RunFailed | None = None
        peer.now = body["now_us"]
        try:
            peer.session.require_completed()
        except RunFailed as error:
            failure = error
        if peer.conversation.state is _RUNNING and peer.overdue is None:
            self._say(peer, "session.end", body)
        elif not peer.detached:
            peer.farewell = body
            self._extend(peer)
            peer.hosted.finished(failure)
            return
        self._forget(peer, failure)

    def _say_farewell(self, peer: Peer) -> None:
        self._post(peer, "session.end", peer.farewell)
        self._drop(peer)

    # ------------------------------------------------------------------ the clock

    def _await(self, peer: Peer) -> None:
        """Wait for the answer to what was said just now, but not for ever."""
        peer.awaited = peer.seq
        self._extend(peer)

    def _extend(self, peer: Peer) -> None:
        """Let the clock of the deadline begin anew."""
        peer.deadline_ns = time.perf_counter_ns() + self._deadline_us(peer) * 1000

    def _deadline_us(self, peer: Peer) -> int:
        return peer.session.offer.conduct.deadline_us

    def _look_around(self, clock_ns: int) -> None:
        self._note_disconnections()
        for peer in list(self._sessions.values()):
            try:
                peer.hosted.sink.tick(clock_ns)
                self._look_after(peer, clock_ns)
            except ParleyError as error:
                self._fail(peer, error, _explanation(error))

    def _look_after(self, peer: Peer, clock_ns: int) -> None:
        """See to a peer that is gone, or late.

        What it sent last may wait to be read; so it is only suspected at first, and dealt with at
        the next look, a tenth of a second and at least one message later.

        Raises:
            RunFailed: Its session cannot go on.
        """
        late = (peer.waited_for or peer.detached or peer.farewell) and clock_ns > peer.deadline_ns
        gone = peer.gone and not peer.detached
        if not late and not gone:
            peer.suspect = False
        elif not peer.suspect:
            peer.suspect = True
        elif peer.farewell is not None:
            self._drop(peer)
        elif gone:
            self._on_disconnection(peer, clock_ns)
        else:
            self._on_deadline(peer, clock_ns)

    def _on_disconnection(self, peer: Peer, clock_ns: int) -> None:
        if peer.session.offer.conduct.on_disconnect == "fail":
            raise RunFailed("dispatcher_lost", "the dispatcher has closed its connection")
        self._detach(peer, clock_ns)

    def _on_deadline(self, peer: Peer, clock_ns: int) -> None:
        conduct = peer.session.offer.conduct
        if peer.detached:
            raise RunFailed(
                "dispatcher_lost",
                "the dispatcher is gone, and none resumed its session within "
                f"{conduct.reconnect_us / 1e6:g} s (--reconnect)",
            )
        if conduct.on_timeout == "detach":
            self._detach(peer, clock_ns)
        elif conduct.on_timeout == "empty" and peer.conversation.state is State.DECIDING:
            self._take_for_empty(peer)
        else:
            what = "ready" if peer.conversation.state is State.NEGOTIATED else "reply"
            raise RunFailed(
                "deadline_missed",
                f"the dispatcher sent no {what} within {conduct.deadline_us / 1e6:g} s "
                "(--deadline)",
            )

    def _detach(self, peer: Peer, clock_ns: int) -> None:
        """Hear nobody but who resumes the session; simulated time stands still meanwhile."""
        self._peers.pop(peer.identity, None)
        peer.detached = True
        peer.suspect = False
        peer.deadline_ns = clock_ns + peer.session.offer.conduct.reconnect_us * 1000

    def _take_for_empty(self, peer: Peer) -> None:
        # Who is late already was not sent what it misses now.
        peer.session.take_for_empty(asked=peer.overdue is None)
        if peer.overdue is None:
            peer.overdue = peer.awaited
        peer.suspect = False
        peer.conversation.follow(_CLIENT, "decision.reply")
        self._runnable.append(peer)

    # ------------------------------------------------------------------ sending

    def _say(self, peer: Peer, kind: str, body: Any) -> None:
        peer.conversation.follow(_SERVER, kind)
        self._post(peer, kind, body)

    def _post(self, peer: Peer, kind: str, body: Any) -> None:
        peer.seq += 1
        self._tell(">", kind, body)
        message = {
            "v": 1,
            "type": kind,
            "session": peer.session.name,
            "epoch": peer.session.epoch,
            "seq": peer.seq,
            "body": body,
        }
        frame = encode(message, peer.dialect)
        transcript = peer.hosted.transcript
        if transcript is not None:
            transcript.note(">", frame, message, now_us=peer.now, charged_us=peer.charged_us)
            peer.charged_us = 0
        if not peer.detached:
            peer.gone |= not self._wire.send(peer.envelope, frame)

    def _refuse(self, peer: Peer | None, arrival: Arrival, error: ProtocolError) -> None:
        """Answer a message that counts as never sent; too many of them end the session."""
        strikes = self._strike(arrival.identity, peer) if error.undecodable else 0
        if strikes >= STRIKES:
            error = ProtocolError(
                "message.undecodable",
                f"{strikes} messages could not be decoded; the last: {error}",
                fatal=True,
            )
        if peer is None:
            self._tell(">", "error", error.body())
            dialect = dialect_of(b"".join(arrival.payload[:1]))
            answer = {"v": 1, "type": "error", "body": error.body()}
            self._wire.send(arrival.envelope, encode(answer, dialect))
            if error.fatal and not self._reception.opened:
                self.refused = error
        elif error.fatal:
            self._fail(peer, RunFailed("protocol_error", f"the dispatcher: {error}"), error)
        else:
            self._post(peer, "error", error.body())

    def _strike(self, identity: bytes, peer: Peer | None) -> int:
        if peer is not None:
            peer.strikes += 1
            return peer.strikes
        strikes = self._strangers.pop(identity, 0) + 1
        self._strangers[identity] = strikes
        if len(self._strangers) > _MOST_STRANGERS:
            self._strangers.popitem(last=False)
        return strikes

    def _fail(self, peer: Peer, failure: ParleyError, error: ProtocolError) -> None:
        peer.conversation.fail()
        self._post(peer, "error", error.body())
        self._forget(peer, failure)

    def _forget(self, peer: Peer, failure: ParleyError | None) -> None:
        already_finished = peer.farewell is not None
        self._drop(peer)
        if not already_finished:
            peer.hosted.finished(failure)

    def _drop(self, peer: Peer) -> None:
        """Have nothing more to do with a session."""
        del self._sessions[peer.name]
        self._peers.pop(peer.identity, None)
        if peer in self._runnable:
            self._runnable.remove(peer)
        self.finished += 1

    def _tell(self, direction: str, kind: str, body: Any) -> None:
        if self._trace is not None:
            self._trace(direction, kind, masked({"type": kind, "body": body})[0]["body"])


def _explanation(error: ParleyError) -> ProtocolError:
    """Return what a dispatcher is told of why its session failed."""
    code = "server.failed"
    if isinstance(error, RunFailed):
        code = _TOLD.get(error.reason, code)
    return ProtocolError(code, str(error), fatal=True)


_TOLD = {"deadline_missed": "deadline.missed", "decision_refused": "decision.refused"}
"""Failures that are the dispatcher's own, and their codes on the wire."""
