"""`summary.json`: what was run, how it ended, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from parley_server.errors import OutputError
from parley_server.quantities import format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parley_server.engine import JobCounts

_CLOSED = with_config(extra="forbid")
"""A key that is not described here is a fault of ours."""


@_CLOSED
class ScenarioSummary(TypedDict):
    """What was simulated: two runs with one digest had the same inputs, machine and rules."""

    name: str
    digest: str


@_CLOSED
class EndSummary(TypedDict):
    """How the run ended; the message is there if it broke off."""

    reason: str
    complete: bool
    simulated_time: float
    message: NotRequired[str]


@_CLOSED
class InputSummary(TypedDict):
    """A file that was read; standard input has no digest."""

    role: str
    path: str
    sha256: str


@_CLOSED
class PlatformSummary(TypedDict):
    """The machine: of each resource, what all nodes together have."""

    node_count: int
    capacity: dict[str, int]
    note: NotRequired[str]


@_CLOSED
class StatisticsSummary(TypedDict):
    """One metric over the jobs that ran to an end; null where there is none."""

    count: int
    mean: float | None
    median: float | None
    p95: float | None
    max: float | None
    undefined: NotRequired[int]


@_CLOSED
class JobsSummary(TypedDict):
    """Jobs by what became of them; `never_fit` are those among the rejected that never could run.

    It is empty if the run broke off before anything was simulated.
    """

    submitted: NotRequired[int]
    completed: NotRequired[int]
    timed_out: NotRequired[int]
    killed: NotRequired[int]
    failed: NotRequired[int]
    rejected: NotRequired[int]
    never_fit: NotRequired[int]
    running: NotRequired[int]
    pending: NotRequired[int]


@_CLOSED
class MeasuredSummary(TypedDict):
    """What depends on the machine: seconds of wall and CPU time, and bytes of resident memory."""

    wall_seconds: float
    cpu_seconds: float
    jobs_per_second: float | None
    requests: int
    dispatcher_seconds: float
    server_seconds: float
    wire_seconds: float
    memory_bytes: int


@_CLOSED
class Summary(TypedDict):
    """The content of `summary.json`.

    Times are seconds. `measured` holds everything that depends on the machine, and nothing else
    does.
    """

    parley: dict[str, str]
    scenario: ScenarioSummary
    end: EndSummary
    inputs: list[InputSummary]
    platform: PlatformSummary
    dispatcher: dict[str, Any]
    rules: dict[str, Any]
    lines: dict[str, Any]
    dropped: dict[str, int]
    jobs: JobsSummary
    wait: NotRequired[StatisticsSummary]
    turnaround: NotRequired[StatisticsSummary]
    slowdown: NotRequired[StatisticsSummary]
    bounded_slowdown: NotRequired[StatisticsSummary]
    makespan: float | None
    utilisation: float | None
    utilisation_by_resource: dict[str, float]
    measured: MeasuredSummary


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What a run was of, for its summary.

    Attributes:
        scenario_toml: Every setting, resolved.
        inputs: Files read, each with `path`, `sha256` and `role`.
        capacity: Total of each resource of the machine.
        node_count: Nodes of the machine.
        note: What is to be known of the machine, such as that it is a guess.
    """

    name: str
    digest: str
    workload_name: str
    scenario_toml: str
    inputs: Sequence[Mapping[str, str]]
    rules: Mapping[str, Any]
    dispatcher: Mapping[str, Any]
    capacity: Mapping[str, int]
    node_count: int
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None


def seconds(microseconds: int | None) -> float | int | None:
    """Return a time as JSON has it: seconds, whole where they are."""
    if microseconds is None:
        return None
    text = format_seconds(microseconds)
    return float(text) if "." in text else int(text)


def counts_table(counts: JobCounts) -> dict[str, int]:
    """Return jobs by what became of them."""
    return {
        "submitted": counts.submitted,
        "completed": counts.completed,
        "timed_out": counts.timed_out,
        "killed": counts.killed,
        "failed": counts.failed,
        "rejected": counts.rejected,
        "never_fit": counts.never_fit,
        "running": counts.running,
        "pending": counts.pending,
    }


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary in the place of any earlier one, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    temporary = path.with_suffix(".json.part")
    try:
        temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
