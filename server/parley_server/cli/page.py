"""A run's status as a page of a terminal, or as one line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parley_server.errors import one_line
from parley_server.results.status import still_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from parley_server.results.status import ResourceStatus, Status

_SILENT = 5.0
"""Seconds after which it is said that a run has not been heard of."""

_BAR = 30
_DAY = 86_400


def page(statuses: Sequence[Status]) -> RenderableType:
    """Return one run in full, or several in a row each."""
    if not statuses:
        return Text("nothing is running")
    if len(statuses) == 1:
        return _in_full(statuses[0])
    return _in_rows(statuses)


def line(status: Status) -> str:
    """Return a status in one line."""
    jobs = status["jobs"]
    used = ", ".join(
        f"{kind} {_share(resource):.1%}" for kind, resource in status["resources"].items()
    )
    return one_line(
        f"{status['name']}: {_simulated(status)}; {jobs['ended']:,} jobs done, "
        f"{jobs['running']:,} running, {jobs['pending']:,} pending; {used}; "
        f"{status['lately']['jobs_per_second']:,.0f} jobs/s{_silence(status)}"
    )


def dispatcher_name(status: Status) -> str:
    """Return who decides."""
    dispatcher = status["dispatcher"]
    command = dispatcher.get("command")
    if command:
        return " ".join(command)
    parameters = dispatcher.get("parameters") or {}
    shown = "".join(f" {name}={value}" for name, value in parameters.items())
    return f"{dispatcher.get('policy')}{shown} + {dispatcher.get('allocator')}"


def _in_full(status: Status) -> RenderableType:
    jobs, lately, requests = status["jobs"], status["lately"], status["requests"]
    process = status["process"]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()

    def row(label: str, shown: RenderableType | str) -> None:
        grid.add_row(label, Text(one_line(shown)) if isinstance(shown, str) else shown)

    end = f"ended: {status['end']}" if "end" in status else f"running{_silence(status)}"
    row(one_line(status["name"]), f"{dispatcher_name(status)}; {end}")
    speed = lately["simulated_per_second"]
    row("simulated time", f"{_simulated(status)}; {speed:,.0f} times as fast as time")
    others = [
        f"{jobs[state]:,} {state.replace('_', ' ')}"
        for state in ("timed_out", "killed", "failed", "rejected")
        if jobs.get(state)
    ]
    told = f" ({', '.join(others)})" if others else ""
    row("finished", f"{jobs['ended']:,} jobs{told}; {lately['jobs_per_second']:,.0f} a second")
    row("running", f"{jobs['running']:,} jobs")
    more = "; no more will come" if status["workload_exhausted"] else ""
    row("queued", f"{jobs['pending']:,} jobs{more}")
    for kind, resource in status["resources"].items():
        row(one_line(kind), _bar(resource))
    latency = requests["latency_us"]
    took = "not asked lately" if latency is None else f"{_duration(latency)} each lately"
    row("decisions", f"asked {requests['count']:,} times; {took}")
    row(
        "process",
        f"{process['wall_seconds']:,.0f} s, CPU {process['cpu_seconds']:,.1f} s, "
        f"{process['memory_bytes'] / 1e6:,.0f} MB",
    )
    row("refused", f"{status['refused']:,} replies held a decision that was refused")
    for refusal in status["refusals"]:
        row(
            "",
            f"at {refusal['instant']:,g} s, decision {refusal['decision']}: "
            f"{refusal['message']} [{refusal['code']}]",
        )
    return grid


def _in_rows(statuses: Sequence[Status]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    for heading in ("simulated", "done", "jobs/s", "running", "queued", "used", "decision"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for status in statuses:
        jobs, latency = status["jobs"], status["requests"]["latency_us"]
        used = max(map(_share, status["resources"].values()), default=0.0)
        end = status.get("end", _silence(status).removeprefix("; "))
        table.add_row(
            *(
                Text(one_line(shown))
                for shown in (
                    status["directory"].rpartition("/")[2],
                    f"{status['simulated_time'] / _DAY:,.1f} d",
                    f"{jobs['ended']:,}",
                    f"{status['lately']['jobs_per_second']:,.0f}",
                    f"{jobs['running']:,}",
                    f"{jobs['pending']:,}",
                    f"{used:.1%}",
                    "" if latency is None else _duration(latency),
                    end,
                )
            )
        )
    return Group(table)


def _bar(resource: ResourceStatus) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    out = resource["capacity"] - resource["in_service"]
    service = f", {out:,} out of service" if out else ""
    held, capacity = resource["held"], resource["capacity"]
    grid.add_row(
        ProgressBar(total=max(resource["in_service"], 1), completed=held, width=_BAR),
        Text(f"{_share(resource):.1%}: {held:,} of {capacity:,}{service}"),
    )
    return grid


def _share(resource: ResourceStatus) -> float:
    return resource["held"] / resource["in_service"] if resource["in_service"] else 0.0


def _simulated(status: Status) -> str:
    passed = status["simulated_time"]
    return f"day {passed / _DAY:,.2f} ({passed:,.0f} s)"


def _silence(status: Status) -> str:
    """Return what is to be said if a run has not been heard of for some time."""
    silent = time.time() - status["written"]
    if silent < _SILENT:
        return ""
    if not still_there(status):
        return "; its process is gone: it was broken off"
    return f"; no news for {silent:,.0f} s (a decision that takes long?)"


def _duration(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:,.0f} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1e3:,.1f} ms"
    return f"{microseconds / 1e6:,.1f} s"
