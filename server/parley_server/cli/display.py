"""What a command shows: progress on a terminal, a result, and messages for a first dispatcher."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from parley_server.errors import one_line
from parley_server.quantities import format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.engine import Simulation


_SHOWN = {"mean": "mean", "median": "median", "p95": "95 %", "max": "maximum"}
_METRICS = {
    "wait": "wait, s",
    "turnaround": "turnaround, s",
    "slowdown": "slowdown",
    "bounded_slowdown": "bounded slowdown",
}


class Progress:
    """One line that is written over: jobs done, simulated time, jobs a second."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console  # noqa: PLC0415 - only on a terminal
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self._text = Text
        self._began = time.monotonic()
        self._live = Live(
            Text(""), console=Console(file=stream), auto_refresh=False, transient=True
        )
        self._live.start()

    def show(self, simulation: Simulation) -> None:
        """Show how far the simulation is."""
        counts = simulation.counts
        passed = time.monotonic() - self._began
        cluster = simulation.cluster
        kind = cluster.kinds.index("core") if "core" in cluster.kinds else 0
        serving = cluster.in_service[kind]
        used = 1 - cluster.free[kind] / serving if serving else 0.0
        speed = counts.ended / passed if passed else 0.0
        self._live.update(
            self._text(
                f"{counts.ended:,} jobs done, {counts.running:,} running, "
                f"{counts.pending:,} pending; {used:.0%} of {cluster.kinds[kind]} used; "
                f"day {simulation.now / 86_400e6:,.1f}; "
                f"{speed:,.0f} jobs/s"
            ),
            refresh=True,
        )

    def close(self) -> None:
        """Take the line away."""
        self._live.stop()


def progress_on(stream: IO[str], *, quiet: bool) -> Progress | None:
    """Return a progress line if somebody sees it."""
    return None if quiet or not stream.isatty() else Progress(stream)


def show_result(summary: Mapping[str, Any], directory: Path) -> None:
    """Print what came of a run."""
    jobs = summary["jobs"]
    states = ("completed", "timed_out", "killed", "failed", "rejected", "running", "pending")
    parts = [f"{jobs[state]:,} {state.replace('_', ' ')}" for state in states if jobs.get(state)]
    print(f"{jobs.get('submitted', 0):,} jobs: {', '.join(parts) or 'none'}")
    if (summary.get("wait") or {}).get("count"):
        print(f"{'':<17}" + "".join(f"{label:>16}" for label in _SHOWN.values()))
    for name, label in _METRICS.items():
        values = summary.get(name) or {}
        if values.get("count"):
            print(f"{label:<17}" + "".join(f"{values[key]:>16,.4f}" for key in _SHOWN))
    if summary["makespan"] is not None:
        print(f"{'makespan, s':<17}{summary['makespan']:>16,}")
    if summary["utilisation"] is not None:
        print(f"{'utilisation':<17}{summary['utilisation']:>16.6f}")
    print(f"results in {shortest(directory)}")


def shortest(directory: Path) -> Path:
    """Return a path from here, if it lies below here."""
    with contextlib.suppress(ValueError, OSError):
        return directory.resolve().relative_to(Path.cwd())
    return directory


def warn_of_losses(summary: Mapping[str, Any]) -> None:
    """Tell on standard error which lines and jobs were left out, one line each."""
    dropped, lines = summary["dropped"], summary["lines"]
    malformed = dropped.get("malformed", 0)
    source = next((entry["path"] for entry in summary["inputs"]), "")
    if malformed:
        _warn(f"{source}: {malformed:,} malformed skipped; {lines.get('first_malformed', '')}")
    others = [
        f"{count:,} {rule}" for rule, count in dropped.items() if count and rule != "malformed"
    ]
    if others:
        _warn(f"{source}: lines dropped by rule: {', '.join(others)}")
    if summary["end"]["reason"] == "stopped":
        left = summary["jobs"]["running"] + summary["jobs"]["pending"]
        at = summary["end"]["simulated_time"]
        _warn(f"the dispatcher stopped the run at {at} s; {left:,} jobs were running or pending")
    for first in (lines.get("first_of") or {}).values():
        _warn(f"{source}: {first}")
    note = summary["platform"].get("note")
    if note is not None:
        _warn(f"the machine: {note}")
    never = summary["jobs"].get("never_fit", 0)
    if never:
        _warn(f"{never:,} jobs rejected: they ask for more than the empty machine has")


