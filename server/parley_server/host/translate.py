"""Between the engine's words and the wire's.

What a dispatcher may know of a job is decided here, in `job_dict`: neither its runtime nor any
other field that was only known afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from parley_server.engine import (
    Annotate,
    Event,
    JobEnded,
    JobSubmitted,
    Kill,
    Refuse,
    Reject,
    SessionStart,
    Span,
    Start,
    TimerFired,
    Wake,
    WorkloadExhausted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from parley_protocol.messages import (
        ChunkGroupDict,
        EventDict,
        JobDict,
        OutcomeDict,
        PlatformDict,
        StateDict,
        StatsDict,
    )
    from parley_protocol.scalars import Attributes
    from parley_server.engine import (
        Allocation,
        ChunkGroup,
        Decision,
        Job,
        JobCounts,
        NodeGroup,
        Outcome,
        Simulation,
    )

EVENTS: Mapping[str, type[Event]] = {
    "session.start": SessionStart,
    "job.submitted": JobSubmitted,
    "job.ended": JobEnded,
    "timer.fired": TimerFired,
    "workload.exhausted": WorkloadExhausted,
}
"""The engine's events by their kind on the wire."""


class Translator:
    """Turns decision points into requests; it keeps one wire form per request that recurs."""

    def __init__(self) -> None:
        self._requests: dict[tuple[ChunkGroup, ...], list[ChunkGroupDict]] = {}

    def events(self, events: Iterable[Event]) -> list[EventDict]:
        """Return events in the wire's words, in their order."""
        return [self._event(event) for event in events]

    def job(self, job: Job) -> JobDict:
        """Return what a dispatcher may know of a job."""
        wire: JobDict = {
            "job": job.number,
            "name": job.name,
            "submit_us": job.submit,
            "request": self._request(job.request),
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
            "pending": [self.job(job) for job in simulation.pending.values()],
            "running": [
                {
                    "job": self.job(running.job),
                    "start_us": running.start,
                    "allocation": allocation_array(running.allocation),
                }
                for running in simulation.running.values()
            ],
            "nodes": [
                (first, last, dict(zip(kinds, free, strict=True)), "up")
                for first, last, free in simulation.cluster.runs()
            ],
            "timers": [
                {"timer": timer, "at_us": at} for timer, at in sorted(simulation.timers.items())
            ],
        }

    def _event(self, event: Event) -> EventDict:
        match event:
            case JobSubmitted(at, job):
                return {"kind": "job.submitted", "at_us": at, "job": self.job(job)}
            case JobEnded(at, number, state):
                return {
                    "kind": "job.ended",
                    "at_us": at,
                    "job": number,
                    "status": state.value,  # type: ignore[typeddict-item]
                }
            case TimerFired(at, timer):
                return {"kind": "timer.fired", "at_us": at, "timer": timer}
            case WorkloadExhausted(at):
                return {"kind": "workload.exhausted", "at_us": at}
            case SessionStart(at):
                return {"kind": "session.start", "at_us": at}

    def _request(self, request: tuple[ChunkGroup, ...]) -> list[ChunkGroupDict]:
        wire = self._requests.get(request)
        if wire is None:
            wire = [
                {
                    "chunks": group.chunks,
                    "per_chunk": dict(group.shape.per_chunk),
                    "exclusive": group.shape.exclusive,
                }
                for group in request
            ]
            if len(self._requests) >= 4096:
                self._requests.clear()
            self._requests[request] = wire
        return wire


def allocation_array(allocation: Allocation) -> Any:
    """Return an allocation as arrays of arrays of spans."""
    return [list(map(list, spans)) for spans in allocation]


def outcome_dicts(outcomes: Sequence[Outcome]) -> list[OutcomeDict]:
    """Return what became of each decision."""
    result: list[OutcomeDict] = []
    for outcome in outcomes:
        if outcome.code is not None:
            result.append(
                {
                    "id": outcome.id,
                    "status": "rejected",
                    "code": outcome.code,
                    "message": outcome.message,
                }
            )
        elif outcome.allocation is not None:
            result.append(
                {
                    "id": outcome.id,
                    "status": "applied",
                    "allocation": allocation_array(outcome.allocation),
                }
            )
        else:
            result.append({"id": outcome.id, "status": "applied"})
    return result


def decision(wire: Any) -> Decision:
    """Return the engine's form of a `DecisionDict`; what it cannot say is refused in its turn."""
    kind, number = wire["kind"], wire["id"]
    # Comparing the tag costs a third of matching the dictionary.
    if kind == "start":
        allocation = wire.get("allocation")
        if allocation is None:
            return Start(number, wire["job"])
        # Lists in between: a generator costs more than these short lists.
        spans = tuple([tuple([Span(*span) for span in group]) for group in allocation])
        return Start(number, wire["job"], spans)
    if kind == "reject":
        return Reject(number, wire["job"])
    if kind == "kill":
        return Kill(number, wire["job"])
    if kind == "wake":
        return Wake(number, wire["timer"], wire["at_us"])
    if kind == "annotate":
        return Annotate(number, wire["job"], wire.get("expected_start_us"))
    return Refuse(
        number, "decision.unsupported", f"no decision {kind[:64]!r} is defined in this version"
    )


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
    }
