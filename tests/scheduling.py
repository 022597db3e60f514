"""Policies on jobs that are given as plain numbers, without any file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from parley_client import Dispatcher
from parley_server.engine import ListSource, NodeGroup, OnOverrun
from parley_server.host.conduct import Conduct
from parley_server.host.inprocess import run_in_process
from parley_server.host.session import Offer, Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley_server.engine import Job, JobRecord

RULES = dict.fromkeys(("request", "select", "on_overrun", "estimate", "estimate_missing"), "x")


class Placed(NamedTuple):
    """What became of a job, in microseconds."""

    start: int | None
    end: int | None
    allocation: Any


@dataclass
class Kept:
    """Keeps the records of a session."""

    records: list[JobRecord] = field(default_factory=list)

    def collect(self, simulation):
        self.records += simulation.take_records()
        simulation.take_instants()

    def timed(self, now, **spent):
        pass

    def tick(self, clock_ns):
        pass


def schedule(
    jobs: Sequence[Job],
    policy,
    *,
    groups: Sequence[NodeGroup] | int = 6,
    allocator="first-fit",
    ask=None,
    kills=True,
    seed=0,
    **conduct: Any,
) -> dict[str, Placed]:
    """Return what became of each job, by its name; of a requeued one, in its last attempt."""
    if isinstance(groups, int):
        groups = [NodeGroup("n", groups, {"core": 1})]
    kept = Kept()
    offer = Offer(
        name="test",
        digest="0",
        rules=RULES,
        groups=groups,
        open_source=lambda: ListSource(jobs),
        on_overrun=OnOverrun.KILL if kills else OnOverrun.RUN,
        seed=seed,
        audit=True,
        changes=conduct.pop("changes", ()),
        conduct=Conduct(state_digest=True, **conduct),
    )
    session = Session(offer, kept)
    run_in_process(session, Dispatcher(policy, allocator=allocator, ask=ask), kept)
    kept.collect(session.simulation)
    session.require_completed()
    return {
        record.job.name: Placed(record.start, record.end, record.allocation)
        for record in kept.records
        if record.last
    }
