"""The mirror follows the server, and takes back what the server refuses."""

from __future__ import annotations

import pytest

from parley_client import ClientError, Dispatcher, FirstFit, RejectAll, UnknownName, View
from parley_client.policies import Fifo

WELCOME = {
    "seed": 3,
    "limits": {"decisions": 1_000_000},
    "policy": {"latency_model": "zero"},
    "platform": {
        "node_count": 4,
        "groups": [{"name": "n", "first": 0, "last": 3, "capacity": {"core": 2}}],
    },
}


def wire_job(number: int, chunks: int = 1, submit_us: int = 0) -> dict:
    return {
        "job": number,
        "name": f"j{number}",
        "submit_us": submit_us,
        "walltime_us": 9_000_000,
        "request": [{"chunks": chunks, "per_chunk": {"core": 1}, "exclusive": False}],
    }


def submitted(number: int, chunks: int = 1) -> dict:
    return {"kind": "job.submitted", "at_us": 0, "job": wire_job(number, chunks)}


def request(*events, outcomes=(), now_us=0, **more) -> dict:
    return {
        "now_us": now_us,
        "attempt": 1,
        "events": list(events),
        "outcomes": list(outcomes),
        "state_version": 1,
        **more,
    }


def view() -> View:
    return View(WELCOME, FirstFit())


def test_a_start_takes_effect_in_the_view_at_once():
    shown = view()
    shown.update(request(submitted(0, 5), submitted(1, 4)))
    first, second = shown.queue

    assert shown.start(first)
    assert not shown.start(second)
    assert list(shown.queue) == [second]
    assert shown.cluster.available(second.shape) == 3
    assert shown.take_decisions() == [
        {"id": 0, "kind": "start", "job": 0, "allocation": [[(0, 1, 2), (2, 2, 1)]]}
    ]


def test_a_start_that_was_refused_is_undone_and_the_job_is_back_in_its_place():
    shown = view()
    shown.update(request(submitted(0), submitted(1), submitted(2)))
    for job in shown.queue:
        shown.start(job)
    refusal = {"id": 1, "status": "rejected", "code": "node.busy", "message": "no"}
    shown.update(request(submitted(3), outcomes=[refusal]))

    assert [job.number for job in shown.queue] == [1, 3]
    assert set(shown.running) == {0, 2}
    assert shown.cluster.available(shown.queue.head.shape) == 6
    assert shown.rejected == [refusal]


def test_a_job_the_server_no_longer_has_is_not_put_back():
    shown = view()
    shown.update(request(submitted(0)))
    shown.start(shown.queue.head)
    refusal = {"id": 0, "status": "rejected", "code": "job.not_pending", "message": "over"}
    shown.update(request(outcomes=[refusal]))

    assert len(shown.queue) == 0
    assert not shown.running


def test_an_end_gives_the_nodes_back():
    shown = view()
    shown.update(request(submitted(0, 8)))
    job = shown.queue.head
    shown.start(job)
    shown.update(request({"kind": "job.ended", "at_us": 5, "job": 0, "status": "killed"}, now_us=5))

    assert shown.ended == [0]
    assert shown.cluster.available(job.shape) == 8


def test_a_job_that_somebody_else_started_is_followed():
    shown = view()
    shown.update(request(submitted(0, 2)))
    shown.update(
        request({"kind": "job.started", "at_us": 7, "job": 0, "allocation": [[[1, 1, 2]]]})
    )

    assert len(shown.queue) == 0
    assert shown.running[0].start_us == 7
    assert shown.running[0].expected_end_us == 9_000_007


def test_a_full_state_replaces_what_was_known():
    shown = view()
    shown.update(request(submitted(0), submitted(1)))
    state = {
        "pending": [wire_job(5)],
        "running": [{"job": wire_job(4, 3), "start_us": 2, "allocation": [[[0, 0, 2], [1, 1, 1]]]}],
        "nodes": [],
        "timers": [{"timer": 6, "at_us": 9}],
        "held": [],
        "exhausted": False,
    }
    shown.update(request(submitted(5), state=state))

    assert [job.number for job in shown.queue] == [5]
    assert set(shown.running) == {4}
    assert shown.cluster.available(shown.queue.head.shape) == 5
    assert shown.wake(50) == 7


def test_events_of_a_later_version_are_passed_over():
    shown = view()
    shown.update(request({"kind": "power.changed", "at_us": 0, "watts": 9}, submitted(0)))

    assert len(shown.queue) == 1


def test_a_queue_may_be_emptied_while_it_is_walked():
    shown = view()
    shown.update(request(*(submitted(number) for number in range(6))))
    started = [shown.start(job) for job in shown.queue]

    assert all(started)
    assert len(shown.queue) == 0


def test_a_job_that_is_not_pending_cannot_be_started():
    shown = view()
    shown.update(request(submitted(0)))
    job = shown.queue.head
    shown.start(job)

    with pytest.raises(ClientError, match="not pending"):
        shown.start(job)


def test_fifo_stops_at_the_first_job_that_does_not_fit():
    dispatcher = Dispatcher(Fifo())
    dispatcher.begin(WELCOME)
    reply = dispatcher.decide(request(submitted(0, 5), submitted(1, 4), submitted(2, 1)))

    assert [decision["job"] for decision in reply["decisions"]] == [0]


def test_the_rejecter_rejects_everything():
    dispatcher = Dispatcher(RejectAll())
    dispatcher.begin(WELCOME)
    reply = dispatcher.decide(request(submitted(0), submitted(1)))

    assert [(decision["kind"], decision["job"]) for decision in reply["decisions"]] == [
        ("reject", 0),
        ("reject", 1),
    ]


def test_a_function_is_a_policy_and_is_asked_always_unless_it_says_otherwise():
    def nothing(view):
        pass

    assert Dispatcher(nothing).hello()["ask"] == "always"
    nothing.ask = "actionable"
    assert Dispatcher(nothing).hello()["ask"] == "actionable"
    assert Dispatcher(nothing).hello()["client"]["name"] == "nothing"


@pytest.mark.parametrize("wrong", [Fifo, 7])
def test_what_is_no_policy_is_told_so(wrong):
    with pytest.raises(ClientError, match=r"Fifo\(\)|no policy"):
        Dispatcher(wrong)


def test_an_unknown_name_is_told_with_those_there_are():
    with pytest.raises(UnknownName, match=r"'fifoo' .*did you mean 'fifo'.*easy, f1.*strict"):
        Dispatcher("fifoo")
    with pytest.raises(UnknownName, match="first-fit, next-fit, random"):
        Dispatcher("fifo", allocator="nearest")
