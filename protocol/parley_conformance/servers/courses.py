"""Whole runs, held in step with the kit's own simulation, and the cases that watch them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from parley_conformance.case import Scene, case
from parley_conformance.digest import digest_of
from parley_conformance.judging import canonical
from parley_conformance.machine import Machine
from parley_conformance.servers.hall import Hall
from parley_conformance.servers.probe import found, played
from parley_conformance.servers.settings import (
    FULL,
    PLAIN,
    REQUEUE,
    SHARED,
    SLOW,
    Setting,
)
from parley_conformance.stage import Broken, NotForThis
from parley_conformance.verdicts import Finding, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley_conformance.dialogue import Line, Record

_MOST = 200

HOLD = 0.25


def _run(**hello: Any) -> Callable[[Hall], None]:
    """Return a dialogue in which the server and the kit's simulation get the same decisions."""

    def play(hall: Hall) -> None:
        options = {key: hello[key] for key in ("json_text", "kind") if key in hello}
        asked = {key: item for key, item in hello.items() if key not in options}
        caller = hall.call(**options)
        caller.lenient = True
        welcome = caller.welcomed(**asked)
        _require_scenario(welcome, hall.setting)
        granted = welcome.body.get("granted") or {}
        wanted = asked.get("capabilities", {}).get("state")
        if wanted == "snapshot" and granted.get("state") != "snapshot":
            raise NotForThis("the server does not grant state: snapshot")
        hall.record.facts["early"] = not caller.silent(HOLD)
        machine = Machine(
            replace(hall.setting.plan, submit=False),
            wants=asked.get("wants"),
            ask=asked.get("ask") or "always",
            snapshot=wanted == "snapshot",
        )
        _in_step(hall, caller, machine)

    return played(play)


def _in_step(hall: Hall, caller: Any, machine: Machine) -> None:
    pairs: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
    hall.record.facts.update(pairs=pairs, unasked=0, digests=[])
    line, expected = caller.ready(), machine.first()
    for count in range(_MOST):
        pairs.append((line.number, line.body, {**expected, "type": _kind(machine)}))
        if line.kind != "decision.request":
            if not caller.silent(0.1):
                hall.record.facts["unasked"] = len(hall.record.lines)
            return
        state = machine.state()
        hall.record.facts["digests"].append(
            (line.number, line.body.get("state_digest"), digest_of(machine.now, state))
        )
        if machine.reason:
            raise Broken("the server asks on where the run is over")
        decisions = _decisions(machine, state)
        if count == 2 and not caller.silent(HOLD):
            hall.record.facts["unasked"] = len(hall.record.lines)
        line = caller.reply(line, *decisions)
        expected = machine.answer([{"id": at, **one} for at, one in enumerate(decisions)])
    raise Broken(f"the run has not ended after {_MOST} requests")


def _known(event: Any) -> Any:
    """Return an event without what is not known of it, or not the kit's business."""
    if not isinstance(event, dict):
        return event
    fields = ("kind", "at_us", "job", "status", "nodes", "timer", "allocation")
    known = {key: event[key] for key in fields if key in event}
    if isinstance(known.get("job"), dict):
        parts = ("job", "name", "submit_us", "walltime_us", "request")
        known["job"] = {key: known["job"][key] for key in parts if key in known["job"]}
    return known


def events_of(body: dict[str, Any]) -> list[Any]:
    return [_known(event) for event in canonical(body.get("events") or [])]


def _kind(machine: Machine) -> str:
    return "session.end" if machine.reason else "decision.request"


def _decisions(machine: Machine, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Start what fits, in the order of the queue; every other job where the kit puts it."""
    decisions: list[dict[str, Any]] = []
    for job in state["pending"]:
        start: dict[str, Any] = {"kind": "start", "job": job["job"]}
        spans = machine.places_for(job["job"], decisions)
        if spans is None:
            break
        if job["job"] % 2:
            start["allocation"] = [spans]
        decisions.append(start)
    return decisions


def _require_scenario(welcome: Line, setting: Setting) -> None:
    given = (welcome.body.get("platform") or {}).get("node_count")
    due = setting.plan.platform["node_count"]
    if given != due:
        raise NotForThis(f"the server plays {setting.name!r} on {given} nodes, not on {due}")


def _course(name: str, about: str, setting: Setting, **hello: Any) -> Scene[Hall]:
    return Scene(name, _run(**hello), about, setting.name, weight=1.5)


SNAPSHOT = {"state": "snapshot"}

course = _course("course", "a whole run, each event told", PLAIN)
course_snapshot = _course(
    "course-snapshot", "a run with the state in each request", FULL, capabilities=SNAPSHOT
)
course_full = _course("course-full", "a run in which nodes fail and jobs overrun", FULL)
course_requeue = _course(
    "course-requeue",
    "a run in which jobs on failed nodes are requeued",
    REQUEUE,
    capabilities=SNAPSHOT,
)
course_slow = _course("course-slow", "a run in which decisions take time", SLOW)
course_lazy = _course(
    "course-actionable",
    "a run with requests only where something could start",
    PLAIN,
    ask="actionable",
)
course_wants = _course(
    "course-wants",
    "a run of which only ends and submissions are told",
    FULL,
    wants=["job.ended", "job.submitted"],
)
course_shared = _course(
    "course-shared", "a run on nodes that jobs share", SHARED, capabilities=SNAPSHOT
)
course_json = _course("course-json", "a whole run in JSON text", PLAIN, json_text=True)
course_req = _course("course-req", "a whole run over a REQ socket", PLAIN, kind="REQ")

claim = partial(case, side="server", scenes=course)


def pairs(record: Record, *kinds: str) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    for number, given, expected in record.facts.get("pairs") or ():
        if not kinds or expected["type"] in kinds:
            yield number, given, expected


def first_difference(
    record: Record, look: Callable[[dict[str, Any]], Any], what: str, *kinds: str
) -> Finding | None:
    """Find the first message in which a part is not what the kit's simulation has."""
    for number, given, expected in pairs(record, *kinds):
        one, other = canonical(look(given)), canonical(look(expected))
        if one != other:
            return failed(f"{what} {brief(one)}, not {brief(other)}", number)
    return found(record)


def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:197] + "..."


REQUEST = "decision.request"
