"""A small simulation of a machine: what a scripted server tells a dispatcher.

It shares no code with the server. The oracle keeps its state and says what is legal; here are the
agenda, the rules by which a dispatcher is asked, and the messages.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parley_conformance.digest import digest_of
from parley_conformance.oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SECOND = 1_000_000

EVENT_KINDS = (
    *("job.ended", "job.started", "job.submitted", "node.down", "node.up"),
    *("session.start", "timer.fired", "workload.exhausted"),
)

DYNAMIC = 2**52
"""The number of the first job that a dispatcher brings in."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the workload; times in seconds.

    Attributes:
        more: Further fields of its description.
    """

    submit: int
    chunks: int
    runtime: int
    walltime: int | None = None
    per_chunk: Mapping[str, int] = field(default_factory=lambda: {"core": 1})
    exclusive: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """Nodes go out of service, or come back; seconds."""

    at: int
    state: str
    nodes: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated.

    Attributes:
        groups: Name, count and capacity of each group of nodes.
        latency: Simulated seconds that a decision takes.
    """

    jobs: Sequence[Job]
    groups: Sequence[tuple[str, int, Mapping[str, int]]] = (("nodes", 4, {"core": 1}),)
    changes: Sequence[Change] = ()
    on_node_down: str = "kill"
    latency: int = 0
    on_reject: str = "report"
    reasks: int = 3
    on_overrun: str = "run"
    submit: bool = False

    @property
    def platform(self) -> dict[str, Any]:
        """The machine as a welcome describes it."""
        groups, first = [], 0
        for name, count, capacity in self.groups:
            groups.append(
                {
                    "name": name,
                    "first": first,
                    "last": first + count - 1,
                    "capacity": dict(capacity),
                }
            )
            first += count
        return {"node_count": first, "groups": groups}


@dataclass(order=True, slots=True)
class _Due:
    at: int
    rank: int
    order: int
    what: Any = field(compare=False)


