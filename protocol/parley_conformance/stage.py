"""A scripted server for one dispatcher under test."""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import zmq

from parley_conformance import wire
from parley_conformance.dialogue import Line, Record
from parley_conformance.machine import EVENT_KINDS, Machine, Plan
from parley_conformance.verdicts import Ending
from parley_protocol.codec import read_client_message
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_conformance.process import Process, Program

_TICK_MS = 20

_PARDONS = 5
"""Messages out of place that are answered by an error before the kit gives up."""

_MOST_REQUESTS = 400
"""Requests after which a run that does not end is broken off."""


class Broken(Exception):
    """The dialogue cannot go on; the text says why, in a sentence."""


class Silent(Broken):
    """A message was due and did not come in time."""


class Gone(Broken):
    """The program has exited."""


class NotForThis(Broken):
    """The program does not do what the dialogue is about; there is nothing to wait for."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds of wall time.

    Attributes:
        hello: From the start of the program to its first message.
        message: For each message after it.
        leave: From the end of the dialogue to the end of the program.
    """

    hello: float = 10.0
    message: float = 5.0
    leave: float = 3.0


@dataclass(slots=True)
class Stage:
    """The server's side of a dialogue, and the dispatcher's process.

    Args:
        program: What to start.
        record: Where the dialogue is noted.
        patience: How long to wait.
        seed: For the dispatcher's random choices.

    Attributes:
        session: Its name.
        token: With which it can be resumed.
        epoch: Counts those who took it up.
        seq: Number of the last message that was sent.
        outstanding: Number of the message that waits for its answer.
        spell: Writes a message as bytes.
        alter: What to change in a message before it is sent.
    """

    program: Program
    record: Record
    patience: Patience
    seed: int = 0
    session: str = "conform-7"
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    epoch: int = 1
    seq: int = 0
    outstanding: int = 0
    hello: dict[str, Any] = field(default_factory=dict)
    json_text: bool = False
    spell: Callable[[Mapping[str, Any]], bytes] | None = None
    alter: Callable[[dict[str, Any]], Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    pardons: int = 0
    endpoint: str = field(init=False, default="")
    _context: zmq.Context[zmq.Socket[bytes]] = field(init=False)
    _socket: zmq.Socket[bytes] = field(init=False)
    _process: Process | None = field(init=False, default=None)
    _envelope: Sequence[bytes] = field(init=False, default=())
    _killed: bool = field(init=False, default=False)

    def __enter__(self) -> Self:
        self._context = zmq.Context()
        self._bind("tcp://127.0.0.1:*")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.record.output = self._output()
        if self._process is not None:
            self._process.close()
        self._socket.close()
        self._context.term()

    def _bind(self, endpoint: str) -> None:
        bound = self._context.socket(zmq.ROUTER)
        bound.setsockopt(zmq.LINGER, 200)
        # A program that has gone must not hold up the kit.
        bound.setsockopt(zmq.SNDTIMEO, 1000)
        try:
            bound.bind(endpoint)
        except zmq.ZMQError:
            bound.close()
            raise
        self._socket = bound
        self.endpoint = bound.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    # ------------------------------------------------------------------ the program

    def start(self, **environment: str) -> None:
        """Start the program."""
        places = {"endpoint": self.endpoint}
        variables = {"PARLEY_ENDPOINT": self.endpoint, **self.environment, **environment}
        self._process = self.program.start(places, variables)
        self._killed = False
        self.record.note("the program is started")

    def crash(self) -> None:
        """Kill the program, as a crash would."""
        if self._process is not None:
            self.record.output += self._process.output()
            self._process.close()
            self._process = None
        self.record.note("the kit kills the program (SIGKILL)")
        self._drain()

    def vanish(self) -> None:
        """Close the socket, as a server that dies would, and listen again at the same place."""
        self.record.note("the kit's server is gone; another listens at the same endpoint")
        endpoint = self.endpoint
        self._socket.close(linger=0)
        for _ in range(50):
            with contextlib.suppress(zmq.ZMQError):
                self._bind(endpoint)
                return
            time.sleep(0.02)
        raise RuntimeError(f"{endpoint} cannot be bound again")

    @property
    def alive(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and self._process.poll() is None

    def leave(self, *, failing: bool = False) -> None:
        """Wait until the program has left; note how it did.

        Args:
            failing: It has reason to exit with a status other than 0.
        """
        record, process = self.record, self._process
        if process is None or record.ending is not None:
            return
        give_up = time.monotonic() + self.patience.leave
        while process.poll() is None and time.monotonic() < give_up:
            self._overhear()
        status = process.poll()
        self._overhear()
        record.status = status
        if status is None:
            record.ending = Ending.TIMEOUT
            record.note("the program stays; the kit ends it")
        elif status < 0:
            record.ending = Ending.CRASH
            record.note(f"the program is ended by {_signal_name(-status)}")
        else:
            proper = (self.ended or failing) and (status == 0 or failing)
            record.ending = Ending.CLEAN if proper else Ending.UNCLEAN
            record.note(f"the program exits with status {status}")

    def _overhear(self) -> None:
        """Note what the program still says, and answer nothing."""
        if self._socket.poll(_TICK_MS):
            self._note_frames(self._socket.recv_multipart())

    def _drain(self) -> None:
        while self._socket.poll(50):
            self._note_frames(self._socket.recv_multipart())

    def _output(self) -> str:
        kept = self.record.output
        return kept + (self._process.output() if self._process is not None else "")

    # ------------------------------------------------------------------ messages

    def receive(self, seconds: float | None = None) -> Line:
        """Return the program's next message.

        Raises:
            Silent: None came in time.
            Gone: The program has exited.
        """
        seconds = self.patience.message if seconds is None else seconds
        give_up = time.monotonic() + seconds
        while True:
            if self._socket.poll(_TICK_MS):
                return self._note_frames(self._socket.recv_multipart())
            if not self.alive and not self._socket.poll(100):
                raise Gone(self._how_it_went())
            if time.monotonic() > give_up:
                raise Silent(f"nothing came within {seconds:g} s")

    def _how_it_went(self) -> str:
        status = self._process.poll() if self._process is not None else None
        how = f"exited with status {status}"
        if status is not None and status < 0:
            how = f"was ended by {_signal_name(-status)}"
        return f"the program {how}{told(self._output())}"

    def _note_frames(self, frames: list[bytes]) -> Line:
        cut = frames.index(b"", 1) + 1 if b"" in frames[1:] else len(frames)
        envelope, rest = frames[:cut], frames[cut:]
        if cut == len(frames):
            # No empty frame: the message, if there is one, is the last.
            envelope, rest = frames[:1], frames[1:]
        self._envelope = envelope
        return self.record.heard(rest, envelope=envelope[1:])

    def quiet(self, seconds: float) -> bool:
        """Whether the program says nothing for so long; what it says is noted."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if self._socket.poll(_TICK_MS):
                self._note_frames(self._socket.recv_multipart())
                return False
        return True

    def send(self, kind: str, body: Mapping[str, Any], **changes: Any) -> Line:
        """Send a message of the session; *changes* go into the envelope."""
        self.seq += 1
        message = {
            "v": 1,
            "type": kind,
            "session": self.session,
            "epoch": self.epoch,
            "seq": self.seq,
            "body": body,
            **changes,
        }
        if kind in {"welcome", "decision.request"}:
            self.outstanding = self.seq
        altered = self.alter(message) if self.alter is not None else message
        frame = (
            self.spell(altered)
            if self.spell is not None
            else wire.plainly(altered, json_text=self.json_text)
        )
        return self.send_frame(frame)

    def send_frame(self, frame: bytes) -> Line:
        """Send a payload as it is."""
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart([*self._envelope, frame])
        return self.record.said([frame])

    # ------------------------------------------------------------------ the usual course

    def greet(self) -> Line:
        """Start the program and wait for its hello.

        Raises:
            Broken: There is none.
        """
        self.start()
        return self.await_hello()

    def await_hello(self) -> Line:
        """Wait for a hello.

        Raises:
            Broken: Something else came, or nothing.
        """
        line = self.receive(self.patience.hello)
        if line.message is None:
            raise Broken("the first message cannot be read")
        self.json_text = line.frames[-1][:1] == b"{"
        if line.kind != "hello":
            self.send("error", _error("message.unexpected", "a hello is due", ["hello"]))
            line = self.receive()
        if line.kind != "hello":
            raise Broken(f"a hello is due, not {line.kind or 'a message without a type'!r}")
        self.hello = line.body
        self.ended = False
        return line

    def welcome(self, plan: Plan, **changes: Any) -> Line:
        """Grant what the hello asks for; *changes* go into the body."""
        return self.send("welcome", self.welcome_body(plan, **changes))

    def welcome_body(self, plan: Plan, **changes: Any) -> dict[str, Any]:
        """Return the body of the welcome that fits the hello; *changes* go into it."""
        asked = self.capabilities
        body: dict[str, Any] = {
            "version": "1.0",
            "server": {"name": "parley-conformance", "version": "1"},
            "granted": {
                "state": "snapshot" if self.snapshots else "events",
                "decisions": "atomic" if asked.get("decisions") == "atomic" else "each",
                "submit": asked.get("submit") is True,
            },
            "ask": self.ask,
            "wants": sorted(self.wants),
            "token": self.token,
            "resumed": self.epoch > 1,
            "seed": self.seed,
            "limits": dict(LIMITS),
            "policy": {
                "on_reject": plan.on_reject,
                "reasks": 3,
                "on_timeout": "fail",
                "on_disconnect": "fail",
                "reconnect_ms": 60000,
                "on_node_down": plan.on_node_down,
                "latency_model": "fixed" if plan.latency else "zero",
                **({"latency_us": plan.latency * 1_000_000} if plan.latency else {}),
            },
            "scenario": {
                "name": self.record.scene,
                "digest": "0" * 64,
                "rules": {
                    "request": "nodes",
                    "select": "all",
                    "on_overrun": "run",
                    "estimate": "trace",
                    "estimate_missing": "runtime",
                },
            },
            "platform": plan.platform,
        }
        for name, value in changes.items():
            body[name] = {**body[name], **value} if isinstance(value, dict) else value
        return body

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the hello asks for."""
        asked = self.hello.get("capabilities")
        return asked if isinstance(asked, dict) else {}

    @property
    def snapshots(self) -> bool:
        """Whether the hello asks for the whole state each time."""
        return self.capabilities.get("state") == "snapshot"

    @property
    def ask(self) -> str:
        """When the hello asks to be asked."""
        return "actionable" if self.hello.get("ask") == "actionable" else "always"

    @property
    def wants(self) -> frozenset[str]:
        """The kinds of event that are to be told."""
        wants = self.hello.get("wants")
        if not isinstance(wants, list):
            return frozenset(EVENT_KINDS)
        return frozenset(kind for kind in wants if kind in EVENT_KINDS) | {"session.start"}

    def machine(self, plan: Plan, **options: Any) -> Machine:
        """Return a simulation of what the plan holds, as this dispatcher wants to be told."""
        submit = self.capabilities.get("submit") is True
        plan = plan if plan.submit == submit else _with_submit(plan, submit=submit)
        return Machine(plan, wants=self.wants, ask=self.ask, snapshot=self.snapshots, **options)

    def open(self, plan: Plan, **changes: Any) -> Machine:
        """Start the program, welcome it, wait until it is ready; return the simulation."""
        self.greet()
        self.welcome(plan, **changes)
        self.await_message("ready")
        return self.machine(plan)

    def await_message(self, kind: str, machine: Machine | None = None) -> Line:
        """Wait for a message of a type; answer what else may come before it.

        Raises:
            Broken: The program leaves, is silent, or errs again and again.
        """
        while True:
            line = self.receive()
            if line.kind == kind:
                return line
            self._answer_aside(line, machine)

    def _answer_aside(self, line: Line, machine: Machine | None) -> None:
        match line.kind:
            case "ping":
                self.send("pong", {})
            case "progress" if machine is not None:
                self.send("progress.ack", {"deadline_ms": 60000})
            case "state.request" if machine is not None:
                self.send("state.snapshot", machine.snapshot())
            case "bye":
                stats = dict.fromkeys(_STATS, 0)
                now = machine.now if machine is not None else 0
                body = {"reason": "bye", "now_us": now, "outcomes": [], "stats": stats}
                self.send("session.end", body)
                self.ended = True
                self.leave()
                raise Broken("the program said bye")
            case _:
                self.pardons += 1
                if self.pardons > _PARDONS:
                    raise Broken("too many messages were out of place")
                code = "message.unexpected" if line.message is not None else "encoding.malformed"
                self.send("error", _error(code, "this message is not due here"))

    def play(
        self,
        machine: Machine,
        body: dict[str, Any] | None = None,
        *,
        each: Callable[[int, dict[str, Any]], dict[str, Any] | None] = lambda _, __: None,
    ) -> None:
        """Ask and be answered until the run is over, and end the session.

        Args:
            machine: The simulation.
            body: Of the request to go on with; None begins.
            each: Called with the count and the body of each request before it is sent; may
                return another body.

        Raises:
            Broken: It does not come to that.
        """
        body = machine.first() if body is None else body
        for count in range(_MOST_REQUESTS):
            reply = self.request(machine, each(count, body) or body)
            body = machine.answer(decisions_in(reply))
            if machine.reason:
                self.finish(machine, body)
                return
        raise Broken(f"the run has not ended after {_MOST_REQUESTS} requests")

    def request(self, machine: Machine, body: Mapping[str, Any]) -> Line:
        """Send a request and return the reply."""
        self.send("decision.request", body)
        return self.await_message("decision.reply", machine)

    def finish(self, machine: Machine, body: Mapping[str, Any]) -> None:
        """End the session and wait until the program has left."""
        self.record.facts.update(
            reason=machine.reason,
            stats=dict(machine.stats),
            refused=dict(machine.refused),
            decided=machine.decided,
        )
        self.send("session.end", body)
        self.ended = True
        self.leave(failing=body["reason"] != "completed")


_STATS = ("submitted", "completed", "failed", "timed_out", "killed", "rejected", "requeues")

LIMITS = {
    "message_bytes": 16_777_216,
    "depth": 32,
    "string_bytes": 262_144,
    "array_items": 1_000_000,
    "containers": 2_000_000,
    "decisions": 1_000_000,
    "undecodable": 3,
}


def decisions_in(line: Line) -> list[dict[str, Any]]:
    """Return the decisions of a reply that are well formed: the others a server would refuse."""
    message = line.message or {}
    wanted = line.body.get("decisions")
    if not isinstance(wanted, list):
        return []
    return [decision for decision in wanted if _well_formed(message, decision)]


def _well_formed(message: Mapping[str, Any], decision: Any) -> bool:
    body = {"decisions": [decision], "state_version": 0}
    envelope = {"v": 1, "session": "", "epoch": 1, "re": 1}
    try:
        read_client_message({**envelope, "type": "decision.reply", "body": body})
    except ProtocolError:
        return False
    return bool(message)


def _with_submit(plan: Plan, *, submit: bool) -> Plan:
    from dataclasses import replace  # noqa: PLC0415 - for this once

    return replace(plan, submit=submit)


def _error(code: str, message: str, supported: Sequence[str] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"code": code, "message": message, "fatal": False}
    if supported is not None:
        body["supported"] = list(supported)
    return body


def told(output: str) -> str:
    """Return the last line that a program printed, as part of a sentence."""
    lines = [line for line in output.splitlines() if line.strip()]
    return f" after printing {lines[-1].strip()[:200]!r}" if lines else " without a word"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
