"""Scenarios by the dozen for one standing server, and the way to the instant a test is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_server.api import load_scenario
from tests.support import write_swf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parley_conformance import ScriptedDispatcher

SECOND = 1_000_000

PLAIN = [(0, 100, 2, 200), (0, 100, 2, 200), (10, 100, 4, 200)]
"""On four nodes two jobs fill the machine, and a third one comes ten seconds later."""


def offered(
    folder: Path,
    name: str,
    jobs: Sequence[Any] = PLAIN,
    *,
    platform: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
    changes: Sequence[tuple[int, str, str]] = (),
    **run: Any,
) -> Any:
    """Return a scenario.

    Args:
        folder: Where its trace is written.
        name: What a hello calls it.
        jobs: As `write_swf` takes them.
        platform: Four nodes of one core unless it says otherwise.
        workload: Further settings of the workload.
        session: Settings of the session.
        changes: Second, nodes and state of each change of nodes.
        run: Settings of the run.
    """
    trace = write_swf(folder / f"{name}.swf", jobs)
    settings: dict[str, Any] = {
        "platform": platform or {"nodes": 4},
        "workload": {"swf": str(trace), **(workload or {})},
        "run": {"name": name, **run},
    }
    if session:
        settings["session"] = dict(session)
    scenario = load_scenario(None, settings)
    if changes:
        tables = scenario.model_dump(mode="json", exclude_none=True)
        tables["node_changes"] = [
            {"at": at, "nodes": nodes, "state": state} for at, nodes, state in changes
        ]
        scenario = type(scenario).model_validate(tables, strict=False)
    return scenario


def at_first_jobs(peer: ScriptedDispatcher, scenario: str, **hello: Any) -> dict[str, Any]:
    """Return the request that tells of the first jobs, at time 0, in a session of its own."""
    return peer.reply(peer.open(scenario=scenario, **hello))


def outcomes_of(request: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return of each outcome its id, and its code or `applied`."""
    return [
        (outcome["id"], outcome.get("code") or outcome["status"])
        for outcome in request["body"]["outcomes"]
    ]


def codes_of(request: Mapping[str, Any]) -> list[str]:
    """Return of each outcome its code, or `applied`."""
    return [code for _, code in outcomes_of(request)]


def events_of(request: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return second and kind of each event."""
    return [(event["at_us"] // SECOND, event["kind"]) for event in request["body"]["events"]]


def ends_of(request: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return number and status of each job that ended."""
    return [
        (event["job"], event["status"])
        for event in request["body"]["events"]
        if event["kind"] == "job.ended"
    ]


def second_of(request: Mapping[str, Any]) -> int:
    """Return the instant of a request."""
    return request["body"]["now_us"] // SECOND


def state_of(peer: ScriptedDispatcher) -> dict[str, Any]:
    """Ask for the state while a request waits for its reply."""
    snapshot = peer.say("state.request", {})
    assert snapshot["type"] == "state.snapshot"
    return snapshot["body"]["state"]
