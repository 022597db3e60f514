"""What the specification demands of events, of being asked and of the state, on a live server."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from parley_conformance import ScriptedDispatcher
from tests.offering import (
    SECOND,
    at_first_jobs,
    codes_of,
    ends_of,
    events_of,
    offered,
    second_of,
    state_of,
)
from tests.serving import serving

CROWD = [(0, 40, 1, 50), (0, 40, 1, 50), (40, 5, 1, 9), (40, 5, 2, 9)]

CHANGES = [(20, "3", "down"), (40, "3", "up"), (40, "2", "down"), (50, "2", "up")]

SHARED = {
    "platform": {
        "groups": [
            {"name": "a", "nodes": 2, "per_node": {"core": 4, "memory": 8}},
            {"name": "b", "nodes": 2, "per_node": {"core": 4}},
        ]
    },
    "workload": {"request": "processors", "per_processor": {"core": 2}},
}

SNAPSHOT = {"capabilities": {"state": "snapshot"}}


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    overdue = [(0, 100, 1, 50), (60, 1, 1, 9)]
    scenarios = [
        offered(folder, "plain"),
        offered(folder, "shared", **SHARED),
        offered(folder, "crowded", CROWD, changes=CHANGES),
        offered(folder, "half", [(0, 90, 1), (0, 90, 2)], changes=[(5, "2-3", "down")]),
        offered(folder, "dark", [(0, 9, 4, 9)], changes=[(5, "0-3", "down")]),
        offered(folder, "cut", overdue, on_overrun="kill"),
        offered(folder, "uncut", overdue, on_overrun="run"),
        offered(folder, "measured", session={"latency": "measured"}),
        offered(folder, "scaled", session={"latency": "scaled:100"}),
    ]
    with serving(folder, *scenarios) as server:
        yield server


@pytest.fixture
def peer(standing):
    with ScriptedDispatcher(standing.endpoint) as peer:
        yield peer


def start(job, *spans):
    """Return a start, on spans if there are any."""
    decision = {"kind": "start", "job": job}
    return {**decision, "allocation": [[list(span) for span in spans]]} if spans else decision


def wake(timer, second):
    """Return a decision to be woken."""
    return {"kind": "wake", "timer": timer, "at_us": second * SECOND}


def whole_run(peer, scenario, script, **hello):
    """Return all requests of a run, and its end; *script* tells what to decide when asked first."""
    messages = [peer.open(scenario=scenario, **hello)]
    script = dict(script)
    while messages[-1]["type"] == "decision.request":
        seen = [
            event for event in messages[-1]["body"]["events"] if event["kind"] != "session.start"
        ]
        decisions = script.pop(second_of(messages[-1]), []) if seen else []
        messages.append(peer.reply(messages[-1], decisions))
    return messages


CROWDED = {
    0: [start(1, (1, 1, 1)), start(0, (0, 0, 1)), wake(2, 40), wake(1, 40)],
    40: [start(2), start(3)],
}


# ---------------------------------------------------------------------- instants and events


def test_everything_of_one_instant_comes_in_its_order(peer):
    messages = whole_run(peer, "crowded", CROWDED)

    (crowd,) = [message for message in messages if second_of(message) == 40]
    told = [
        (event["kind"], event.get("job", event.get("timer", event.get("nodes"))))
        for event in crowd["body"]["events"]
    ]
    assert [(kind, what["job"] if isinstance(what, dict) else what) for kind, what in told] == [
        *[("job.ended", 0), ("job.ended", 1)],
        *[("node.down", [[2, 2]]), ("node.up", [[3, 3]])],
        *[("job.submitted", 2), ("job.submitted", 3), ("workload.exhausted", None)],
        *[("timer.fired", 2), ("timer.fired", 1)],
    ]


@pytest.mark.parametrize("scenario", ["crowded", "plain", "cut"])
def test_one_instant_makes_one_request(peer, scenario):
    *requests, _ = whole_run(peer, scenario, CROWDED if scenario == "crowded" else {0: [start(0)]})

    instants = [request["body"]["now_us"] for request in requests[1:]]
    while requests and not requests[-1]["body"]["events"]:
        # Nothing was to come any more.
        requests.pop()
        instants.pop()
    assert instants == sorted(set(instants))
    assert all(request["body"]["attempt"] == 1 for request in requests)


def test_the_end_of_the_workload_is_told_once(peer):
    *requests, _ = whole_run(peer, "crowded", CROWDED)

    events = [event for request in requests for event in request["body"]["events"]]
    kinds = [event["kind"] for event in events]
    last = max(index for index, kind in enumerate(kinds) if kind == "job.submitted")
    assert kinds.count("workload.exhausted") == 1
    assert kinds.index("workload.exhausted") == last + 1


@pytest.mark.parametrize(
    ("scenario", "ends"), [("cut", (50, "timed_out")), ("uncut", (100, "completed"))]
)
def test_the_end_of_a_job_says_what_became_of_it(peer, scenario, ends):
    messages = whole_run(peer, scenario, {0: [start(0)], 60: [start(1)]})

    told = [
        (event["at_us"] // SECOND, event["status"])
        for message in messages[:-1]
        for event in message["body"]["events"]
        if event["kind"] == "job.ended" and event["job"] == 0
    ]
    assert told == [ends]


# ---------------------------------------------------------------------- being asked


@pytest.mark.parametrize(("more", "asked"), [([], 100), ([start(99)], 10)])
def test_a_refused_decision_is_a_reason_to_ask(peer, more, asked):
    request = peer.reply(peer.open(scenario="plain", ask="actionable"))

    answer = peer.reply(request, [start(0), start(1), *more])

    assert second_of(answer) == asked


def test_after_the_last_event_the_dispatcher_is_asked_once_more(peer):
    request = peer.reply(peer.open(scenario="dark", ask="actionable"))

    told = peer.reply(request)
    end = peer.reply(told)

    assert (second_of(told), events_of(told)) == (5, [(5, "node.down")])
    assert (end["type"], end["body"]["reason"]) == ("session.end", "stalled")


# ---------------------------------------------------------------------- allocations


@pytest.mark.parametrize("scenario", ["plain", "shared"])
def test_every_request_of_a_job_is_of_one_group(peer, scenario):
    request = at_first_jobs(peer, scenario)

    assert [len(event["job"]["request"]) for event in request["body"]["events"]] == [1, 1]


def test_spans_of_the_server_are_merged_and_ascending(peer):
    request = at_first_jobs(peer, "shared")
    request = peer.reply(request)
    placed = peer.reply(
        request,
        [start(0, (0, 0, 1), (1, 1, 1)), start(1, (2, 2, 1), (3, 3, 1)), start(2), wake(1, 20)],
    )
    state = state_of(peer)

    assert placed["body"]["outcomes"][2]["allocation"] == [[[0, 3, 1]]]
    assert [running["allocation"] for running in state["running"]] == [
        [[[0, 1, 1]]],
        [[[2, 3, 1]]],
        [[[0, 3, 1]]],
    ]


@pytest.mark.parametrize(
    ("spans", "code"),
    [
        ([(0, 0, 1), (2, 2, 1)], "node.busy"),
        ([(1, 1, 1), (3, 3, 1)], "node.down"),
        ([(2, 3, 1)], "node.down"),
        ([(0, 1, 1)], "node.busy"),
    ],
)
def test_the_first_node_that_cannot_take_its_chunks_tells_the_cause(peer, spans, code):
    request = peer.reply(at_first_jobs(peer, "half"))

    answer = peer.reply(request, [start(0, (0, 0, 1)), start(1, *spans), wake(1, 9)])

    assert events_of(request) == [(5, "node.down")]
    assert codes_of(answer) == ["applied", code, "applied"]


# ---------------------------------------------------------------------- the state


class Mirror:
    """What a dispatcher knows that follows the events alone."""

    def __init__(self):
        self.pending, self.running = {}, {}

    def follow(self, request):
        """Take in what the request tells; the outcomes first."""
        for event in request["body"]["events"]:
            match event["kind"]:
                case "job.submitted":
                    self.pending[event["job"]["job"]] = event["job"]
                case "job.ended":
                    del self.running[event["job"]]

    def start(self, job):
        self.running[job] = self.pending.pop(job)


def test_the_state_of_a_request_is_that_after_its_events(peer):
    mirror, compared = Mirror(), 0
    request = peer.open(scenario="crowded", **SNAPSHOT)
    while request["type"] == "decision.request":
        mirror.follow(request)
        state = request["body"]["state"]
        assert [job["job"] for job in state["pending"]] == sorted(mirror.pending)
        assert {run["job"]["job"] for run in state["running"]} == mirror.running.keys()
        assert state["pending"] == [mirror.pending[number] for number in sorted(mirror.pending)]
        up = [job for job in sorted(mirror.pending) if job != 3 or second_of(request) >= 50]
        for job in up:
            mirror.start(job)
        compared += 1
        request = peer.reply(request, [start(job) for job in up])
        if request["type"] == "decision.request":
            assert set(codes_of(request)) <= {"applied"}

    assert compared >= 6


def test_pending_jobs_are_ordered_by_submission_and_running_ones_by_start(peer):
    request = at_first_jobs(peer, "plain", **SNAPSHOT)
    request = peer.reply(request, [start(1)])
    request = peer.reply(request, [start(0), wake(1, 20)])
    running = [run["job"]["job"] for run in request["body"]["state"]["running"]]
    request = peer.reply(request, [{"kind": "requeue", "job": 1}, {"kind": "requeue", "job": 0}])

    assert running == [1, 0]
    assert ends_of(request) == [(0, "requeued"), (1, "requeued")]
    assert [job["job"] for job in request["body"]["state"]["pending"]] == [0, 1, 2]


@pytest.mark.parametrize("scenario", ["plain", "shared", "crowded"])
def test_the_nodes_of_every_state_are_all_nodes_once_in_the_fewest_runs(peer, scenario):
    script = {0: [start(0), start(1)], 10: [start(2)]}
    *requests, _ = whole_run(peer, scenario, script, **SNAPSHOT)
    groups = [(0, 1), (2, 3)] if scenario == "shared" else [(0, 3)]

    for request in requests:
        runs = request["body"]["state"]["nodes"]
        nodes = [node for first, last, _, _ in runs for node in range(first, last + 1)]
        assert nodes == [0, 1, 2, 3]
        for (_, last, *left), (first, _, *right) in pairwise(runs):
            one_group = any(low <= last and first <= high for low, high in groups)
            assert left != right or not one_group


# ---------------------------------------------------------------------- latency


@pytest.mark.parametrize(("scenario", "factor"), [("measured", 1), ("scaled", 100)])
def test_a_scaled_latency_is_in_proportion_to_what_the_answer_took(peer, scenario, factor):
    request = at_first_jobs(peer, scenario)
    began = time.perf_counter()
    time.sleep(0.05)

    answer = peer.reply(request, [start(0)])
    took_us = (time.perf_counter() - began) * SECOND

    charged_us = answer["body"]["outcomes"][0]["at_us"] - request["body"]["now_us"]
    # The request was on its way to us before we began to look at the clock.
    assert factor * 50_000 <= charged_us <= factor * (took_us + 500_000)