class Machine:
    """The simulation.

    Args:
        plan: What is simulated.
        wants: Kinds of event to be told; None for all.
        ask: `always` or `actionable`.
        snapshot: Whether every request carries the state.
        refuse: Returns for a decision the code it is refused with against all right, or None.

    Attributes:
        now: Microseconds.
        reason: Why the run is over; empty while it is not.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        wants: Iterable[str] | None = None,
        ask: str = "always",
        snapshot: bool = False,
        refuse: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._wants = frozenset(EVENT_KINDS if wants is None else wants) | {"session.start"}
        self._ask = ask
        self._snapshot = snapshot
        self._refuse = refuse
        self._oracle = Oracle({"platform": plan.platform, "granted": {"submit": plan.submit}})
        self.now = 0
        self.reason = ""
        self.version = 0
        self.stats: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.decided = 0
        self._agenda: list[_Due] = []
        self._counter = 0
        self._starts: dict[int, int] = {}
        self._runtimes: dict[int, int] = {}
        self._to_come = len(plan.jobs)
        self._submitted_dynamic = 0
        self._untold: list[dict[str, Any]] = []
        self._outcomes: list[dict[str, Any]] = []
        self._happened = True
        self._moved = False
        self._asked_again = False
        self._attempt = 1
        self._request: dict[str, Any] = {}
        for number, job in enumerate(plan.jobs):
            self._schedule(job.submit * SECOND, _SUBMISSION, number, ("submit", number, job))
            self._runtimes[number] = job.runtime * SECOND
        for change in plan.changes:
            self._schedule(change.at * SECOND, _NODES, 0, (change.state, change.nodes))

    # ------------------------------------------------------------------ the dialogue

    def first(self) -> dict[str, Any]:
        """Return the body of the first request."""
        self._tell({"kind": "session.start", "at_us": 0})
        self.version = 0
        if not self._to_come:
            self._tell({"kind": "workload.exhausted", "at_us": 0})
        return self._make(with_state=True)

    def again(self) -> dict[str, Any]:
        """Return the body of the outstanding request once more, as after a resume."""
        self._request = {**self._request, "attempt": self._request["attempt"] + 1}
        self._request["state"] = self.state()
        return self._request

    def snapshot(self) -> dict[str, Any]:
        """Return the body of a `state.snapshot`."""
        return {"now_us": self.now, "state_version": self.version, "state": self.state()}

    def answer(self, decisions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Let decisions take effect; return the body of the next request, or of the end.

        The run is over if `reason` is set afterwards.
        """
        before = self.now
        told = len(self._untold)
        late = self.now + self._plan.latency * SECOND
        while self._agenda and self._agenda[0].at <= late and self._plan.latency:
            self._happen()
        self.now = late
        self._outcomes = [self._carry_out(decision) for decision in decisions]
        self._moved = self._moves(decisions)
        if self._oracle.stopped:
            self.reason = "stopped"
            return self.end()
        rejected = [outcome for outcome in self._outcomes if outcome["status"] == "rejected"]
        if rejected and self._plan.on_reject == "reask" and self._attempt <= self._plan.reasks:
            self._attempt += 1
            return self._make()
        self._attempt = 1
        if self.now > before and len(self._untold) > told and self._may_ask():
            return self._make()
        return self._go_on()

    def end(self) -> dict[str, Any]:
        """Return the body of the `session.end`."""
        names = ("completed", "failed", "timed_out", "killed", "rejected", "requeues")
        stats = {"submitted": self.stats["submitted"]}
        stats.update({name: self.stats[name] for name in names})
        return {
            "reason": self.reason,
            "now_us": self.now,
            "outcomes": self._outcomes,
            "stats": stats,
        }

    def _go_on(self) -> dict[str, Any]:
        while True:
            if not self._left:
                self.reason = "completed"
                return self.end()
            if not self._agenda:
                return self._stuck()
            wanted = len(self._untold)
            self._happen()
            if len(self._untold) > wanted and self._may_ask():
                return self._make()

    @property
    def _left(self) -> bool:
        """Whether a job is pending, running or still to be submitted."""
        dynamic = any(due.what[0] == "submit" for due in self._agenda)
        return bool(self._oracle.pending or self._oracle.running or self._to_come or dynamic)

    def _stuck(self) -> dict[str, Any]:
        """Ask once more if anything has changed, or end as stalled."""
        rejected = bool(self._outcomes) and all(
            outcome["status"] == "rejected" for outcome in self._outcomes
        )
        if self._happened or self._moved:
            self._asked_again = False
            return self._make()
        if rejected and not self._asked_again:
            self._asked_again = True
            return self._make()
        self.reason = "stalled"
        return self.end()

    def _moves(self, decisions: Sequence[Mapping[str, Any]]) -> bool:
        kinds = {"start", "reject", "kill", "requeue", "submit", "wake"}
        pairs = zip(decisions, self._outcomes, strict=True)
        return any(one["kind"] in kinds and what["status"] == "applied" for one, what in pairs)

    def _may_ask(self) -> bool:
        if self._ask != "actionable":
            return True
        if any(event["kind"] == "timer.fired" for event in self._untold):
            return True
        if any(outcome["status"] == "rejected" for outcome in self._outcomes):
            return True
        jobs = [self._oracle.known[number] for number in self._oracle.pending - self._oracle.held]
        if not jobs:
            return False
        free = self._free()
        return all(
            min(
                group["chunks"] * group["per_chunk"].get(kind, 0)
                for job in jobs
                for group in job["request"]
            )
            <= free[kind]
            for kind in free
        )

    def _make(self, *, with_state: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {
            "now_us": self.now,
            "attempt": self._attempt,
            "events": self._untold,
            "outcomes": self._outcomes,
            "state_version": self.version,
        }
        if with_state or self._snapshot:
            body["state"] = self.state()
        self._untold, self._happened = [], False
        self._request = body
        return body

    # ------------------------------------------------------------------ what happens

    def _schedule(self, at: int, rank: int, order: int, what: Any) -> None:
        self._agenda.append(_Due(at, rank, order, what))
        self._agenda.sort()

    def _happen(self) -> None:
        """Let everything of the next instant happen."""
        self.now = self._agenda[0].at
        due = [item for item in self._agenda if item.at == self.now]
        self._agenda = [item for item in self._agenda if item.at != self.now]
        for item in due:
            match item.what:
                case ("end", int(job), str(status)):
                    self._end(job, status)
                case ("down" | "up" as state, nodes):
                    self._change(state, nodes)
                case ("submit", int(number), job):
                    self._submit(number, job)
                case ("timer", int(timer)):
                    self._oracle.timers.pop(timer, None)
                    self._tell({"kind": "timer.fired", "at_us": self.now, "timer": timer})

    def _tell(self, event: dict[str, Any]) -> None:
        self.version += 1
        self._happened = True
        if event["kind"] in self._wants:
            self._untold.append(event)

    def _end(self, job: int, status: str) -> None:
        if job not in self._oracle.running:
            return
        self._oracle.running.pop(job)
        self._oracle.ending.discard(job)
        self._starts.pop(job, None)
        self._agenda = [due for due in self._agenda if due.what[:2] != ("end", job)]
        if status == "requeued":
            self._oracle.pending.add(job)
            self.stats["requeues"] += 1
        else:
            self.stats[status] += 1
        self._tell({"kind": "job.ended", "at_us": self.now, "job": job, "status": status})

    def _change(self, state: str, nodes: Sequence[Sequence[int]]) -> None:
        numbers = {node for first, last in nodes for node in range(first, last + 1)}
        if state == "down":
            status = "requeued" if self._plan.on_node_down == "requeue" else "failed"
            for job in sorted(self._oracle.running):
                if numbers & set(_nodes_of(self._oracle.running[job])):
                    self._end(job, status)
            self._oracle.down |= numbers
        else:
            self._oracle.down -= numbers
        self._tell({"kind": f"node.{state}", "at_us": self.now, "nodes": [list(r) for r in nodes]})

    def _submit(self, number: int, job: Job | dict[str, Any]) -> None:
        described = job if isinstance(job, dict) else described_job(number, job)
        self.stats["submitted"] += 1
        if self._oracle.could_hold(described):
            self._oracle.known[number] = described
            self._oracle.pending.add(number)
            self._tell({"kind": "job.submitted", "at_us": self.now, "job": described})
        else:
            self.stats["rejected"] += 1
        if not isinstance(job, dict):
            self._to_come -= 1
            if not self._to_come:
                self._tell({"kind": "workload.exhausted", "at_us": self.now})

    # ------------------------------------------------------------------ what is decided

    def _carry_out(self, decision: Mapping[str, Any]) -> dict[str, Any]:
        self._oracle.now = self.now
        self.decided += 1
        outcome: dict[str, Any] = {"id": decision["id"], "status": "applied"}
        code = self._refuse(decision) or self._oracle.carry_out(decision)
        if code is not None:
            self.refused[code] += 1
            outcome.update(status="rejected", code=code, message=f"{decision['kind']}: {code}")
        else:
            self.version += 1
            self._follow(decision, outcome)
        if self._plan.latency:
            outcome["at_us"] = self.now
        return outcome

    def _follow(self, decision: Mapping[str, Any], outcome: dict[str, Any]) -> None:
        job: Any = decision.get("job")
        match decision["kind"]:
            case "start":
                self._starts[job] = self.now
                self._schedule(*self._end_of(job))
                if decision.get("allocation") is None:
                    outcome["allocation"] = merged(self._oracle.running[job])
            case "kill" | "requeue":
                status = "killed" if decision["kind"] == "kill" else "requeued"
                self._schedule(self.now, _END, job, ("end", job, status))
            case "reject":
                self.stats["rejected"] += 1
            case "wake":
                self._counter += 1
                due = ("timer", decision["timer"])
                self._schedule(decision["at_us"], _TIMER, self._counter, due)
            case "wake.cancel":
                due = ("timer", decision["timer"])
                self._agenda = [item for item in self._agenda if item.what != due]
            case "submit":
                self._bring_in(decision, outcome)

    def _end_of(self, job: int) -> tuple[int, int, int, tuple[str, int, str]]:
        """Return when and how a job that starts now will end."""
        runtime, limit = self._runtimes[job], self._oracle.known[job].get("walltime_us")
        if self._plan.on_overrun == "kill" and limit is not None and runtime > limit:
            return self.now + limit, _END, job, ("end", job, "timed_out")
        return self.now + runtime, _END, job, ("end", job, "completed")

    def _bring_in(self, decision: Mapping[str, Any], outcome: dict[str, Any]) -> None:
        number = DYNAMIC + self._submitted_dynamic
        name = decision["job"].get("name") or str(self._submitted_dynamic)
        self._submitted_dynamic += 1
        at = decision.get("at_us")
        at = self.now if at is None else at
        described = {key: item for key, item in decision["job"].items() if key != "runtime_us"}
        described.update(job=number, name=f"dyn!{name}", submit_us=at)
        self._runtimes[number] = decision["job"]["runtime_us"]
        self._schedule(at, _SUBMISSION, number, ("submit", number, described))
        outcome["job"] = number

    # ------------------------------------------------------------------ the state

    def state(self) -> dict[str, Any]:
        """Return the state as a request shows it."""
        oracle = self._oracle
        pending = sorted(
            (oracle.known[number] for number in oracle.pending),
            key=lambda job: (job["submit_us"], job["job"]),
        )
        running = sorted(oracle.running, key=lambda number: (self._starts[number], number))
        return {
            "pending": pending,
            "held": sorted(oracle.held),
            "running": [
                {
                    "job": oracle.known[number],
                    "start_us": self._starts[number],
                    "allocation": merged(oracle.running[number]),
                }
                for number in running
            ],
            "nodes": list(self._node_runs()),
            "timers": [
                {"timer": timer, "at_us": oracle.timers[timer]} for timer in sorted(oracle.timers)
            ],
            "exhausted": not self._to_come,
        }

    def places_for(
        self, job: int, decisions: Sequence[Mapping[str, Any]]
    ) -> list[list[int]] | None:
        """Return the lowest-numbered nodes for a job behind other starts, or None."""
        twin = self._oracle.after(decisions)
        if twin.carry_out({"id": 0, "kind": "start", "job": job}) is not None:
            return None
        return merged(twin.running[job])[0]

    def digest(self) -> str:
        """Return the digest of the state."""
        return digest_of(self.now, self.state())

    def _free(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for first, last, amounts, state in self._node_runs():
            for kind, amount in amounts.items():
                totals[kind] += amount * (last - first + 1) if state == "up" else 0
        return dict(totals)

    def _node_runs(self) -> Iterator[list[Any]]:
        run: list[Any] = []
        before: Any = None
        for node, capacity in enumerate(self._oracle.capacity):
            amounts = self._oracle.free_on(node)
            state = "down" if node in self._oracle.down else "up"
            if run and (capacity, amounts, state) == before:
                run[1] = node
            else:
                if run:
                    yield run
                run = [node, node, amounts, state]
            before = (capacity, amounts, state)
        if run:
            yield run


def described_job(number: int, job: Job) -> dict[str, Any]:
    """Return a job as a dispatcher may know it."""
    described: dict[str, Any] = {
        "job": number,
        "name": str(number + 1),
        "submit_us": job.submit * SECOND,
        "request": [
            {"chunks": job.chunks, "per_chunk": dict(job.per_chunk), "exclusive": job.exclusive}
        ],
    }
    if job.walltime is not None:
        described["walltime_us"] = job.walltime * SECOND
    return {**described, **job.more}


def merged(allocation: Sequence[Sequence[Sequence[int]]]) -> list[list[list[int]]]:
    """Return an allocation with spans joined as far as possible."""
    groups = []
    for spans in allocation:
        joined: list[list[int]] = []
        for first, last, chunks in spans:
            if joined and joined[-1][1] + 1 == first and joined[-1][2] == chunks:
                joined[-1][1] = last
            else:
                joined.append([first, last, chunks])
        groups.append(joined)
    return groups


def _nodes_of(allocation: Sequence[Sequence[Sequence[int]]]) -> Iterator[int]:
    for spans in allocation:
        for first, last, _ in spans:
            yield from range(first, last + 1)


_END, _NODES, _SUBMISSION, _TIMER = range(4)
"""Who goes first among the events of one instant, as the specification has it."""
