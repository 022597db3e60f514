"""Generated runs in which much happens at once: kinds of nodes, shared and whole, ties."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

PLATFORM = """name = "mixed"

[[groups]]
name = "thin"
nodes = 12
per_node = { core = 4, memory = 16 }

[[groups]]
name = "fat"
nodes = 5
per_node = { core = 8, memory = 64 }

[[groups]]
name = "gpu"
nodes = 4
per_node = { core = 4, memory = 32, gpu = 2 }
"""

# The last two fit nowhere: the server rejects such jobs, and no dispatcher sees them.
SHAPES: tuple[dict[str, Any], ...] = (
    {"per_chunk": {"core": 1}},
    {"per_chunk": {"core": 1}},
    {"per_chunk": {"memory": 3, "core": 2}},
    {"per_chunk": {"memory": 5}},
    {"per_chunk": {"gpu": 1, "core": 1}},
    {"per_chunk": {"core": 1}, "exclusive": True},
    {"per_chunk": {"core": 6}, "exclusive": True},
    {"per_chunk": {"gpu": 1}, "exclusive": True},
    {"per_chunk": {"gpu": 3}},
    {"per_chunk": {"licence": 1}},
)


def workload(path: Path, seed: int, *, jobs: int = 300, shapes: int | None = None) -> Path:
    """Write a workload of jobs that come in bunches, many of them at one instant.

    Args:
        path: Where to.
        seed: The same gives the same.
        jobs: How many.
        shapes: Of so many kinds of chunks, the first of `SHAPES`; None is all of them.
    """
    draw = random.Random(seed)
    lines, submit = ['{"parley": "workload", "version": 1}'], 0
    for number in range(1, jobs + 1):
        submit += draw.choice((0, 0, 0, 0, 1, 5, 30, 90))
        runtime = draw.choice((0, 1, 10, 10, 60, draw.randrange(1, 600)))
        job = {
            "id": number,
            "submit": submit,
            "runtime": runtime,
            "request": [{"chunks": draw.choice((1, 1, 2, 4, 8, 14)), **_shape(draw, shapes)}],
            "user": f"u{draw.randrange(5)}",
        }
        # Some say nothing, some too little, some nought, some the truth; many say the same.
        walltime = draw.choice((None, 0, 1, runtime, 2 * runtime, 60, 60, 300, runtime // 2))
        if walltime is not None:
            job["walltime"] = walltime
        lines.append(json.dumps(job))
    path.write_text("\n".join([*lines, ""]))
    return path


def _shape(draw: random.Random, shapes: int | None) -> dict[str, Any]:
    return draw.choice(SHAPES[:shapes])


def scenario(folder: Path, seed: int, *, failing: bool = False, **options: Any) -> Path:
    """Write a scenario with its workload and platform; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    workload(folder / "jobs.jsonl", seed, **options)
    (folder / "platform.toml").write_text(PLATFORM)
    text = (
        '[platform]\nfile = "platform.toml"\n\n'
        '[workload]\nfile = "jobs.jsonl"\nestimate_missing = "none"\n'
    )
    if failing:
        text += '\n[run]\non_node_down = "requeue"\n'
        for at, nodes, state in (
            ("2m", "0-2 13", "down"),
            ("9m", "13 18", "down"),
            ("14m", "0-2", "up"),
            ("21m", "13 18", "up"),
        ):
            text += f'\n[[node_changes]]\nat = "{at}"\nnodes = "{nodes}"\nstate = "{state}"\n'
    path = folder / "scenario.toml"
    path.write_text(text)
    return path
