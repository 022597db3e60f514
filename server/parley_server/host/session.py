"""One session: a simulation that waits for a dispatcher's answers, whoever carries them."""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from parley_protocol.codec import FROM_CLIENT
from parley_protocol.errors import ProtocolError
from parley_protocol.messages import EVENT_KINDS, PROTOCOL_VERSION
from parley_server.engine import (
    PAUSED,
    DecisionPoint,
    EndReason,
    OnNodeDown,
    OnOverrun,
    Paused,
    Simulation,
    check_invariants,
)
from parley_server.errors import InputError, RunFailed
from parley_server.host import translate
from parley_server.host.conduct import Conduct
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley_protocol.messages import (
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        OutcomeDict,
        RulesDict,
        SessionEndBody,
        StateSnapshotBody,
        WelcomeBody,
    )
    from parley_protocol.scalars import Ask, DecisionMode, StateMode
    from parley_server.engine import Event, NodeChange, NodeGroup, Source
    from parley_server.host.journal import Journal, JournalEntry

    Follower = Callable[[DecisionRequestBody, Sequence[Any]], bool]

MAX_DECISIONS = 1_000_000
"""In one reply; a job can hardly be decided about twice."""

STRIKES = 3
"""Messages that cannot be decoded before a session fails."""

_BACKLOG = 512
"""Records that may wait before the sink is given them."""

_REFUSALS_KEPT = 5
"""For whoever watches the run."""


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
        conduct: How the session takes what goes wrong.
        changes: When nodes go out of service and come back.
        strict: A job that the empty machine cannot hold ends the run.
        audit: Check every invariant of the simulation after every step.
    """

    name: str
    digest: str
    rules: Mapping[str, str]
    groups: Sequence[NodeGroup]
    open_source: Callable[[], Source]
    conduct: Conduct = field(default_factory=Conduct)
    changes: Sequence[NodeChange] = ()
    on_overrun: OnOverrun = OnOverrun.RUN
    seed: int = 0
    strict: bool = False
    audit: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What a dispatcher and a session have agreed on; it holds for the whole run.

    Attributes:
        submit: The dispatcher may bring in jobs.
    """

    ask: Ask
    wants: tuple[str, ...]
    decisions: DecisionMode = "each"
    submit: bool = False

    @classmethod
    def agreed(cls, hello: HelloBody, conduct: Conduct) -> Terms:
        """Return what comes of a hello.

        Raises:
            ProtocolError: What it wants is not to be had.
        """
        if PROTOCOL_VERSION not in hello["versions"]:
            raise ProtocolError(
                "version.unsupported",
                f"versions {', '.join(hello['versions'])} are not spoken here",
                "body.versions",
                [PROTOCOL_VERSION],
                fatal=True,
            )
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
        capabilities = hello.get("capabilities") or {}
        return cls(
            ask=hello.get("ask") or "always",
            wants=tuple(wants),
            decisions=capabilities.get("decisions") or "each",
            submit=bool(capabilities.get("submit")) and conduct.dynamic_jobs,
        )


