"""A mirror stays right while its decisions are on their way and nodes go down and come back."""

from __future__ import annotations

import pytest

from parley_server import run
from tests.support import write_swf

CHANGES = [
    {"at": "150s", "nodes": "0", "state": "down"},
    {"at": "160s", "nodes": "0", "state": "up"},
    {"at": "350s", "nodes": "0-1", "state": "down"},
    {"at": "390s", "nodes": "1", "state": "up"},
    {"at": "900s", "nodes": "0", "state": "up"},
]
JOBS = [(50, 300, 2, 400), (120, 300, 3, 400), (170, 10, 1, 20), (180, 0, 1, 20), (380, 40, 4, 50)]


@pytest.mark.parametrize("request_as", ["nodes", "processors"])
@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative", "aggressive", "timed-run"])
@pytest.mark.parametrize("latency", ["fixed:1s", "fixed:100s", "fixed:1h"])
def test_no_digest_differs_and_nothing_is_placed_on_air(tmp_path, latency, policy, request_as):
    from parley_server.scenario import scenario_of

    trace = write_swf(tmp_path / "trace.swf", JOBS)
    per_node = {"core": 2} if request_as == "processors" else {"core": 1}
    scenario = scenario_of(
        {
            "platform": {"nodes": 4, "per_node": per_node},
            "workload": {"swf": str(trace), "request": request_as},
            "run": {"on_node_down": "requeue"},
            "session": {"latency": latency, "state_digest": True},
            "node_changes": CHANGES,
        }
    )
    refused: set[str] = set()

    def listen(_direction, kind, body):
        if kind in {"decision.request", "session.end"}:
            refused.update(o["code"] for o in body["outcomes"] if o["status"] == "rejected")

    result = run(scenario, out=tmp_path / "out", policy=policy, trace=listen, audit=True)

    assert result.complete
    assert result.summary["jobs"]["completed"] == len(JOBS)
    # What was planned on a machine that has become another; never what could not be at all.
    assert refused <= {"node.down", "node.busy", "job.not_running", "timer.past"}


@pytest.mark.parametrize("policy", ["fifo", "easy", "aggressive"])
@pytest.mark.parametrize("latency", ["fixed:7s", "fixed:30s", "fixed:40s", "fixed:1h"])
def test_who_decides_only_so_often_comes_to_it_however_long_decisions_take(
    tmp_path, latency, policy
):
    trace = write_swf(tmp_path / "trace.swf", JOBS)

    result = run(
        swf=trace,
        nodes=4,
        out=tmp_path / "out",
        policy=policy,
        parameters={"interval": "30s"},
        session={"latency": latency},
    )

    # A wake that was refused as past, or fired while another decision was on its way, is not the
    # last word: it would end as stalled, or never.
    assert result.complete
    assert result.summary["jobs"]["completed"] == len(JOBS)
