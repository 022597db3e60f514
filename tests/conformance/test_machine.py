"""The kit's simulation: its messages are messages, its digests those of the specification."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from parley_conformance.digest import digest_of
from parley_conformance.dispatchers import scenes
from parley_conformance.machine import Change, Job, Machine, Plan
from parley_protocol.codec import read_server_message

ENVELOPE = {"v": 1, "session": "1", "epoch": 1, "seq": 1}

DIGEST = "bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700"

jobs = st.builds(
    Job,
    submit=st.integers(0, 30),
    chunks=st.integers(1, 5),
    runtime=st.integers(0, 20),
    walltime=st.none() | st.integers(1, 30),
)
changes = st.lists(
    st.builds(
        Change, at=st.integers(1, 40), state=st.sampled_from(["down", "up"]),
        nodes=st.sampled_from([[[0, 0]], [[1, 2]], [[3, 3]]]),
    ),
    max_size=4,
)  # fmt: skip
plans = st.builds(
    Plan,
    jobs=st.lists(jobs, max_size=8).map(lambda some: sorted(some, key=lambda job: job.submit)),
    changes=changes,
    on_node_down=st.sampled_from(["kill", "requeue"]),
    latency=st.sampled_from([0, 0, 3]),
)


def starts(machine, state):
    decisions = []
    for job in state["pending"]:
        if machine.places_for(job["job"], decisions) is None:
            break
        decisions.append({"id": len(decisions), "kind": "start", "job": job["job"]})
    return decisions


@settings(max_examples=40, deadline=None)
@given(plan=plans, snapshot=st.booleans(), ask=st.sampled_from(["always", "actionable"]))
def test_every_message_of_a_run_is_one_of_the_protocol(plan, snapshot, ask):
    machine = Machine(plan, snapshot=snapshot, ask=ask)
    body, before = machine.first(), 0
    for _ in range(300):
        read_server_message({**ENVELOPE, "type": "decision.request", "body": body})

        assert body["now_us"] >= before
        before = body["now_us"]
        body = machine.answer(starts(machine, machine.state()))
        if machine.reason:
            break
    read_server_message({**ENVELOPE, "type": "session.end", "body": body})

    assert machine.reason in {"completed", "stalled"}
    assert body["stats"]["submitted"] == len(plan.jobs)


def test_the_digest_is_that_of_the_text():
    state = {
        "pending": [{"job": 12}],
        "held": [12],
        "running": [
            {"job": {"job": 7}, "start_us": 3_600_000_000, "allocation": [[[0, 3, 1], [9, 9, 2]]]}
        ],
        "nodes": [
            *([0, 3, {"core": 0, "gpu": 0}, "up"], [4, 4, {"core": 0, "gpu": 0}, "down"]),
            *([5, 5, {"core": 14, "gpu": 0}, "up"], [6, 7, {"core": 0, "gpu": 0}, "down"]),
        ],
        "timers": [{"timer": 1, "at_us": 9_000_000_000}],
    }

    assert digest_of(7_200_000_000, state) == DIGEST


def test_plans_of_the_scenes_can_be_played_to_their_end():
    plans = (scenes.PLAIN, scenes.SHARED, scenes.FAILING, scenes.KILLING, scenes.SLOW)
    for plan in (*plans, scenes.OVERDUE):
        machine = Machine(plan)
        machine.first()
        while not machine.reason:
            machine.answer(starts(machine, machine.state()))

        assert machine.reason == "completed"
