"""Finished runs to look at."""

from __future__ import annotations

import random

import pytest

from parley_server import run
from tests.support import write_swf


def trace_of(path, *, jobs=120, seed=1, nodes=8):
    """Write a trace that keeps a machine busy: bursts, jobs of no length, some too large."""
    draw = random.Random(seed)
    at, lines = 0, []
    for number in range(jobs):
        at += 0 if draw.random() < 0.3 else int(draw.expovariate(1 / 300))
        runtime = 0 if number % 17 == 5 else int(draw.lognormvariate(6, 1.5)) + 1
        size = nodes + 1 if number % 41 == 7 else draw.choice([1, 1, 2, 3, 4, nodes])
        lines.append((at, runtime, size, int(runtime * draw.uniform(1, 4)) + 1))
    return write_swf(path, lines)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Return the directories of three runs of one workload."""
    directory = tmp_path_factory.mktemp("three")
    trace = trace_of(directory / "trace.swf")
    for policy in ("fifo", "easy", "sjf"):
        run(swf=trace, nodes=8, policy=policy, out=directory / policy)
    return [directory / policy for policy in ("fifo", "easy", "sjf")]


@pytest.fixture(scope="session")
def shared_nodes(tmp_path_factory):
    """Return the directory of a run of processors on shared nodes of four, killed at walltimes."""
    directory = tmp_path_factory.mktemp("shared")
    trace = trace_of(directory / "trace.swf", seed=2, nodes=12)
    run(
        swf=trace,
        nodes=3,
        per_node={"core": 4},
        request="processors",
        policy="easy",
        on_overrun="kill",
        out=directory / "out",
    )
    return directory / "out"
