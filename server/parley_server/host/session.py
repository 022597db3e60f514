"""One session: a simulation that waits for a dispatcher's answers, whoever carries them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from parley_protocol.codec import FROM_CLIENT
from parley_protocol.errors import ProtocolError
from parley_protocol.messages import EVENT_KINDS, PROTOCOL_VERSION
from parley_server.engine import (
    PAUSED,
    DecisionPoint,
    EndReason,
    OnOverrun,
    Paused,
    Simulation,
    check_invariants,
)
from parley_server.errors import InputError, RunFailed
from parley_server.host import translate
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_protocol.messages import (
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        RulesDict,
        SessionEndBody,
        WelcomeBody,
    )
    from parley_protocol.scalars import StateMode
    from parley_server.engine import NodeGroup, Source

MAX_DECISIONS = 1_000_000
"""In one reply; a job can hardly be decided about twice."""

_BACKLOG = 512
"""Records that may wait before the sink is given them."""


class Sink(Protocol):
    """Who keeps what a session leaves behind."""

    def collect(self, simulation: Simulation) -> None:
        """Take the records and instants that wait in the simulation."""
        ...

    def timed(self, now: int, *, dispatcher_us: int, server_us: int, wire_us: int) -> None:
        """Note where the wall time of one request at the simulated instant *now* went."""
        ...

    def tick(self, clock_ns: int) -> None:
        """Do what is due now and then; called at every request and while waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What a session can be opened on.

    Attributes:
        rules: How the workload is read, for the welcome.
        open_source: Makes a fresh source of jobs for each session.
        deadline_us: Wall time for each answer.
        strict: A job that the empty machine cannot hold ends the run.
        audit: Check every invariant of the simulation after every step.
    """

    name: str
    digest: str
    rules: Mapping[str, str]
    groups: Sequence[NodeGroup]
    open_source: Callable[[], Source]
    on_overrun: OnOverrun = OnOverrun.RUN
    seed: int = 0
    deadline_us: int = 60_000_000
    strict: bool = False
    audit: bool = False


class Session:
    """A simulation as its dispatcher meets it: open it, then advance and reply in turn.

    Attributes:
        simulation: The engine, from the moment the session is open.
    """

    simulation: Simulation

    def __init__(self, offer: Offer, sink: Sink) -> None:
        self.offer = offer
        self._sink = sink
        self._translator = translate.Translator()
        self._state_mode: StateMode = "events"
        self._version = 0

    def open(self, hello: HelloBody) -> WelcomeBody:
        """Begin the run for a dispatcher.

        Raises:
            ProtocolError: What it wants is not to be had; the session was not opened.
            InputError: The workload cannot be opened.
        """
        if PROTOCOL_VERSION not in hello["versions"]:
            raise ProtocolError(
                "version.unsupported",
                f"versions {', '.join(hello['versions'])} are not spoken here",
                "body.versions",
                [PROTOCOL_VERSION],
                fatal=True,
            )
        ask = hello.get("ask") or "always"
        wants = hello.get("wants")
        if wants is None:
            wants = sorted(EVENT_KINDS)
        elif unknown := set(wants) - EVENT_KINDS:
            raise ProtocolError(
                "wants.unknown",
                f"no event {min(unknown)!r} is defined",
                "body.wants",
                sorted(EVENT_KINDS),
                fatal=True,
            )
        self._state_mode = (hello.get("capabilities") or {}).get("state") or "events"
        offer = self.offer
        self.simulation = Simulation(
            offer.groups,
            offer.open_source(),
            ask_always=ask == "always",
            wants=[translate.EVENTS[kind] for kind in wants if kind in translate.EVENTS],
            on_overrun=offer.on_overrun,
        )
        return {
            "version": PROTOCOL_VERSION,
            "server": {"name": "parley", "version": __version__, "language": "python"},
            "granted": {"state": self._state_mode},
            "ask": ask,
            "wants": list(wants),
            "seed": offer.seed,
            "limits": {
                "message_bytes": FROM_CLIENT.message_bytes,
                "depth": FROM_CLIENT.depth,
                "decisions": MAX_DECISIONS,
            },
            "policy": {
                "on_reject": "report",
                "on_timeout": "fail",
                "on_disconnect": "fail",
                "latency_model": "zero",
            },
            "scenario": {"name": offer.name, "digest": offer.digest, "rules": _rules(offer)},
            "platform": translate.platform_dict(offer.groups),
        }

    def advance(self, budget: int | None = None) -> DecisionRequestBody | SessionEndBody | Paused:
        """Go on to the next request, or to the end of the run.

        Raises:
            InputError: The workload cannot be read on, or breaks a strict rule.
        """
        simulation = self.simulation
        point = simulation.advance(budget)
        if point is None or simulation.backlog >= _BACKLOG:
            self._sink.collect(simulation)
        if self.offer.strict and simulation.first_unfit is not None:
            job = simulation.first_unfit
            chunks = sum(group.chunks for group in job.request)
            raise InputError(
                f"job {job.name}, submitted at {job.submit / 1e6:.15g} s, asks for {chunks} "
                "chunks, more than the empty machine holds, which --strict makes an error"
            )
        if self.offer.audit:
            check_invariants(simulation)
        if point is PAUSED:
            return PAUSED
        return self.end_body() if point is None else self._request(point)

    def reply(self, body: DecisionReplyBody) -> None:
        """Carry out an answer.

        Raises:
            ProtocolError: It is no answer to what was asked; nothing was carried out.
        """
        if body["state_version"] != self._version:
            raise ProtocolError(
                "state.version",
                f"the reply is to version {body['state_version']}, asked was {self._version}",
                "body.state_version",
            )
        decisions = body["decisions"]
        if len(decisions) > MAX_DECISIONS:
            raise ProtocolError(
                "limit.decisions",
                f"{len(decisions)} decisions in one reply",
                "body.decisions",
                [str(MAX_DECISIONS)],
            )
        self.simulation.apply(map(translate.decision, decisions))
        if self.offer.audit:
            check_invariants(self.simulation)

    def end_body(self, reason: str | None = None) -> SessionEndBody:
        """Return the last message of the session."""
        simulation = self.simulation
        if reason is None:
            reason = simulation.end.value if simulation.end else "broken_off"
        return {
            "reason": reason,
            "now_us": simulation.now,
            "outcomes": translate.outcome_dicts(simulation.outcomes),
            "stats": translate.stats_dict(simulation.counts),
        }

    def require_completed(self) -> None:
        """Do nothing if the run is complete.

        Raises:
            RunFailed: It stalled; the text says what is left.
        """
        simulation = self.simulation
        if simulation.end is EndReason.STALLED:
            names = [job.name for job in list(simulation.pending.values())[:5]]
            more = ", ..." if len(simulation.pending) > len(names) else ""
            raise RunFailed(
                "stalled",
                f"stalled at {simulation.now / 1e6:g} s: nothing runs, nothing is to come, and the "
                f"dispatcher starts none of the {len(simulation.pending)} pending jobs "
                f"({', '.join(names)}{more})",
            )

    def _request(self, point: DecisionPoint) -> DecisionRequestBody:
        self._version = point.version
        body: DecisionRequestBody = {
            "now_us": point.now,
            "attempt": 1,
            "events": self._translator.events(point.events),
            "outcomes": translate.outcome_dicts(point.outcomes),
            "state_version": point.version,
            "deadline_ms": self.offer.deadline_us // 1000,
        }
        if point.opening or self._state_mode == "snapshot":
            body["state"] = self._translator.state(self.simulation)
        return body


def _rules(offer: Offer) -> RulesDict:
    rules = offer.rules
    return {
        "request": rules["request"],
        "select": rules["select"],
        "on_overrun": rules["on_overrun"],
        "estimate": rules["estimate"],
        "estimate_missing": rules["estimate_missing"],
    }
