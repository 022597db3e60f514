"""A server under test, and the kit's connections to it."""

from __future__ import annotations

import contextlib
import socket as sockets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import zmq

from parley_conformance import wire
from parley_conformance.dialogue import Line, Record
from parley_conformance.oracle import Oracle
from parley_conformance.servers.settings import SETTINGS, Setting
from parley_conformance.stage import Broken, Gone, NotForThis, Patience, Silent
from parley_conformance.verdicts import Ending
from parley_protocol.codec import read_server_message
from parley_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from parley_conformance.process import Process, Program

_TICK_MS = 20
_MOST_REQUESTS = 300


class Breach(Exception):
    """The server does what it must not, or not what it must."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(slots=True)
class Host:
    """A server's process, for one dialogue or for many.

    Args:
        program: What to start.
        scenarios: Files of the scenarios, in TOML.
        scratch: An empty folder for whatever the server leaves behind.
        patience: How long to wait.

    Attributes:
        endpoint: Where it listens.
    """

    program: Program
    scenarios: Sequence[Path]
    scratch: Path
    patience: Patience
    keys: tuple[str, str] | None = None
    endpoint: str = ""
    process: Process | None = None

    def start(self, endpoint: str | None = None) -> None:
        """Start it at a free port of the loopback, or at the endpoint given."""
        self.endpoint = endpoint or f"tcp://127.0.0.1:{_free_port()}"
        names = {path.stem: str(path) for path in self.scenarios}
        places = {
            "endpoint": self.endpoint,
            "scenarios": ":".join(names.values()),
            "scenario": next(iter(names.values())),
            "json": ":".join(path.removesuffix(".toml") + ".json" for path in names.values()),
            "scratch": str(self.scratch),
        }
        variables = {"PARLEY_ENDPOINT": self.endpoint, "PARLEY_SCENARIOS": places["scenarios"]}
        self.process = self.program.start(places, variables)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.process.output() if self.process is not None else ""

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.close()
            self.process = None


@dataclass(slots=True)
class Hall:
    """What a dialogue with a server has at hand.

    Attributes:
        setting: The scenario that hellos of this dialogue name.
    """

    host: Host
    record: Record
    setting: Setting
    patience: Patience
    _callers: list[Caller] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.close()
        if self.host.process is not None:
            status = self.host.process.poll()
            self.record.status = status
            if status is not None:
                self.record.ending = Ending.CRASH if status < 0 else Ending.UNCLEAN

    def call(self, peer: str = "", kind: str = "DEALER", **options: Any) -> Caller:
        """Return another connection."""
        caller = Caller(self, peer, kind, **options)
        self._callers.append(caller)
        return caller

    def open(self, **hello: Any) -> tuple[Caller, Line]:
        """Return a connection with a session, and the first request."""
        caller = self.call()
        caller.welcomed(**hello)
        return caller, caller.expect(caller.ready(), "decision.request")

    def policy(self, name: str, value: Any) -> None:
        """Go on only if the welcome of this scenario says so.

        Raises:
            NotForThis: It says something else.
        """
        caller = self.call("asking")
        welcome = caller.welcomed()
        given = welcome.body["policy"].get(name)
        caller.close()
        if given != value:
            raise NotForThis(f"the server plays {self.setting.name!r} with {name} {given!r}")


class Caller:
    """One connection of the kit to a server."""

    def __init__(
        self, hall: Hall, peer: str, kind: str, *, json_text: bool = False, curve: Any = None
    ) -> None:
        self._hall = hall
        self._record = hall.record
        self._peer = peer
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(getattr(zmq, kind))
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDTIMEO, 5000)
        self._prefix: tuple[bytes, ...] = () if kind == "REQ" else (b"",)
        if curve is not None:
            curve(self._socket)
        self._socket.connect(hall.host.endpoint)
        self.json_text = json_text
        self.session: dict[str, Any] = {}
        self.token = ""
        self.granted: dict[str, Any] = {}
        self.seq = 0
        self.outstanding = 0
        self.lenient = False
        self.closed = False

    def close(self) -> None:
        """Vanish without a word."""
        if not self.closed:
            self.closed = True
            self._socket.close(linger=0)
            self._context.term()

    # ------------------------------------------------------------------ frames

    def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames as they are."""
        self._record.said(frames, peer=self._peer)
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart(list(frames))

    def send_bytes(self, payload: bytes) -> None:
        """Send one payload, whatever is in it."""
        self._record.said([payload], peer=self._peer)
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart([*self._prefix, payload])

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a map, whatever is in it."""
        self.send_bytes(wire.plainly(message, json_text=self.json_text))

    def ask_bytes(self, payload: bytes) -> Line:
        """Send a payload and return the answer."""
        self.send_bytes(payload)
        return self.receive()

    def receive(self, seconds: float | None = None) -> Line:
        """Return the next message.

        Raises:
            Silent: None came in time.
            Gone: The server has exited.
            Broken: It is none of the protocol's.
        """
        seconds = self._hall.patience.message if seconds is None else seconds
        give_up = time.monotonic() + seconds
        while not self._socket.poll(_TICK_MS):
            if not self._hall.host.alive:
                raise Gone("the server has exited")
            if time.monotonic() > give_up:
                raise Silent(f"no answer came within {seconds:g} s")
        return self._note(self._socket.recv_multipart())

    def _note(self, frames: list[bytes]) -> Line:
        cut = frames.index(b"") + 1 if b"" in frames else 0
        line = self._record.heard(frames[cut:], peer=self._peer, envelope=frames[:cut])
        if line.message is None:
            raise Broken("the server's message cannot be read")
        if not self.lenient:
            try:
                read_server_message(line.message)
            except ProtocolError as error:
                raise Broken(
                    f"the server's {line.kind or 'message'} is not valid: {error}"
                ) from None
        self._follow(line)
        return line

    def _follow(self, line: Line) -> None:
        message = line.message or {}
        seq = message.get("seq")
        self.seq = int(seq) if isinstance(seq, int | float) else self.seq
        if line.kind == "welcome":
            self.session = {"session": message.get("session"), "epoch": message.get("epoch")}
            self.token = str(line.body.get("token"))
            self.granted = line.body.get("granted") or {}
        if line.kind in {"welcome", "decision.request"}:
            self.outstanding = self.seq

    def silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long; what comes is noted."""
        if not self._socket.poll(round(seconds * 1000)):
            return True
        with contextlib.suppress(Broken):
            self._note(self._socket.recv_multipart())
        return False

    # ------------------------------------------------------------------ the usual messages

    def hello_message(self, **changes: Any) -> dict[str, Any]:
        """Return a hello for the scenario of the dialogue; *changes* go into the body."""
        body = {
            "versions": ["1.0"],
            "client": {"name": "parley-conformance", "version": "1"},
            "scenario": self._hall.setting.name,
            **changes,
        }
        return {
            "v": 1,
            "type": "hello",
            "body": {key: item for key, item in body.items() if item is not None},
        }

    def hello(self, **changes: Any) -> Line:
        """Say hello and return the answer."""
        self.send(self.hello_message(**changes))
        return self.receive(max(self._hall.patience.message, 10.0))

    def welcomed(self, **changes: Any) -> Line:
        """Say hello and return the welcome.

        Raises:
            NotForThis: The server does not offer the scenario.
            Broken: There is none.
        """
        line = self.hello(**changes)
        if line.kind == "error" and line.body.get("code") == "scenario.unknown":
            raise NotForThis(f"the server does not offer the scenario {self._hall.setting.name!r}")
        return self.expect(line, "welcome")

    def expect(self, line: Line, kind: str) -> Line:
        """Return the line if it is of this type.

        Raises:
            Broken: It is not.
        """
        if line.kind != kind:
            told = f": {line.body.get('code')}" if line.kind == "error" else ""
            raise Broken(f"a {kind} was due, the server sent {line.kind}{told}")
        return line

    def say(self, kind: str, body: Mapping[str, Any], **changes: Any) -> Line:
        """Send a message of the session and return the answer; *changes* go into the envelope."""
        self.send(self.message(kind, body, **changes))
        return self.receive()

    def message(self, kind: str, body: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """Return a message of the session."""
        return {
            "v": 1,
            "type": kind,
            **self.session,
            "re": self.outstanding,
            "body": body,
            **changes,
        }

    def ready(self) -> Line:
        """Say ready and return the answer."""
        return self.say("ready", {})

    def reply_message(
        self, request: Line, decisions: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return a reply; decisions without an id get one."""
        numbered = [{"id": index, **decision} for index, decision in enumerate(decisions)]
        body = {"decisions": numbered, "state_version": request.body["state_version"]}
        return self.message("decision.reply", body, re=(request.message or {})["seq"])

    def reply(self, request: Line, *decisions: Mapping[str, Any]) -> Line:
        """Answer a request and return what comes next."""
        self.send(self.reply_message(request, decisions))
        return self.receive()

    def next_request(self, request: Line, *decisions: Mapping[str, Any]) -> Line:
        """Answer a request and return the next one.

        Raises:
            Broken: Something else comes.
        """
        return self.expect(self.reply(request, *decisions), "decision.request")

    def state(self) -> dict[str, Any]:
        """Ask for the state and return it."""
        line = self.expect(self.say("state.request", {}), "state.snapshot")
        state: dict[str, Any] = line.body["state"]
        return state

    def until(
        self,
        request: Line,
        fits: Callable[[dict[str, Any]], bool],
        decide: Callable[[Line], Sequence[Mapping[str, Any]]] = lambda _: (),
    ) -> Line:
        """Reply until a request fits; return it.

        Raises:
            Broken: None does.
        """
        for _ in range(_MOST_REQUESTS):
            if fits(request.body):
                return request
            request = self.next_request(request, *decide(request))
        raise Broken(f"{_MOST_REQUESTS} requests, and none that was waited for")

    def finish(self, request: Line) -> Line:
        """Decide first come, first served to the end; return the last message.

        Raises:
            Broken: The run does not end.
        """
        follower = Follower(self)
        line = request
        for _ in range(_MOST_REQUESTS):
            if line.kind != "decision.request":
                return self.expect(line, "session.end")
            line = self.reply(line, *follower.decide(line))
        raise Broken(f"the run has not ended after {_MOST_REQUESTS} requests")


class Follower:
    """Starts jobs in the order of the queue, and leaves it to the server to place them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.failed: set[int] = set()

    def decide(self, request: Line) -> list[dict[str, Any]]:
        """Return what to start."""
        state = request.body.get("state") or self._caller.state()
        free = sum(
            (last - first + 1) * amounts.get("core", 0)
            for first, last, amounts, service in state["nodes"]
            if service == "up"
        )
        decisions = []
        for job in state["pending"]:
            if job["job"] in state["held"]:
                continue
            (group,) = job["request"]
            free -= group["chunks"] * group["per_chunk"].get("core", 0)
            if free < 0:
                break
            decisions.append({"kind": "start", "job": job["job"]})
        return decisions


def submitted(body: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the jobs that a request's events submit."""
    return [event["job"]["job"] for event in body["events"] if event["kind"] == "job.submitted"]


def kinds(body: Mapping[str, Any]) -> list[str]:
    """Return the kinds of a request's events, in their order."""
    return [event["kind"] for event in body["events"]]


def oracle_of(welcome: Line) -> Oracle:
    """Return an oracle for a session."""
    return Oracle(welcome.body)


def _free_port() -> int:
    with sockets.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


__all__ = ["SETTINGS", "Breach", "Caller", "Follower", "Hall", "Host", "kinds", "submitted"]
