"""What many tests need: small workloads, child processes, and where the archive's data lies."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parley_server.engine import ChunkGroup, Job, ListSource, NodeGroup, Shape, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROJECT = Path(__file__).parent.parent
SECOND = 1_000_000

PARLEY = [sys.executable, "-m", "parley_server.cli.main"]
"""The command as a child process has it, whatever is on the PATH."""

WHOLE_NODE = Shape.of({"core": 1}, exclusive=True)


def shared(*parts: str) -> Path:
    """Return a file of the archive's traces or golden schedules, or skip, saying so."""
    root = Path(os.environ.get("PARLEY_SHARED", PROJECT.parent / "shared"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here; PARLEY_SHARED says where the archive's data lies")
    return path


def swf_line(
    number: int,
    submit: float,
    runtime: float,
    processors: int,
    requested_time: float = -1,
    *,
    status: int = 1,
    allocated: int = -1,
    user: int = 7,
) -> str:
    """Return one line of a trace; its after-the-fact fields are unmistakable."""
    fields = [
        *(number, submit, 777777, runtime, allocated, 888888, 999999),
        *(processors, requested_time, -1, status, user, 3, 4, 5, 6, -1, -1),
    ]
    return " ".join(map(str, fields))


def write_swf(path: Path, jobs: Iterable[Sequence[Any]]) -> Path:
    """Write a trace of (submit, runtime, processors[, requested time]), numbered from 1."""
    lines = [swf_line(number, *job) for number, job in enumerate(jobs, 1)]
    path.write_text("\n".join(["; UnixStartTime: 0", *lines, ""]))
    return path


def unmeasured() -> dict[str, str]:
    """Return an environment for children that can write next to nothing: no byte code, no traces.

    Coverage's data file would be the first that does not fit.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


def parley(
    *arguments: object, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command in a child process and return what it said."""
    return subprocess.run(
        [*PARLEY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file of results."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary_of(directory: Path) -> dict[str, Any]:
    """Return the summary of a run."""
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text())
    return summary


def jobs_of(
    descriptions: Iterable[Sequence[Any]], *, shape: Shape = WHOLE_NODE, seconds: bool = True
) -> list[Job]:
    """Return jobs from (submit, chunks, runtime[, walltime]), numbered from 0."""
    unit = SECOND if seconds else 1
    jobs = []
    for number, (submit, chunks, runtime, *rest) in enumerate(descriptions):
        walltime = rest[0] if rest else runtime
        jobs.append(
            Job(
                number,
                f"j{number}",
                submit * unit,
                runtime * unit,
                None if walltime is None else walltime * unit,
                (ChunkGroup(chunks, shape),),
            )
        )
    return jobs


def simulation_of(
    jobs: Sequence[Job], nodes: int = 10, per_node: Mapping[str, int] | None = None, **options: Any
) -> Simulation:
    """Return a simulation of jobs on equal nodes."""
    group = NodeGroup("nodes", nodes, per_node or {"core": 1})
    return Simulation([group], ListSource(jobs), **options)
