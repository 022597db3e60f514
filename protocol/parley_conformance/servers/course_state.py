"""The state that a server shows in whole runs, and its digest."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parley_conformance.case import cases_in
from parley_conformance.judging import each
from parley_conformance.servers.probe import found
from parley_conformance.verdicts import Finding, failed, not_applicable

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_conformance.dialogue import Line, Record


from parley_conformance.servers.courses import (
    REQUEST,
    brief,
    claim,
    course_full,
    course_requeue,
    course_shared,
    course_snapshot,
    first_difference,
)


@claim(
    "STATE-WHERE",
    "Without `state: snapshot` only the first request of a run carries the state.",
    "R-STATE-1",
    right="`state` in the first, absent or nil in the others.",
    profile="delta",
)
def state_where(record: Record) -> Finding | None:
    lines = list(record.of_program(REQUEST))
    for count, line in enumerate(lines):
        has = line.body.get("state") is not None
        if count == 0 and not has:
            return failed("the first request has no state", line.number)
    return found(record)


@claim(
    "STATE-EACH",
    "With `state: snapshot` every request carries the state.",
    "R-STATE-1",
    scenes=course_snapshot,
    right="`state` in each `decision.request`.",
)
def state_each(record: Record) -> Finding | None:
    return each(
        record.of_program(REQUEST),
        lambda line: None if line.body.get("state") is not None else "the state is missing",
    ) or found(record)


def _state_part(name: str) -> Callable[[dict[str, Any]], Any]:
    def look(body: dict[str, Any]) -> Any:
        return (body.get("state") or {}).get(name)

    return look


def _members(name: str) -> Callable[[dict[str, Any]], Any]:
    def look(body: dict[str, Any]) -> Any:
        entries = (body.get("state") or {}).get(name) or []
        return sorted(_job_of(entry) for entry in entries)

    return look


def _job_of(entry: dict[str, Any]) -> int:
    job = entry["job"]
    return int(job["job"] if isinstance(job, dict) else job)


@claim(
    "STATE-AFTER-EVENTS",
    "The state of a request is that after all of its events, before any decision on it.",
    "R-STATE-2",
    scenes=course_snapshot,
    right="A job that the events submit is pending, one that they end runs no more.",
)
def state_after_events(record: Record) -> Finding | None:
    return first_difference(record, _members("pending"), "pending is", REQUEST) or first_difference(
        record, _members("running"), "running is", REQUEST
    )


@claim(
    "STATE-ORDER",
    "`pending` is ordered by submission, then number; `running` by start.",
    "R-STATE-3",
    scenes=course_requeue,
    right="A requeued job is in its old place.",
)
def state_order(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        state = line.body.get("state") or {}
        pending = [(job["submit_us"], job["job"]) for job in state.get("pending") or ()]
        if pending != sorted(pending):
            return f"pending is ordered {brief(pending)}"
        starts = [entry["start_us"] for entry in state.get("running") or ()]
        return f"running is ordered {starts}" if starts != sorted(starts) else None

    return each(record.of_program(REQUEST), check) or found(record)


@claim(
    "STATE-RUNS",
    "The runs of `nodes` hold every node once, ascending, equal neighbours joined.",
    "R-STATE-4",
    scenes=course_snapshot,
    right="`[first, last, free, state]`, from 0 to the last node without a gap.",
)
def state_runs(record: Record) -> Finding | None:
    def check(line: Line) -> str | None:
        runs = (line.body.get("state") or {}).get("nodes") or []
        due = 0
        for first, last, *_ in runs:
            if first != due or last < first:
                return f"a run begins with {first}, not {due}"
            due = last + 1
        for one, other in pairwise(runs):
            if one[2:] == other[2:]:
                return f"{one} and {other} could be joined"
        return None if not runs or due == 4 else f"the runs end with node {due - 1}"

    return each(record.of_program(REQUEST), check) or found(record)


@claim(
    "STATE-FREE",
    "Nothing is shown as free on a node that is out of service or held by an exclusive chunk.",
    "R-STATE-5",
    scenes=course_snapshot,
    right="0 of each resource there.",
    profile="nodes",
)
def state_free(record: Record) -> Finding | None:
    def free(body: dict[str, Any]) -> Any:
        return [
            [node, amounts.get("core", 0), service]
            for first, last, amounts, service in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
        ]

    return first_difference(record, free, "the nodes are", REQUEST)


@claim(
    "STATE-RESOURCES",
    "The runs of `nodes` name every resource of the platform.",
    "R-STATE-8",
    scenes=course_shared,
    right="With 0 where none is free, or the nodes have none.",
    profile="alloc",
)
def state_resources(record: Record) -> Finding | None:
    def named(body: dict[str, Any]) -> Any:
        return [sorted(run[2]) for run in (body.get("state") or {}).get("nodes") or ()][:1]

    return first_difference(record, named, "the first run names", REQUEST)


@claim(
    "STATE-SHARED",
    "What is free of each resource on each node is what chunks have left.",
    "R-STATE-2",
    "R-START-5",
    scenes=course_shared,
    right="Capacity less chunks times `per_chunk` of all that run there.",
    profile="alloc",
)
def state_shared(record: Record) -> Finding | None:
    def free(body: dict[str, Any]) -> Any:
        return [
            [node, {kind: amount for kind, amount in amounts.items() if amount}]
            for first, last, amounts, _ in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
        ]

    return first_difference(record, free, "the nodes are", REQUEST)


@claim(
    "STATE-VERSION",
    "`state_version` grows with each event and each applied decision.",
    "R-STATE-6",
    right="A request behind an event or an applied decision has a greater one.",
)
def state_version(record: Record) -> Finding | None:
    before: Any = None
    for line in record.of_program(REQUEST):
        body = line.body
        moved = body.get("events") or any(
            one.get("status") == "applied" for one in body.get("outcomes") or ()
        )
        if before is not None and moved and not body.get("state_version", 0) > before:
            return failed(
                f"state_version is {body.get('state_version')} after {before}", line.number
            )
        before = body.get("state_version", 0)
    return found(record)


@claim(
    "STATE-DIGEST",
    "`state_digest` is the digest of the state after all events.",
    "R-DIG-1",
    scenes=course_full,
    right="SHA-256 over the lines that decisions.md shows.",
    profile="delta",
)
def state_digest(record: Record) -> Finding | None:
    told = [entry for entry in record.facts.get("digests") or () if entry[1] is not None]
    for number, given, due in told:
        if given != due:
            return failed(f"the digest is {given[:16]}..., not {due[:16]}...", number)
    return found(record) or (None if told else not_applicable("the server sends no digests"))


CASES = cases_in(globals())
