"""A reply holds no more decisions than the server takes; the rest comes with the next one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley_client.dispatcher import Dispatcher
from parley_conformance.machine import Job, Machine, Plan
from parley_conformance.vectors import _welcome


@given(most=st.integers(1, 5), count=st.integers(0, 9), latency=st.sampled_from([0, 3]))
def test_every_job_runs_however_few_decisions_a_reply_may_hold(most, count, latency):
    plan = Plan(
        jobs=[Job(0, 1, 10 + number, 60) for number in range(count)],
        groups=(("n", 9, {"core": 1}),),
        latency=latency,
    )
    welcome = _welcome(plan, "few", "events")
    welcome["limits"]["decisions"] = most
    dispatcher = Dispatcher("fifo")
    dispatcher.begin(welcome)
    machine = Machine(plan)
    body = machine.first()
    while not machine.reason:
        decisions = dispatcher.decide({**body, "state_digest": machine.digest()})["decisions"]
        body = machine.answer(decisions)

        assert len(decisions) <= most
    assert machine.reason == "completed"
    assert body["stats"]["completed"] == count


def test_nothing_is_kept_back_where_there_is_room():
    plan = Plan(jobs=[Job(0, 1, 10, 60) for _ in range(4)])
    dispatcher = Dispatcher("fifo")
    dispatcher.begin(_welcome(plan, "plain", "events"))
    machine = Machine(plan)
    dispatcher.decide(machine.first())
    reply = dispatcher.decide(machine.answer([]))

    assert len(reply["decisions"]) == 4
