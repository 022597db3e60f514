"""Tells legal decisions from others, from what the server has said alone.

Nodes one by one, amounts in dictionaries: slow, plain, and none of the server's own code.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Allocation = list[list[tuple[int, int, int]]]


class Illegal(Exception):
    """A decision that a server must refuse; the text is the code it is due."""


class Oracle:
    """The state of a simulation as a dialogue tells it.

    Args:
        welcome: The body of the welcome.
    """

    def __init__(self, welcome: Mapping[str, Any]) -> None:
        self.capacity: list[dict[str, int]] = []
        for group in welcome["platform"]["groups"]:
            count = group["last"] - group["first"] + 1
            self.capacity += [dict(group["capacity"]) for _ in range(count)]
        self.now = 0
        self.known: dict[int, Mapping[str, Any]] = {}
        self.pending: set[int] = set()
        self.held: set[int] = set()
        self.running: dict[int, Allocation] = {}
        self.ending: set[int] = set()
        self.down: set[int] = set()
        self.timers: dict[int, int] = {}
        self.may_submit = bool(welcome["granted"]["submit"])
        self.stopped = False

    # ------------------------------------------------------------------ what the server says

    def see(self, request: Mapping[str, Any], decided: Sequence[Mapping[str, Any]]) -> None:
        """Take in a request's body.

        Args:
            request: What the server said.
            decided: The decisions of the reply before it, whose outcomes it tells.
        """
        self.now = request["now_us"]
        by_id = {decision["id"]: decision for decision in decided}
        for outcome in request["outcomes"]:
            if outcome["status"] == "applied" and outcome["id"] in by_id:
                self._take_effect(by_id[outcome["id"]], outcome.get("allocation"))
        if request.get("state"):
            self._load(request["state"])
        for event in request["events"]:
            self._happen(event, told=bool(request.get("state")))
        self.ending.clear()

    def _load(self, state: Mapping[str, Any]) -> None:
        running = [entry["job"] for entry in state["running"]]
        self.known.update({job["job"]: job for job in [*state["pending"], *running]})
        self.pending = {job["job"] for job in state["pending"]}
        self.held = set(state["held"])
        self.running = {entry["job"]["job"]: entry["allocation"] for entry in state["running"]}
        self.timers = {timer["timer"]: timer["at_us"] for timer in state["timers"]}
        self.down = {
            node
            for first, last, _, service in state["nodes"]
            if service == "down"
            for node in range(first, last + 1)
        }

    def _happen(self, event: Mapping[str, Any], *, told: bool) -> None:
        match event["kind"]:
            case "job.submitted":
                self.known[event["job"]["job"]] = event["job"]
                if not told:
                    self.pending.add(event["job"]["job"])
            case "job.ended" if not told:
                self.running.pop(event["job"], None)
                if event["status"] == "requeued":
                    self.pending.add(event["job"])
            case "job.started" if not told:
                self.pending.discard(event["job"])
                self.running[event["job"]] = event["allocation"]
            case "node.down" if not told:
                self.down |= set(_numbers(event["nodes"]))
            case "node.up" if not told:
                self.down -= set(_numbers(event["nodes"]))
            case "timer.fired" if not told:
                self.timers.pop(event["timer"], None)

    # ------------------------------------------------------------------ what a dispatcher decides

    def judge(self, decisions: Iterable[Mapping[str, Any]]) -> list[str | None]:
        """Return for each decision the code it must be refused with, or None if it is legal.

        They take effect in their order, on a copy: nothing changes here.
        """
        twin = copy.deepcopy(self)
        return [twin.carry_out(decision) for decision in decisions]

    def after(self, decisions: Iterable[Mapping[str, Any]]) -> Oracle:
        """Return the state as it would be after decisions, those that are legal."""
        twin = copy.deepcopy(self)
        for decision in decisions:
            twin.carry_out(decision)
        return twin

    def carry_out(self, decision: Mapping[str, Any]) -> str | None:
        """Let a decision take effect if it is legal; return the code it is due if it is not."""
        try:
            _require(not self.stopped, "run.stopped")
            self._require_legal(decision)
            self._take_effect(decision, None)
        except Illegal as error:
            return str(error)
        return None

    def _require_legal(self, decision: Mapping[str, Any]) -> None:
        match decision["kind"]:
            case "start":
                self._require_startable(decision)
            case "reject" | "annotate":
                self._require_pending(decision["job"])
            case "hold":
                self._require_pending(decision["job"])
                _require(decision["job"] not in self.held, "job.held")
            case "release":
                self._require_pending(decision["job"])
                _require(decision["job"] in self.held, "job.not_held")
            case "kill" | "requeue":
                _require(decision["job"] in self.known, "job.unknown")
                runs = decision["job"] in self.running and decision["job"] not in self.ending
                _require(runs, "job.not_running")
            case "wake":
                _require(decision["at_us"] > self.now, "timer.past")
                _require(decision["timer"] not in self.timers, "timer.set")
            case "wake.cancel":
                _require(decision["timer"] in self.timers, "timer.unknown")
            case "submit":
                _require(self.may_submit, "decision.not_granted")
                at = decision.get("at_us")
                _require(at is None or at >= self.now, "job.past")
            case "stop":
                pass
            case _:
                raise Illegal("decision.unsupported")

    def _require_pending(self, number: int) -> None:
        _require(number in self.known, "job.unknown")
        _require(number in self.pending, "job.not_pending")

    def _require_startable(self, decision: Mapping[str, Any]) -> None:
        number = decision["job"]
        self._require_pending(number)
        _require(number not in self.held, "job.held")
        (group,) = self.known[number]["request"]
        allocation = decision.get("allocation")
        if allocation is None:
            room = sum(self._room(node, group) for node in range(len(self.capacity)))
            _require(room >= group["chunks"], "alloc.no_fit")
            return
        _require(len(allocation) == 1, "alloc.groups")
        self._require_well_formed(allocation[0], group)
        for first, last, chunks in allocation[0]:
            for node in range(first, last + 1):
                _require(node not in self.down, "node.down")
                _require(self._room(node, group) >= chunks, "node.busy")

    def _require_well_formed(
        self, spans: Sequence[tuple[int, int, int]], group: Mapping[str, Any]
    ) -> None:
        before, given = -1, 0
        for first, last, chunks in spans:
            _require(chunks >= 1 and last >= first, "alloc.span")
            _require(first >= 0 and last < len(self.capacity), "node.unknown")
            _require(first > before, "alloc.order")
            _require(chunks == 1 or not group["exclusive"], "alloc.exclusive")
            before, given = last, given + chunks * (last - first + 1)
        _require(given >= group["chunks"], "alloc.too_few")
        _require(given <= group["chunks"], "alloc.too_many")

    def _room(self, node: int, group: Mapping[str, Any]) -> int:
        """Return how many chunks of a group the node takes now."""
        if node in self.down:
            return 0
        free, tenants, exclusive = self._load_of(node)
        if exclusive:
            return 0
        asked = {kind: amount for kind, amount in group["per_chunk"].items() if amount}
        room = min((free.get(kind, 0) // amount for kind, amount in asked.items()), default=1)
        return min(room, int(not tenants)) if group["exclusive"] else room

    def free_on(self, node: int) -> dict[str, int]:
        """Return what is free on a node, of every resource that some node has."""
        free, _, exclusive = self._load_of(node)
        kinds = sorted({kind for capacity in self.capacity for kind in capacity})
        hidden = exclusive or node in self.down
        return {kind: 0 if hidden else free.get(kind, 0) for kind in kinds}

    def could_hold(self, job: Mapping[str, Any]) -> bool:
        """Whether the empty machine holds a job."""
        (group,) = job["request"]
        asked = {kind: amount for kind, amount in group["per_chunk"].items() if amount}
        room = 0
        for capacity in self.capacity:
            fits = min((capacity.get(kind, 0) // need for kind, need in asked.items()), default=1)
            room += min(fits, 1) if group["exclusive"] else fits
        return bool(room >= group["chunks"])

    def _load_of(self, node: int) -> tuple[dict[str, int], int, bool]:
        """Return what is left of a node, how many lie there, whether one wants it alone."""
        free, tenants, exclusive = dict(self.capacity[node]), 0, False
        for number, allocation in self.running.items():
            for other, spans in zip(self.known[number]["request"], allocation, strict=True):
                for first, last, chunks in spans:
                    if first <= node <= last:
                        exclusive = exclusive or other["exclusive"]
                        tenants += 1
                        for kind, amount in other["per_chunk"].items():
                            free[kind] = free.get(kind, 0) - chunks * amount
        return free, tenants, exclusive

    def _take_effect(self, decision: Mapping[str, Any], placed: Allocation | None) -> None:
        job: Any = decision.get("job")
        match decision["kind"]:
            case "start":
                self.pending.discard(job)
                (group,) = self.known[job]["request"]
                given = decision.get("allocation") or placed
                self.running[job] = given or [self._lowest(group)]
            case "reject":
                self.pending.discard(job)
                self.held.discard(job)
            case "hold":
                self.held.add(job)
            case "release":
                self.held.discard(job)
            case "kill" | "requeue":
                self.ending.add(job)
            case "wake":
                self.timers[decision["timer"]] = decision["at_us"]
            case "wake.cancel":
                self.timers.pop(decision["timer"], None)
            case "stop":
                self.stopped = True

    def _lowest(self, group: Mapping[str, Any]) -> list[tuple[int, int, int]]:
        """Return the lowest-numbered nodes that hold a group."""
        spans, missing = [], group["chunks"]
        for node in range(len(self.capacity)):
            chunks = min(missing, self._room(node, group))
            if chunks:
                spans.append((node, node, chunks))
                missing -= chunks
        return spans


def _require(condition: bool, code: str) -> None:  # noqa: FBT001 - as assert takes it
    if not condition:
        raise Illegal(code)


def _numbers(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (node for first, last in ranges for node in range(first, last + 1))