class Session:
    """A simulation as its dispatcher meets it: open it, then advance and reply in turn.

    Attributes:
        simulation: The engine, from the moment the session is open.
        terms: What was agreed on, likewise.
        token: Proves whose session it is. It stays the same: a dispatcher that dies between a
            welcome and noting it must be able to come back.
        epoch: Counts the dispatchers that have taken the session up.
        name: What it is called on the wire, where it is one of several.
        refused: How many replies held a decision that was refused.
        refusals: The last of these: instant, the decision's id, code and message.
    """

    simulation: Simulation
    terms: Terms

    def __init__(self, offer: Offer, sink: Sink, *, journal: Journal | None = None) -> None:
        self.offer = offer
        self.token = ""
        self.epoch = 0
        self.name = "1"
        self.refused = 0
        self.refusals: deque[tuple[int, int, str, str]] = deque(maxlen=_REFUSALS_KEPT)
        self._sink = sink
        self._journal = journal
        self._translator = translate.Translator()
        self._state_mode: StateMode = "events"
        self._asked: DecisionPoint | None = None
        self._attempt = 0
        self._reasked = 0
        self._judged: Sequence[Any] = ()
        self._late: list[OutcomeDict] = []
        self._untold: list[Event] = []
        self._state_due = False
        # Asked at every request.
        self._inspects = offer.strict or offer.audit
        model = offer.conduct.latency
        self._latency = None if model.model == "zero" else model
        self._deadline_ms = offer.conduct.deadline_us // 1000
        self._digests = offer.conduct.state_digest

    # ------------------------------------------------------------------ opening

    @property
    def begun(self) -> bool:
        """Whether there is a simulation yet."""
        return hasattr(self, "simulation")

    def open(self, hello: HelloBody) -> WelcomeBody:
        """Begin the run for a dispatcher, or let it take up one that was recovered.

        Raises:
            ProtocolError: What it wants is not to be had; the session was not opened.
            InputError: The workload cannot be opened.
        """
        terms = Terms.agreed(hello, self.offer.conduct)
        if not self.begun:
            self.begin(terms)
            if self._journal is not None:
                self._journal.begin(terms)
            return self._welcome(hello, resumed=False)
        return self._welcome(hello, resumed=True)

    def resume(self, hello: HelloBody) -> WelcomeBody:
        """Let another dispatcher take the session up.

        Raises:
            ProtocolError: It has not the token, or does not speak our version.
        """
        Terms.agreed(hello, self.offer.conduct)
        resume = hello.get("resume")
        given = resume["token"] if resume is not None else ""
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise ProtocolError(
                "session.token",
                "that is not the token of this session",
                "body.resume.token",
                fatal=True,
            )
        return self._welcome(hello, resumed=True)

    def begin(self, terms: Terms) -> None:
        """Make the simulation.

        Raises:
            InputError: The workload cannot be opened.
        """
        offer = self.offer
        self.terms = terms
        self.simulation = Simulation(
            offer.groups,
            offer.open_source(),
            ask_always=terms.ask == "always",
            wants=[translate.EVENTS[kind] for kind in terms.wants if kind in translate.EVENTS],
            on_overrun=offer.on_overrun,
            changes=offer.changes,
            on_node_down=OnNodeDown(offer.conduct.on_node_down),
            atomic=terms.decisions == "atomic",
        )

    def recover(
        self, entries: Iterable[JournalEntry], follow: Follower | None = None
    ) -> tuple[int, bool]:
        """Repeat what a journal holds of this session, without a dispatcher.

        Args:
            entries: The journal.
            follow: Is shown each request and what was decided then, and says whether it would
                have decided so itself; once it would not, it is shown nothing more.

        Returns:
            How many answers there were, and whether it has followed them all.

        Raises:
            InputError: The journal is of another run, or the workload cannot be read.
        """
        count, followed = 0, follow is not None
        for count, entry in enumerate(entries, 1):  # noqa: B007 - returned
            while (message := self.advance(_BACKLOG)) is PAUSED:
                pass
            if "reason" in message:
                raise InputError(f"{entry.place}: an answer after the end of the run")
            digest = translate.digest(self.simulation) if entry.digest is not None else None
            entry.require(message["now_us"], message["state_version"], digest)
            if follow is not None and followed:
                followed = follow(message, entry.decisions)
            self._apply(entry.decisions, entry.latency_us)
        self._state_due = not followed
        return count, followed

    def _welcome(self, hello: HelloBody, *, resumed: bool) -> WelcomeBody:
        offer, terms = self.offer, self.terms
        self.epoch += 1
        self.token = self.token or secrets.token_hex(16)
        self._state_mode = (hello.get("capabilities") or {}).get("state") or "events"
        self._state_due = resumed
        return {
            "version": PROTOCOL_VERSION,
            "server": {"name": "parley", "version": __version__, "language": "python"},
            "granted": {
                "state": self._state_mode,
                "decisions": terms.decisions,
                "submit": terms.submit,
            },
            "ask": terms.ask,
            "wants": list(terms.wants),
            "token": self.token,
            "resumed": resumed,
            "seed": offer.seed,
            "limits": {
                "message_bytes": FROM_CLIENT.message_bytes,
                "depth": FROM_CLIENT.depth,
                "string_bytes": FROM_CLIENT.string_bytes,
                "array_items": FROM_CLIENT.array_items,
                "containers": FROM_CLIENT.containers,
                "decisions": MAX_DECISIONS,
                "undecodable": STRIKES,
            },
            "policy": offer.conduct.announced(),
            "scenario": {"name": offer.name, "digest": offer.digest, "rules": _rules(offer)},
            "platform": translate.platform_dict(offer.groups),
        }

    # ------------------------------------------------------------------ in turn

    def advance(self, budget: int | None = None) -> DecisionRequestBody | SessionEndBody | Paused:
        """Go on to the next request, or to the end of the run.

        Raises:
            InputError: The workload cannot be read on, or breaks a strict rule.
            RunFailed: A decision was refused, and that ends the run.
        """
        simulation = self.simulation
        if simulation.refused and self._must_ask_again():
            return self._request(simulation.ask_again(), attempt=self._attempt + 1)
        point = simulation.advance(budget)
        if point is None or simulation.backlog() >= _BACKLOG:
            self._sink.collect(simulation)
        if self._inspects:
            self._inspect(simulation)
        if point is PAUSED:
            return PAUSED
        if point is None:
            return self.end_body()
        self._reasked = 0
        return self._request(point, attempt=1)

    def tidy(self) -> None:
        """Hand on what has come together so far: for when the dispatcher thinks elsewhere.

        Raises:
            OutputError: It cannot be written.
        """
        if self.simulation.backlog() >= _BACKLOG // 2:
            self._sink.collect(self.simulation)

    def _inspect(self, simulation: Simulation) -> None:
        """Look at what only some runs want looked at.

        Raises:
            InputError: A job that never fits was submitted, which is an error in this run.
        """
        if self.offer.strict and simulation.first_unfit is not None:
            job = simulation.first_unfit
            chunks = sum(group.chunks for group in job.request)
            raise InputError(
                f"job {job.name}, submitted at {job.submit / 1e6:.15g} s, asks for {chunks} "
                "chunks, more than the empty machine holds, which --strict makes an error"
            )
        if self.offer.audit:
            check_invariants(simulation)

    def reply(self, body: DecisionReplyBody, *, wall_us: int = 0) -> int:
        """Carry out an answer; return the simulated microseconds it was charged.

        Args:
            body: The answer.
            wall_us: How long it took.

        Raises:
            ProtocolError: It is no answer to what was asked; nothing was carried out.
        """
        asked = self._asked
        if asked is None or body["state_version"] != asked.version:
            version = asked.version if asked is not None else None
            raise ProtocolError(
                "state.version",
                f"the reply is to version {body['state_version']}, asked was {version}",
                "body.state_version",
                [str(version)],
            )
        decisions = body["decisions"]
        if len(decisions) > MAX_DECISIONS:
            raise ProtocolError(
                "limit.decisions",
                f"{len(decisions)} decisions in one reply",
                "body.decisions",
                [str(MAX_DECISIONS)],
            )
        latency = 0 if self._latency is None else self._latency.of(wall_us)
        self._commit(decisions, latency)
        return latency

    def take_for_empty(self, *, asked: bool = True) -> None:
        """Go on without an answer: it has not come in time.

        Args:
            asked: The request was sent. If not, the next one tells its events too.
        """
        if not asked and self._asked is not None:
            self._untold = list(self._asked.events)
        self._commit([], 0)

    def reply_late(self, body: DecisionReplyBody) -> None:
        """Take note of an answer that was taken for empty; the next request tells of it."""
        self._late = [
            {
                "id": decision["id"],
                "status": "rejected",
                "code": "decision.late",
                "message": "the deadline was missed; the reply counted as empty",
            }
            for decision in body["decisions"]
        ]

    def request_again(self, *, resumed: bool = False) -> DecisionRequestBody | None:
        """Return what was asked last, once more; None if nothing waits for an answer.

        Args:
            resumed: For a dispatcher that has seen nothing of it: this is another attempt, with
                the full state.
        """
        if self._asked is None:
            return None
        self._state_due |= resumed
        return self._request(self._asked, attempt=self._attempt + int(resumed))

    def snapshot(self) -> StateSnapshotBody:
        """Return the whole state, at the instant that was asked about."""
        return {
            "now_us": self.simulation.now,
            "state_version": self.simulation.version,
            "state": self._translator.state(self.simulation),
        }

    def end_body(self, reason: str | None = None) -> SessionEndBody:
        """Return the last message of the session.

        Args:
            reason: Why it ends before the run does; then all outcomes were told before.
        """
        simulation = self.simulation
        outcomes = self._outcomes() if reason is None else []
        if reason is None:
            reason = simulation.end.value if simulation.end else "broken_off"
        return {
            "reason": reason,
            "now_us": simulation.now,
            "outcomes": outcomes,
            "stats": translate.stats_dict(simulation.counts),
        }

    def require_completed(self) -> None:
        """Do nothing if the run is complete, or was stopped by its dispatcher.

        Raises:
            RunFailed: It stalled; the text says what is left.
        """
        simulation = self.simulation
        if simulation.end is EndReason.STALLED:
            names = [job.name for job in simulation.queue()[:5]]
            more = ", ..." if len(simulation.pending) > len(names) else ""
            raise RunFailed(
                "stalled",
                f"stalled at {simulation.now / 1e6:g} s: nothing runs, nothing is to come, and the "
                f"dispatcher starts none of the {len(simulation.pending)} pending jobs "
                f"({', '.join(names)}{more})",
            )

    # ------------------------------------------------------------------ within

    def _commit(self, decisions: Sequence[Any], latency: int) -> None:
        """Note an answer where it survives us, and then carry it out."""
        if self._journal is not None and self._asked is not None:
            self._journal.append(self.simulation, decisions, latency, version=self._asked.version)
        self._apply(decisions, latency)

    def _apply(self, decisions: Sequence[Any], latency: int) -> None:
        self._asked = None
        if self._late:
            self._late = []
        granted, decision = self.terms.submit, translate.decision
        self.simulation.apply([decision(wire, granted) for wire in decisions], latency=latency)
        if self._inspects and self.offer.audit:
            check_invariants(self.simulation)

    def _must_ask_again(self) -> bool:
        """Judge what became of the last decisions, once.

        Raises:
            RunFailed: One was refused, and that ends the run.
        """
        simulation, conduct = self.simulation, self.offer.conduct
        if simulation.outcomes is self._judged:
            return False
        self._judged = simulation.outcomes
        refused = next(outcome for outcome in simulation.outcomes if not outcome.applied)
        self.refused += 1
        code, message = refused.code or "", refused.message or ""
        self.refusals.append((simulation.now, refused.id, code, message))
        if conduct.on_reject == "report":
            return False
        if conduct.on_reject == "fail":
            raise RunFailed(
                "decision_refused",
                f"the dispatcher's decision {refused.id} at {simulation.now / 1e6:.15g} s was "
                f"refused: {refused.message} [{refused.code}] (--on-reject fail)",
            )
        if simulation.stopped or self._reasked >= conduct.reasks:
            return False
        self._reasked += 1
        return True

    def _request(self, point: DecisionPoint, *, attempt: int) -> DecisionRequestBody:
        if self._untold:
            point = replace(point, events=[*self._untold, *point.events])
            self._untold = []
        self._asked = point
        self._attempt = attempt
        body: DecisionRequestBody = {
            "now_us": point.now,
            "attempt": attempt,
            "events": self._translator.events(point.events),
            "outcomes": self._outcomes(),
            "state_version": point.version,
            "deadline_ms": self._deadline_ms,
        }
        if point.opening or self._state_due or self._state_mode == "snapshot":
            body["state"] = self._translator.state(self.simulation)
            self._state_due = False
        if self._digests:
            body["state_digest"] = translate.digest(self.simulation)
        return body

    def _outcomes(self) -> list[OutcomeDict]:
        """Return what became of the last decisions, those that came late included."""
        outcomes = self.simulation.outcomes
        told = translate.outcome_dicts(outcomes) if outcomes else []
        return told + self._late if self._late else told


def _rules(offer: Offer) -> RulesDict:
    return cast(
        "RulesDict",
        {
            key: offer.rules[key]
            for key in ("request", "select", "on_overrun", "estimate", "estimate_missing")
        },
    )
