"""Writes the directory of a run that never was, of any size: for what reads runs.

    python tests/benchmarks/synthetic.py DIRECTORY [JOBS]

Jobs take the lowest-numbered nodes that are free, in the order in which they come, so that rows,
queue and allocations are those of a real schedule (first come, first served).
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from pathlib import Path

from parley_server.results.columns import DECISION_COLUMNS, JOB_COLUMNS, TIMING_COLUMNS


def write_run(directory, *, jobs, nodes, seed=0):
    """Write a run of *jobs* on *nodes*; the machine is about nine tenths full."""
    draw = random.Random(seed)
    directory.mkdir(parents=True)
    running, free = [], [(0, nodes - 1)]
    rows, instants = [], []
    submit, last = 0.0, 0.0
    for number in range(1, jobs + 1):
        size = min(nodes, 2 ** draw.randint(0, 6))
        runtime = int(draw.lognormvariate(6.5, 1.6)) + 1
        submit += draw.expovariate(1.0) * size * 1800 / (nodes * 0.9)
        start = max(last, int(submit))
        while running and (running[0][0] <= start or _room(free) < size):
            end, spans = heapq.heappop(running)
            start = max(start, end)
            free = _merged(free + spans)
        spans, free = _taken(free, size)
        last, end = start, start + runtime
        heapq.heappush(running, (end, spans))
        rows.append((end, number, int(submit), size, runtime, start, spans))
        instants += [int(submit), end]
    rows.sort()
    _write(directory, rows, sorted(set(instants)))
    _describe(directory, rows, nodes)


def _room(free):
    return sum(last - first + 1 for first, last in free)


def _taken(free, size):
    spans, rest = [], []
    for first, last in free:
        if not size:
            rest.append((first, last))
            continue
        used = min(size, last - first + 1)
        spans.append((first, first + used - 1))
        size -= used
        if first + used <= last:
            rest.append((first + used, last))
    return spans, rest


def _merged(spans):
    found = []
    for first, last in sorted(spans):
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _write(directory, rows, instants):
    with (directory / "jobs.csv").open("w") as file:
        print(*JOB_COLUMNS, sep=",", file=file)
        for end, number, submit, size, runtime, start, spans in rows:
            nodes = " ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in spans)
            chunks = " ".join(
                f"{low}-{high}*1" if low < high else f"{low}*1" for low, high in spans
            )
            wait, stretch = start - submit, round((end - submit) / runtime, 6)
            file.write(
                f"{number},synthetic,delay,{submit},{size},{runtime * 2},1,"
                f"COMPLETED_SUCCESSFULLY,{start},{runtime},{end},{wait},{end - submit},{stretch},"
                f"{nodes},,,1,1,{number % 317},{number % 19},1,,trace,{chunks},\n"
            )
    with (directory / "decisions.csv").open("w") as file:
        print(*DECISION_COLUMNS, sep=",", file=file)
        for place, instant in enumerate(instants):
            file.write(f"{instant},{place % 97},{place % 61},1,1,1,0\n")
    with (directory / "timing.csv").open("w") as file:
        print(*TIMING_COLUMNS, sep=",", file=file)
        for place, instant in enumerate(instants):
            file.write(f"{place + 1},{instant},{20 + place % 97},{60 + place % 13},0,\n")


def _describe(directory, rows, nodes):
    (directory / "scenario.toml").write_text(
        f'[platform]\n[[platform.groups]]\nname = "nodes"\nnodes = {nodes}\n'
        'per_node = { core = 1 }\n\n[workload]\nrequest = "nodes"\n'
    )
    summary = {
        "parley": {},
        "scenario": {"name": "synthetic", "digest": "0" * 64},
        "end": {"reason": "completed", "complete": True, "simulated_time": rows[-1][0]},
        "inputs": [],
        "platform": {"node_count": nodes, "capacity": {"core": nodes}},
        "dispatcher": {"policy": "fifo", "allocator": "first-fit"},
        "rules": {},
        "jobs": {"submitted": len(rows), "completed": len(rows)},
        "measured": {},
    }
    (directory / "summary.json").write_text(json.dumps(summary))


if __name__ == "__main__":
    write_run(Path(sys.argv[1]), jobs=int(sys.argv[2]) if sys.argv[2:] else 1_000_000, nodes=512)
