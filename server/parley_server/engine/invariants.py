"""An independent check that a simulation is in order; it shares no bookkeeping with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley_server.engine.simulation import Simulation


class BrokenInvariant(AssertionError):
    """The simulation has contradicted itself: a defect of ours."""


def check_invariants(simulation: Simulation) -> None:
    """Recount everything node by node and job by job; O(nodes + jobs present).

    Raises:
        BrokenInvariant: What does not add up.
    """
    _check_nodes(simulation)
    _check_jobs(simulation)
    _check_ends(simulation)


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - as assert takes it
    if not condition:
        raise BrokenInvariant(message)


def _check_nodes(simulation: Simulation) -> None:
    capacity = [group.capacity for group in simulation.cluster.groups for _ in range(group.count)]
    used: list[dict[str, int]] = [{} for _ in capacity]
    tenants = [0] * len(capacity)
    sealed = [False] * len(capacity)
    for running in simulation.running.values():
        for group, spans in zip(running.job.request, running.allocation, strict=True):
            placed = 0
            for first, last, chunks in spans:
                for node in range(first, last + 1):
                    placed += chunks
                    tenants[node] += 1
                    sealed[node] |= group.shape.exclusive
                    for kind, amount in group.shape.per_chunk:
                        used[node][kind] = used[node].get(kind, 0) + chunks * amount
            _require(
                placed == group.chunks,
                f"job {running.job.number} holds {placed} chunks, asks for {group.chunks}",
            )
    for node, amounts in enumerate(used):
        for kind, amount in amounts.items():
            limit = capacity[node].get(kind, 0)
            _require(amount <= limit, f"node {node} holds {amount} {kind} of {limit}")
        _require(
            not sealed[node] or tenants[node] == 1,
            f"node {node} is held exclusively, by {tenants[node]} jobs",
        )
    _check_free(simulation, capacity, used, sealed)
    for first, last in simulation.cluster.down():
        tenant = any(tenants[first : last + 1])
        _require(not tenant, f"nodes {first} to {last} are down, and a job is on one of them")


def _check_free(
    simulation: Simulation,
    capacity: Sequence[Mapping[str, int]],
    used: list[dict[str, int]],
    sealed: list[bool],
) -> None:
    kinds = simulation.cluster.kinds
    totals = [0] * len(kinds)
    in_service = [0] * len(kinds)
    seen = 0
    for first, last, free, down in simulation.cluster.runs():
        _require(first == seen, f"nodes {seen} to {first} are in no run")
        seen = last + 1
        for node in range(first, last + 1):
            for index, kind in enumerate(kinds):
                total = capacity[node].get(kind, 0)
                expected = 0 if sealed[node] or down else total - used[node].get(kind, 0)
                in_service[index] += 0 if down else total
                _require(
                    free[index] == expected,
                    f"node {node} shows {free[index]} {kind} free where {expected} are",
                )
                totals[index] += expected
    _require(seen == len(capacity), f"the runs end at node {seen} of {len(capacity)}")
    _require(
        totals == simulation.cluster.free,
        f"free in all: {totals}, the cluster says {simulation.cluster.free}",
    )
    _require(
        in_service == simulation.cluster.in_service,
        f"in service: {in_service}, the cluster says {simulation.cluster.in_service}",
    )


def _check_jobs(simulation: Simulation) -> None:
    counts = simulation.counts
    both = simulation.pending.keys() & simulation.running.keys()
    _require(not both, f"jobs {sorted(both)} are pending and running at once")
    _require(
        simulation.holds <= simulation.pending.keys(), f"held, not pending: {simulation.holds}"
    )
    _require(counts.pending == len(simulation.pending), "pending jobs are miscounted")
    _require(counts.running == len(simulation.running), "running jobs are miscounted")
    _require(
        counts.submitted == counts.pending + counts.running + counts.ended,
        f"jobs were lost or made: {counts}",
    )


def _check_ends(simulation: Simulation) -> None:
    for number, running in simulation.running.items():
        _require(number == running.job.number, f"job {running.job.number} runs as {number}")
        _require(
            running.end >= simulation.now,
            f"job {number} was to end at {running.end}, it is {simulation.now}",
        )
        _require(running.start <= simulation.now, f"job {number} has not started yet")