def trace_line(direction: str, kind: str, body: Any) -> None:
    """Print one readable line for a message, for authors of a first dispatcher."""
    arrow = "server ->" if direction == ">" else "server <-"
    # Whoever reads along may leave; the run goes on.
    with contextlib.suppress(BrokenPipeError):
        line = one_line(f"{arrow} {kind:<16} {_digest(kind, body)}".rstrip())
        print(line, file=sys.stderr)


def _digest(kind: str, body: Any) -> str:
    match kind:
        case "hello":
            client = body["client"]
            again = f", resumes {body['resume']['session']}" if body.get("resume") else ""
            return f"{client['name']} {client['version']}, ask {body.get('ask', 'always')}{again}"
        case "welcome":
            scenario, platform = body["scenario"], body["platform"]
            again = ", resumed" if body["resumed"] else ""
            return f"{scenario['name']}, {platform['node_count']} nodes, seed {body['seed']}{again}"
        case "decision.request":
            return _request_digest(body)
        case "decision.reply":
            decisions = body["decisions"]
            return "; ".join(map(_decision_digest, decisions)) or "nothing"
        case "state.snapshot":
            return _state_digest(body["state"])
        case "progress":
            return body.get("note") or ""
        case "progress.ack":
            return f"{body['deadline_ms'] / 1000:g} s from now"
        case "session.end":
            return f"{body['reason']} at {_at(body['now_us'])}"
        case "error":
            fatal = "fatal, " if body["fatal"] else ""
            return f"{fatal}{body['code']}: {body['message']} {body.get('path') or ''}"
        case _:
            return ""


def _request_digest(body: Any) -> str:
    parts = [f"at {_at(body['now_us'])}"]
    for event in body["events"]:
        subject = event.get("job", event.get("timer", _ranges(event.get("nodes"))))
        if isinstance(subject, dict):
            chunks = sum(group["chunks"] for group in subject["request"])
            parts.append(f"{event['kind']} {subject['job']} ({chunks} chunks)")
        else:
            status = f" ({event['status']})" if "status" in event else ""
            parts.append(f"{event['kind']} {'' if subject is None else subject}".rstrip() + status)
    parts.extend(
        f"refused {outcome['id']}: {outcome['code']} ({outcome['message']})"
        for outcome in body["outcomes"]
        if outcome["status"] == "rejected"
    )
    state = body.get("state")
    if state is not None:
        parts.append(f"state: {_state_digest(state)}")
    return "; ".join(parts)


def _state_digest(state: Any) -> str:
    return f"{len(state['pending'])} pending, {len(state['running'])} running"


def _decision_digest(decision: Any) -> str:
    subject = decision.get("job", decision.get("timer", ""))
    if isinstance(subject, dict):
        subject = subject.get("name") or "a job"
    allocation = decision.get("allocation")
    where = ""
    if allocation:
        spans = " ".join(
            f"{first}-{last}" if first != last else str(first)
            for group in allocation
            for first, last, _ in group
        )
        where = f" on {spans}"
    at = f" at {_at(decision['at_us'])}" if decision.get("at_us") is not None else ""
    reason = f" ({decision['reason']})" if decision.get("reason") else ""
    return f"{decision['kind']} {subject}{where}{at}{reason}"


def _ranges(nodes: Any) -> str | None:
    if nodes is None:
        return None
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in nodes)


def _at(microseconds: int) -> str:
    return f"{format_seconds(microseconds)} s"


def _warn(message: str) -> None:
    print(f"parley: {one_line(message)}", file=sys.stderr)
