"""One server, many dispatchers at once, each a process of its own: nobody waits for another."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support import PARLEY, parley
from tests.surviving import results_of, wait_for, watched, workload

if TYPE_CHECKING:
    from pathlib import Path

NODES = 100
JOBS = 120
POLICIES = ("strict", "easy", "conservative")

GATED = """\
import time
from pathlib import Path

GATE = Path(__file__).with_name("gate-is-open")


def decide(view):
    while not GATE.exists():
        time.sleep(0.02)
    for job in view.queue:
        view.start(job)
"""
"""Its every answer waits until the gate is open."""


@pytest.fixture
def gated(tmp_path):
    path = tmp_path / "gated.py"
    path.write_text(GATED)
    return f"{path}:decide"


def alone(trace: Path, out: Path, policy: str) -> dict[str, bytes]:
    """Return what a policy's run leaves behind when there is no other."""
    process = parley(
        *("run", "--swf", trace, "--nodes", NODES, "--policy", policy, "-q", "--out", out)
    )
    assert process.returncode == 0, process.stderr
    return results_of(out)


def dispatching(endpoint: str, policy: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PARLEY, "dispatch", "--connect", endpoint, "--policy", policy],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("sessions", "slow"),
    [(8, 3), pytest.param(64, 16, marks=[pytest.mark.long, pytest.mark.timeout(240)])],
)
def test_no_session_waits_for_the_slow_dispatcher_of_another(tmp_path, gated, sessions, slow):
    trace = workload(tmp_path, JOBS)
    expected = {policy: alone(trace, tmp_path / policy, policy) for policy in POLICIES}
    scenario = tmp_path / "small.toml"
    scenario.write_text(
        f'[platform]\nnodes = {NODES}\n[workload]\nswf = "trace.swf"\n[run]\ndeadline = "200s"\n'
    )
    out = tmp_path / "served"
    serve = ("serve", scenario, "--bind", "tcp://127.0.0.1:*", "--out", out)
    with watched(*serve, "--sessions", sessions, "--trace") as server:
        endpoint = server.first_line().removeprefix("listening at ").strip()
        slow_ones = [dispatching(endpoint, gated) for _ in range(slow)]
        fast_ones = []
        try:
            # The slow ones are asked first, and answer last.
            wait_for(lambda: asked(server.lines) >= slow)
            chosen = [POLICIES[number % len(POLICIES)] for number in range(sessions - slow)]
            fast_ones = [dispatching(endpoint, policy) for policy in chosen]
            fast_statuses = [process.wait(150) for process in fast_ones]
            waiting = [process.poll() for process in slow_ones]
            written = sorted(path.name for path in out.iterdir())
            (tmp_path / "gate-is-open").touch()
            slow_statuses = [process.wait(60) for process in slow_ones]
            status = server.wait(60)
        finally:
            for process in (*slow_ones, *fast_ones):
                process.kill()
                process.communicate()
    served = [results_of(out / name) for name in written]
    slow_result = alone(trace, tmp_path / "gated", gated)

    assert fast_statuses == [0] * len(fast_ones)
    assert waiting == [None] * slow
    assert slow_statuses == [0] * slow
    assert status == 0
    assert len(served) == sessions
    for policy in POLICIES:
        assert served.count(expected[policy]) == chosen.count(policy)
    assert served.count(slow_result) == slow


def asked(lines: list[str]) -> int:
    return sum(line.startswith("server -> decision.request") for line in lines)
