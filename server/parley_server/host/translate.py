"""Between the engine's words and the wire's.

What a dispatcher may know of a job is decided here, in `job_dict`: neither its runtime nor any
other field that was only known afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from parley_protocol.digest import state_digest
from parley_server.engine import (
    FIRST_SUBMITTED,
    Annotate,
    CancelWake,
    ChunkGroup,
    Event,
    Hold,
    Job,
    JobEnded,
    JobSubmitted,
    Kill,
    NodesDown,
    NodesUp,
    Outcome,
    Refuse,
    Reject,
    Release,
    Requeue,
    SessionStart,
    Shape,
    Start,
    Stop,
    Submit,
    TimerFired,
    Wake,
    WorkloadExhausted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley_protocol.messages import (
        ChunkGroupDict,
        EventDict,
        JobDict,
        NewJobDict,
        OutcomeDict,
        PlatformDict,
        StateDict,
        StatsDict,
    )
    from parley_protocol.scalars import Attributes
    from parley_server.engine import (
        Allocation,
        Decision,
        JobCounts,
        NodeGroup,
        Simulation,
    )

EVENTS: Mapping[str, type[Event]] = {
    "session.start": SessionStart,
    "job.submitted": JobSubmitted,
    "job.ended": JobEnded,
    "node.down": NodesDown,
    "node.up": NodesUp,
    "timer.fired": TimerFired,
    "workload.exhausted": WorkloadExhausted,
}
"""The engine's events by their kind on the wire."""


_MOST_REQUESTS = 4096
"""Wire forms kept; a trace may ask for another amount in every line."""

_made = tuple.__new__
"""Makes a named tuple of what stands in its order; its own constructor is one more call."""

_ALL_WELL = Outcome(0)[1:]


class Translator:
    """Turns decision points into requests; it keeps one wire form per request that recurs."""

    def __init__(self) -> None:
        self._requests: dict[tuple[ChunkGroup, ...], list[ChunkGroupDict]] = {}

    def events(self, events: Iterable[Event]) -> list[EventDict]:
        """Return events in the wire's words, in their order."""
        told: list[EventDict] = []
        for event in events:
            # Nearly all are of these two kinds; comparing types costs a third of matching them.
            if type(event) is JobSubmitted:
                told.append({"kind": "job.submitted", "at_us": event[0], "job": self.job(event[1])})
            elif type(event) is JobEnded:
                at, number, state = event
                told.append(
                    {"kind": "job.ended", "at_us": at, "job": number, "status": state.word}  # type: ignore[typeddict-item]
                )
            else:
                told.append(_rarer(event))
        return told

    def job(self, job: Job) -> JobDict:
        """Return what a dispatcher may know of a job."""
        wire: JobDict = {
            "job": job.number,
            "name": job.name,
            "submit_us": job.submit,
            "request": self._requests.get(job.request) or self._request(job.request),
        }
        if job.walltime is not None:
            wire["walltime_us"] = job.walltime
        if job.user is not None:
            wire["user"] = job.user
        if job.group is not None:
            wire["group"] = job.group
        if job.queue is not None:
            wire["queue"] = job.queue
        if job.partition is not None:
            wire["partition"] = job.partition
        if job.attributes:
            wire["attributes"] = cast("Attributes", job.attributes)
        return wire

    def state(self, simulation: Simulation) -> StateDict:
        """Return the whole state; O(pending + running + runs of nodes)."""
        kinds = simulation.cluster.kinds
        return {
            "pending": [self.job(job) for job in simulation.queue()],
            "held": sorted(simulation.holds),
            "running": [
                {
                    "job": self.job(running.job),
                    "start_us": running.start,
                    "allocation": allocation_array(running.allocation),
                }
                for running in simulation.running.values()
            ],
            "nodes": [
                (first, last, dict(zip(kinds, free, strict=True)), "down" if down else "up")
                for first, last, free, down in simulation.cluster.runs()
            ],
            "timers": [
                {"timer": timer, "at_us": at} for timer, at in sorted(simulation.timers.items())
            ],
            "exhausted": simulation.exhausted,
        }

    def _request(self, request: tuple[ChunkGroup, ...]) -> list[ChunkGroupDict]:
        wire: list[ChunkGroupDict] = [
            {
                "chunks": group.chunks,
                "per_chunk": dict(group.shape.per_chunk),
                "exclusive": group.shape.exclusive,
            }
            for group in request
        ]
        if len(self._requests) >= _MOST_REQUESTS:
            self._requests.clear()
        self._requests[request] = wire
        return wire


def _rarer(event: Event) -> EventDict:
    match event:
        case NodesDown(at, nodes):
            return {"kind": "node.down", "at_us": at, "nodes": [*nodes]}
        case NodesUp(at, nodes):
            return {"kind": "node.up", "at_us": at, "nodes": [*nodes]}
        case TimerFired(at, timer):
            return {"kind": "timer.fired", "at_us": at, "timer": timer}
        case WorkloadExhausted(at):
            return {"kind": "workload.exhausted", "at_us": at}
        case SessionStart(at):
            return {"kind": "session.start", "at_us": at}
        case _:
            raise TypeError(f"no such event: {event!r}")


def allocation_array(allocation: Allocation) -> Any:
    """Return an allocation as arrays of arrays of spans."""
    return [list(map(list, spans)) for spans in allocation]


def outcome_dicts(outcomes: Sequence[Outcome]) -> list[OutcomeDict]:
    """Return what became of each decision."""
    # Nearly all say no more than that all went well.
    return [
        {"id": outcome[0], "status": "applied"} if outcome[1:] == _ALL_WELL else _outcome(outcome)
        for outcome in outcomes
    ]


def _outcome(outcome: Outcome) -> OutcomeDict:
    wire: OutcomeDict
    if outcome.code is None:
        wire = {"id": outcome.id, "status": "applied"}
        if outcome.allocation is not None:
            wire["allocation"] = allocation_array(outcome.allocation)
        if outcome.job is not None:
            wire["job"] = outcome.job
    else:
        wire = {
            "id": outcome.id,
            "status": "rejected",
            "code": outcome.code,
            "message": outcome.message,
        }
    if outcome.at is not None:
        wire["at_us"] = outcome.at
    return wire


def decision(wire: Any, may_submit: bool = False) -> Decision:  # noqa: FBT001, FBT002 - hot
    """Return the engine's form of a `DecisionDict`; what it cannot say is refused in its turn.

    Args:
        wire: The decision.
        may_submit: The dispatcher was granted to bring in jobs.
    """
    kind, number = wire["kind"], wire["id"]
    # Comparing the tag costs a third of matching the dictionary.
    if kind == "start":
        allocation = wire.get("allocation")
        if allocation is None:
            return Start(number, wire["job"])
        # Lists in between: a generator costs more than these short lists.
        spans = tuple([tuple(map(tuple, group)) for group in allocation])
        return _made(Start, (number, wire["job"], spans))
    if kind == "reject":
        return _made(Reject, (number, wire["job"]))
    if kind == "wake":
        return Wake(number, wire["timer"], wire["at_us"])
    if kind == "wake.cancel":
        return CancelWake(number, wire["timer"])
    if kind == "annotate":
        return Annotate(number, wire["job"], wire.get("expected_start_us"))
    if kind == "submit":
        if not may_submit:
            return Refuse(number, "decision.not_granted", "to submit jobs was not granted")
        return _submit(number, wire["job"], wire.get("at_us"))
    if kind == "stop":
        return Stop(number)
    if kind in _OF_A_JOB:
        return _OF_A_JOB[kind](number, wire["job"])
    return Refuse(
        number, "decision.unsupported", f"no decision {kind[:64]!r} is defined in this version"
    )


_OF_A_JOB: Mapping[str, Callable[[int, int], Decision]] = {
    "reject": Reject,
    "kill": Kill,
    "requeue": Requeue,
    "hold": Hold,
    "release": Release,
}
"""Decisions that say nothing but which job."""


def _submit(number: int, wire: NewJobDict, at: int | None) -> Decision:
    if len(wire["request"]) != 1:
        return Refuse(number, "job.request", f"{len(wire['request'])} groups; one is understood")
    (group,) = wire["request"]
    asked = {kind: amount for kind, amount in group["per_chunk"].items() if amount}
    try:
        shape = Shape.of(asked, exclusive=group["exclusive"])
    except ValueError as error:
        return Refuse(number, "job.request", str(error))
    job = Job(
        number=FIRST_SUBMITTED,
        name=wire.get("name") or "",
        submit=0,
        runtime=wire["runtime_us"],
        walltime=wire.get("walltime_us"),
        request=(ChunkGroup(group["chunks"], shape),),
        walltime_source="dispatcher",
        user=wire.get("user"),
        group=wire.get("group"),
        queue=wire.get("queue"),
        partition=wire.get("partition"),
        attributes=wire.get("attributes") or {},
    )
    return Submit(number, job, at)


def platform_dict(groups: Iterable[NodeGroup]) -> PlatformDict:
    """Return the machine with its nodes numbered."""
    first = 0
    described = []
    for group in groups:
        described.append(
            {
                "name": group.name,
                "first": first,
                "last": first + group.count - 1,
                "capacity": dict(group.capacity),
            }
        )
        first += group.count
    return {"node_count": first, "groups": described}  # type: ignore[typeddict-item]


def stats_dict(counts: JobCounts) -> StatsDict:
    """Return jobs by what became of them."""
    return {
        "submitted": counts.submitted,
        "completed": counts.completed,
        "failed": counts.failed,
        "timed_out": counts.timed_out,
        "killed": counts.killed,
        "rejected": counts.rejected,
        "requeues": counts.requeues,
    }


def digest(simulation: Simulation) -> str:
    """Return the digest of the state, as `parley_protocol.digest` has it; O(state)."""
    cluster = simulation.cluster
    return state_digest(
        now_us=simulation.now,
        pending=simulation.pending,
        held=simulation.holds,
        running=(
            (number, running.start, running.allocation)
            for number, running in simulation.running.items()
        ),
        free=dict(zip(cluster.kinds, cluster.free, strict=True)),
        down=cluster.down(),
        timers=simulation.timers,
    )
