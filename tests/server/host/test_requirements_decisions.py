"""What the specification demands of decisions, held against a live server."""

from __future__ import annotations

import hashlib

import pytest

from parley_conformance import ScriptedDispatcher
from parley_protocol.errors import DECISION_CODES
from tests.offering import (
    SECOND,
    at_first_jobs,
    codes_of,
    ends_of,
    events_of,
    offered,
    outcomes_of,
    second_of,
    state_of,
)
from tests.serving import assert_refused, serving

SHARED = {
    "platform": {
        "groups": [
            {"name": "a", "nodes": 2, "per_node": {"core": 4, "memory": 8}},
            {"name": "b", "nodes": 2, "per_node": {"core": 4}},
        ]
    },
    "workload": {"request": "processors", "per_processor": {"core": 2}},
}

FAILING = [(40, "0-1", "down"), (60, "0", "down"), (70, "0-2", "up")]


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    dynamic = {"dynamic_jobs": True}
    scenarios = [
        offered(folder, "plain"),
        offered(folder, "shared", **SHARED),
        offered(folder, "zero", [(0, 0, 4, 10), (0, 50, 4, 60)]),
        offered(folder, "dynamic", session=dynamic),
        offered(folder, "digest", session={"state_digest": True}, changes=FAILING),
        offered(folder, "failing", changes=FAILING),
        offered(folder, "requeuing", changes=FAILING, on_node_down="requeue"),
        offered(folder, "slow", session={"latency": "fixed:5s"}),
        offered(folder, "slower", session={"latency": "fixed:30s", "dynamic_jobs": True}),
        offered(folder, "measured", session={"latency": "measured"}),
        offered(folder, "reasking", session={"on_reject": "reask", "reasks": 2}),
        offered(folder, "strict", session={"on_reject": "fail"}),
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


# ---------------------------------------------------------------------- replies and outcomes


def test_decisions_are_applied_in_their_order_and_each_is_told_with_its_id(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(
        request,
        [
            {"id": 7, **start(0)},
            {"id": 3, **start(99)},
            {"id": 5, "kind": "reject", "job": 0},
            {"id": 4, **start(1)},
        ],
    )

    assert outcomes_of(answer) == [
        (7, "applied"),
        (3, "job.unknown"),
        (5, "job.not_pending"),
        (4, "applied"),
    ]


def test_what_is_rejected_changes_nothing_and_says_why(peer):
    request = at_first_jobs(peer, "plain", capabilities={"state": "snapshot"})

    answer = peer.reply(request, [start(0, (0, 2, 1)), {"kind": "kill", "job": 0}])

    assert codes_of(answer) == ["alloc.too_many", "job.not_running"]
    assert set(codes_of(answer)) <= DECISION_CODES.keys()
    assert all(outcome["message"] for outcome in answer["body"]["outcomes"])
    assert answer["body"]["state"]["pending"][:2] == request["body"]["state"]["pending"]
    assert answer["body"]["state"]["nodes"] == request["body"]["state"]["nodes"]


ABOUT_JOBS = ["start", "reject", "hold", "release", "annotate", "kill", "requeue"]


@pytest.mark.parametrize("kind", ABOUT_JOBS)
def test_a_decision_about_a_job_that_is_not_what_it_is_for_says_so(peer, kind):
    request = at_first_jobs(peer, "plain")
    wrong = "job.not_running" if kind in {"kill", "requeue"} else "job.not_pending"
    other = 1 if kind in {"kill", "requeue"} else 0

    answer = peer.reply(
        request, [start(0), *({"kind": kind, "job": job} for job in (other, 2, 99, -1))]
    )

    # Job 2 comes later: nothing is known of it yet.
    assert codes_of(answer) == ["applied", wrong, *["job.unknown"] * 3]


def test_an_unknown_decision_is_rejected_and_the_others_are_applied(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(request, [{"kind": "resize", "job": 0}, start(1)])

    assert codes_of(answer) == ["decision.unsupported", "applied"]


# ---------------------------------------------------------------------- start


def test_a_job_runs_exactly_where_its_allocation_says(peer):
    request = at_first_jobs(peer, "shared")

    peer.reply(request, [start(0, (1, 1, 2)), start(1, (2, 3, 1))])
    state = state_of(peer)

    assert [job["allocation"] for job in state["running"]] == [[[[1, 1, 2]]], [[[2, 3, 1]]]]
    assert [[first, last, free["core"]] for first, last, free, _ in state["nodes"]] == [
        [0, 0, 4],
        [1, 1, 0],
        [2, 3, 2],
    ]


def test_without_an_allocation_the_lowest_nodes_are_filled_and_told(peer):
    request = at_first_jobs(peer, "shared")

    answer = peer.reply(request, [start(0, (0, 0, 1), (3, 3, 1)), start(1), start(2)])

    outcomes = answer["body"]["outcomes"]
    assert "allocation" not in outcomes[0]
    assert outcomes[1]["allocation"] == [[[0, 1, 1]]]
    assert outcomes[2]["code"] == "job.unknown"


def test_a_job_that_does_not_fit_now_is_not_started(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(request, [start(0), start(1, (2, 2, 1), (3, 3, 1))])
    later = peer.reply(answer, [start(2)])

    # Spans need not be merged by who decides; the server merges what it tells.
    assert codes_of(answer) == ["applied", "applied"]
    assert codes_of(later) == ["alloc.no_fit"]


WRONG_ALLOCATIONS = {
    "no group": ([], "alloc.groups"),
    "two groups": ([[[0, 0, 1]], [[1, 1, 1]]], "alloc.groups"),
    "backwards": ([[[1, 0, 1]]], "alloc.span"),
    "no chunk": ([[[0, 1, 0]]], "alloc.span"),
    "no chunk on an unknown node": ([[[9, 9, 0]]], "alloc.span"),
    "beyond the last": ([[[3, 4, 1]]], "node.unknown"),
    "before the first": ([[[-1, 0, 1]]], "node.unknown"),
    "unknown and out of order": ([[[3, 3, 1], [-1, 0, 1]]], "node.unknown"),
    "descending": ([[[1, 1, 1], [0, 0, 1]]], "alloc.order"),
    "overlapping": ([[[0, 1, 1], [1, 1, 1]]], "alloc.order"),
    "out of order before unknown": ([[[1, 1, 1], [0, 0, 1], [9, 9, 1]]], "alloc.order"),
    "two exclusive chunks on a node": ([[[0, 0, 2]]], "alloc.exclusive"),
    "nothing": ([[]], "alloc.too_few"),
    "too few": ([[[2, 2, 1]]], "alloc.too_few"),
    "too many": ([[[0, 2, 1]]], "alloc.too_many"),
    "taken": ([[[1, 2, 1]]], "node.busy"),
}


@pytest.mark.parametrize(("allocation", "code"), WRONG_ALLOCATIONS.values(), ids=WRONG_ALLOCATIONS)
def test_a_wrong_allocation_is_rejected_with_the_first_cause(peer, allocation, code):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(
        request, [start(0, (0, 1, 1)), {"kind": "start", "job": 1, "allocation": allocation}]
    )

    assert codes_of(answer) == ["applied", code]


def test_nothing_shares_a_node_with_an_exclusive_chunk(peer):
    request = at_first_jobs(peer, "plain", capabilities={"state": "snapshot"})

    answer = peer.reply(request, [start(0, (1, 2, 1))])

    assert answer["body"]["state"]["nodes"] == [
        [0, 0, {"core": 1}, "up"],
        [1, 2, {"core": 0}, "up"],
        [3, 3, {"core": 1}, "up"],
    ]


def test_a_job_of_no_length_ends_at_the_instant_of_its_start_with_another_request(peer):
    request = at_first_jobs(peer, "zero")

    answer = peer.reply(request, [start(0)])
    then = peer.reply(answer, [start(1)])

    assert second_of(answer) == 0
    assert ends_of(answer) == [(0, "completed")]
    assert codes_of(then) == ["applied"]
    assert second_of(then) == 50


# ---------------------------------------------------------------------- reject, kill, requeue


def test_a_rejected_job_leaves_the_queue_without_an_event(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(request, [{"kind": "reject", "job": 0}, start(0)])

    assert codes_of(answer) == ["applied", "job.not_pending"]
    assert events_of(answer) == [(10, "job.submitted"), (10, "workload.exhausted")]


def test_a_killed_job_ends_now_and_its_nodes_are_free_with_the_next_request(peer):
    request = at_first_jobs(peer, "plain")
    request = peer.reply(request, [start(0)])

    answer = peer.reply(request, [{"kind": "kill", "job": 0}, start(1, (0, 1, 1))])
    after = peer.reply(answer, [start(1, (0, 1, 1))])

    assert codes_of(answer) == ["applied", "node.busy"]
    assert second_of(answer) == second_of(request)
    assert ends_of(answer) == [(0, "killed")]
    assert codes_of(after) == ["applied"]


def test_a_requeued_job_is_pending_again_in_its_old_place_and_begins_anew(peer):
    request = at_first_jobs(peer, "plain", capabilities={"state": "snapshot"})
    request = peer.reply(request, [start(0)])

    answer = peer.reply(
        request, [{"kind": "requeue", "job": 0}, {"kind": "kill", "job": 0}, start(1, (0, 1, 1))]
    )
    pending = [job["job"] for job in answer["body"]["state"]["pending"]]
    end = peer.reply(answer, [start(0), {"kind": "reject", "job": 1}, {"kind": "reject", "job": 2}])

    assert codes_of(answer) == ["applied", "job.not_running", "node.busy"]
    assert second_of(answer) == second_of(request) == 10
    assert ends_of(answer) == [(0, "requeued")]
    assert pending == [0, 1, 2]
    assert (second_of(end), ends_of(end)) == (110, [(0, "completed")])
    assert peer.reply(end)["body"]["stats"]["requeues"] == 1


# ---------------------------------------------------------------------- hold, release


def test_a_held_job_waits_until_it_is_released(peer):
    request = at_first_jobs(peer, "plain", capabilities={"state": "snapshot"})

    answer = peer.reply(
        request,
        [
            {"kind": "hold", "job": 0, "reason": "no hours left"},
            {"kind": "hold", "job": 0},
            start(0),
            start(0, (0, 1, 1)),
            {"kind": "annotate", "job": 0, "expected_start_us": 7},
            {"kind": "release", "job": 1},
            {"kind": "hold", "job": 1},
            {"kind": "reject", "job": 1},
        ],
    )
    then = peer.reply(answer, [{"kind": "release", "job": 0}, start(0)])

    assert codes_of(answer) == [
        *("applied", "job.held", "job.held", "job.held", "applied"),
        *("job.not_held", "applied", "applied"),
    ]
    assert answer["body"]["state"]["held"] == [0]
    assert [job["job"] for job in answer["body"]["state"]["pending"]] == [0, 2]
    assert codes_of(then) == ["applied", "applied"]
    assert then["body"]["state"]["held"] == []


def test_held_jobs_are_no_reason_to_ask(peer):
    request = peer.open(scenario="plain", ask="actionable")
    request = peer.reply(request)

    request = peer.reply(request, [{"kind": "hold", "job": 0}, {"kind": "hold", "job": 1}])
    answer = peer.reply(
        request, [{"kind": "hold", "job": 2}, {"kind": "wake", "timer": 1, "at_us": 30 * SECOND}]
    )

    # Job 2 could start when it came; once all are held, only the timer is left.
    assert second_of(request) == 10
    assert (second_of(answer), events_of(answer)) == (30, [(30, "timer.fired")])


# ---------------------------------------------------------------------- wake, wake.cancel


def wake(timer, second):
    """Return a decision to be woken."""
    return {"kind": "wake", "timer": timer, "at_us": second * SECOND}


def test_a_timer_lies_after_now_and_has_a_number_of_its_own(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(request, [wake(1, 0), wake(1, -1), wake(1, 5), wake(1, 6), wake(2, 5)])
    after = peer.reply(answer, [wake(1, 20)])

    assert codes_of(answer) == ["timer.past", "timer.past", "applied", "timer.set", "applied"]
    assert (second_of(answer), events_of(answer)) == (5, [(5, "timer.fired"), (5, "timer.fired")])
    assert [event["timer"] for event in answer["body"]["events"]] == [1, 2]
    assert codes_of(after) == ["applied"]


def test_a_timer_is_a_reason_to_ask_whatever_ask_says(peer):
    request = peer.open(scenario="plain", ask="actionable")
    request = peer.reply(request)

    answer = peer.reply(request, [start(0), start(1), wake(1, 30)])

    assert (second_of(answer), events_of(answer)[-1]) == (30, (30, "timer.fired"))


def test_a_timer_that_was_given_up_does_not_fire(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(
        request,
        [
            *(wake(1, 5), wake(2, 6)),
            {"kind": "wake.cancel", "timer": 1},
            {"kind": "wake.cancel", "timer": 1},
            {"kind": "wake.cancel", "timer": 3},
        ],
    )

    assert codes_of(answer) == ["applied"] * 3 + ["timer.unknown"] * 2
    assert (second_of(answer), answer["body"]["events"][0]["timer"]) == (6, 2)


# ---------------------------------------------------------------------- annotate


def test_annotations_change_nothing_that_is_simulated(peer):
    request = at_first_jobs(peer, "plain")
    notes = [{"kind": "annotate", "job": job, "expected_start_us": 50} for job in (0, 1)]

    answer = peer.reply(request, [*notes, start(0)])
    end = peer.reply(peer.reply(answer))

    assert codes_of(answer) == ["applied"] * 3
    assert (second_of(answer), second_of(end)) == (10, 100)


# ---------------------------------------------------------------------- submit

SUBMIT = {"capabilities": {"submit": True, "state": "snapshot"}}


def job(**changes):
    """Return a job to be brought in."""
    group = {"chunks": 2, "per_chunk": {"core": 1}, "exclusive": True}
    return {"runtime_us": 5 * SECOND, "request": [group], **changes}


def submit(at=None, **changes):
    """Return the decision to bring a job in."""
    decision = {"kind": "submit", "job": job(**changes)}
    return decision if at is None else {**decision, "at_us": at * SECOND}


@pytest.mark.parametrize(
    ("scenario", "capabilities"), [("plain", {"submit": True}), ("dynamic", {})]
)
def test_jobs_are_brought_in_only_where_it_was_granted(peer, scenario, capabilities):
    request = at_first_jobs(peer, scenario, capabilities=capabilities)

    answer = peer.reply(request, [submit(), start(0)])

    assert codes_of(answer) == ["decision.not_granted", "applied"]


def test_submitted_jobs_are_numbered_and_named_apart_and_told_at_their_instant(peer):
    request = at_first_jobs(peer, "dynamic", **SUBMIT)

    now = peer.reply(request, [submit(), submit(7, name="probe"), submit(7), start(0), start(1)])
    later = peer.reply(now)

    assert [outcome.get("job") for outcome in now["body"]["outcomes"]] == [
        *(2**52, 2**52 + 1, 2**52 + 2),
        *(None, None),
    ]
    assert (second_of(now), events_of(now)) == (0, [(0, "job.submitted")])
    assert now["body"]["events"][0]["job"]["name"] == "dyn!0"
    assert (second_of(later), events_of(later)) == (7, [(7, "job.submitted")] * 2)
    assert [event["job"]["name"] for event in later["body"]["events"]] == ["dyn!probe", "dyn!2"]
    assert [event["job"]["job"] for event in later["body"]["events"]] == [2**52 + 1, 2**52 + 2]
    assert all("runtime_us" not in event["job"] for event in later["body"]["events"])


def test_a_job_that_cannot_be_brought_in_says_why(peer):
    request = peer.reply(at_first_jobs(peer, "dynamic", **SUBMIT))
    large = {"chunks": 5, "per_chunk": {"core": 1}, "exclusive": True}
    empty = {"chunks": 1, "per_chunk": {}, "exclusive": False}

    answer = peer.reply(
        request,
        [
            *(submit(name="probe"), submit(name="probe"), submit(9)),
            *(submit(request=[large]), submit(request=[empty])),
            submit(request=[*job()["request"], *job()["request"]]),
        ],
    )

    assert codes_of(answer) == [
        *("applied", "job.name", "job.past"),
        *("job.never_fits", "job.request", "job.request"),
    ]


def test_submitted_jobs_run_and_leave_the_end_of_the_workload_where_it_is(peer):
    request = at_first_jobs(peer, "dynamic", **SUBMIT)

    request = peer.reply(request, [submit(20)])
    exhausted = events_of(request)
    request = peer.reply(request, [{"kind": "reject", "job": number} for number in range(3)])
    answer = peer.reply(request, [start(2**52)])

    assert exhausted == [(10, "job.submitted"), (10, "workload.exhausted")]
    assert events_of(request) == [(20, "job.submitted")]
    assert (second_of(answer), ends_of(answer)) == (25, [(2**52, "completed")])


# ---------------------------------------------------------------------- stop


def test_stop_ends_the_run_at_once_with_the_outcomes(peer):
    request = at_first_jobs(peer, "plain")

    end = peer.reply(request, [start(0), {"kind": "stop", "reason": "enough"}, start(1)])

    assert end["type"] == "session.end"
    assert (end["body"]["reason"], end["body"]["now_us"]) == ("stopped", 0)
    assert codes_of(end) == ["applied", "applied", "run.stopped"]
    assert end["body"]["stats"]["submitted"] == 2


# ---------------------------------------------------------------------- atomic sessions

ATOMIC = {"capabilities": {"decisions": "atomic", "state": "snapshot"}}


def test_an_atomic_reply_is_applied_as_a_whole_or_not_at_all(peer):
    request = at_first_jobs(peer, "plain", **ATOMIC)

    failed = peer.reply(request, [start(0), wake(1, 5), start(99), start(1)])
    applied = peer.reply(failed, [start(0), start(1)])

    assert codes_of(failed) == [
        *("decision.rolled_back", "decision.rolled_back"),
        *("job.unknown", "decision.rolled_back"),
    ]
    assert second_of(failed) == 10
    assert failed["body"]["state"]["running"] == failed["body"]["state"]["timers"] == []
    assert codes_of(applied) == ["applied", "applied"]


def test_an_atomic_reply_of_unknown_decisions_is_rolled_back(peer):
    request = at_first_jobs(peer, "plain", **ATOMIC)

    answer = peer.reply(request, [{"kind": "resize"}, start(0), {"kind": "stop"}])

    assert codes_of(answer) == ["decision.unsupported", *["decision.rolled_back"] * 2]
    assert answer["type"] == "decision.request"


# ---------------------------------------------------------------------- nodes that fail


@pytest.mark.parametrize(("scenario", "status"), [("failing", "failed"), ("requeuing", "requeued")])
def test_jobs_end_before_their_nodes_go_down(peer, scenario, status):
    request = at_first_jobs(peer, scenario, capabilities={"state": "snapshot"})
    request = peer.reply(request, [start(1, (0, 1, 1)), start(0, (2, 3, 1))])

    down = peer.reply(request)
    refused = peer.reply(down, [start(2), {"kind": "reject", "job": 2}, wake(1, 50)])
    up = peer.reply(refused)

    assert events_of(down) == [(40, "job.ended"), (40, "node.down")]
    assert ends_of(down) == [(1, status)]
    assert down["body"]["events"][1]["nodes"] == [[0, 1]]
    assert down["body"]["state"]["nodes"] == [
        [0, 1, {"core": 0}, "down"],
        [2, 3, {"core": 0}, "up"],
    ]
    assert [job["job"] for job in down["body"]["state"]["pending"]] == (
        [2] if status == "failed" else [1, 2]
    )
    assert codes_of(refused) == ["alloc.no_fit", "applied", "applied"]
    # Node 0 was down already at 60 s, and node 2 was up at 70 s: neither is told.
    assert (second_of(up), events_of(up)) == (70, [(70, "node.up")])
    assert up["body"]["events"][0]["nodes"] == [[0, 1]]
    assert up["body"]["state"]["nodes"][0] == [0, 1, {"core": 1}, "up"]


def test_a_start_on_a_node_that_is_down_says_so(peer):
    request = at_first_jobs(peer, "failing")
    request = peer.reply(request, [wake(1, 50)])
    request = peer.reply(request)
    request = peer.reply(request)

    answer = peer.reply(request, [start(0, (1, 2, 1)), start(0)])

    assert second_of(request) == 50
    assert codes_of(answer) == ["node.down", "applied"]
    assert answer["body"]["outcomes"][1]["allocation"] == [[[2, 3, 1]]]


# ---------------------------------------------------------------------- the state and its digest


def test_the_state_that_is_asked_for_is_that_of_the_outstanding_request(peer):
    request = at_first_jobs(peer, "plain", capabilities={"state": "snapshot"})
    request = peer.reply(request, [start(1), wake(4, 20), {"kind": "hold", "job": 0}])

    snapshot = peer.say("state.request", {})

    for field in ("now_us", "state_version", "state"):
        assert snapshot["body"][field] == request["body"][field]
    state = snapshot["body"]["state"]
    assert [job["job"] for job in state["pending"]] == [0, 2]
    assert state["held"] == [0]
    assert [running["job"]["job"] for running in state["running"]] == [1]
    assert state["timers"] == [{"timer": 4, "at_us": 20 * SECOND}]
    assert state["exhausted"] is True
    assert peer.reply(request)["type"] == "decision.request"


def test_the_version_grows_with_every_event_and_applied_decision(peer):
    request = at_first_jobs(peer, "plain")

    versions = [request["body"]["state_version"]]
    for decisions in ([start(99)], [start(0)]):
        request = peer.reply(request, decisions)
        versions.append(request["body"]["state_version"])

    assert versions == sorted(set(versions))


def lines_of(state, now):
    """Return the lines whose digest the specification defines, from nothing but its text."""
    yield f"now {now}"
    yield from (f"pending {number}" for number in sorted(job["job"] for job in state["pending"]))
    yield from (f"held {number}" for number in sorted(state["held"]))
    for running in sorted(state["running"], key=lambda running: running["job"]["job"]):
        groups = ";".join(
            ",".join("{}-{}*{}".format(*span) for span in spans) for spans in running["allocation"]
        )
        yield f"running {running['job']['job']} {running['start_us']} {groups}"
    free = {}
    for first, last, amounts, up in state["nodes"]:
        for kind, amount in amounts.items():
            free[kind] = free.get(kind, 0) + amount * (last - first + 1) * (up == "up")
    yield from (f"free {kind} {free[kind]}" for kind in sorted(free))
    yield from (f"down {first}-{last}" for first, last, _, up in state["nodes"] if up == "down")
    timers = {timer["timer"]: timer["at_us"] for timer in state["timers"]}
    yield from (f"timer {timer} {timers[timer]}" for timer in sorted(timers))


def test_the_digest_of_every_request_is_that_of_its_state(peer):
    request = at_first_jobs(peer, "digest", capabilities={"state": "snapshot"})
    script = [
        [start(0, (0, 0, 1), (3, 3, 1)), {"kind": "hold", "job": 1}, wake(3, 50), wake(2, 65)],
        [{"kind": "kill", "job": 0}],
        [],
        [],
        [{"kind": "release", "job": 1}, start(1)],
    ]

    digests = []
    while request["type"] == "decision.request":
        body = request["body"]
        text = "".join(f"{line}\n" for line in lines_of(body["state"], body["now_us"]))
        assert body["state_digest"] == hashlib.sha256(text.encode()).hexdigest()
        digests.append(body["state_digest"])
        request = peer.reply(request, script.pop(0) if script else [])

    assert len(digests) >= 7


def test_the_digest_of_the_specification_is_that_of_its_lines():
    from tests.support import PROJECT

    page = (PROJECT / "protocol/spec/decisions.md").read_text()
    text = page.partition("```text\n")[2].partition("```")[0]

    assert f"`{hashlib.sha256(text.encode()).hexdigest()}`" in page


# ---------------------------------------------------------------------- decisions that take time


def test_decisions_take_effect_later_than_they_were_asked_for(peer):
    request = at_first_jobs(peer, "slow")

    # Asked at 5 s; at 10 s the third job comes, and then the decision takes effect.
    answer = peer.reply(request, [start(0), start(2, (0, 3, 1))])
    then = peer.reply(answer, [start(1), wake(1, 12), wake(2, 16)])

    assert second_of(request) == 5
    assert (second_of(answer), events_of(answer)[0]) == (10, (10, "job.submitted"))
    assert codes_of(answer) == ["applied", "node.busy"]
    assert {outcome["at_us"] for outcome in answer["body"]["outcomes"]} == {10 * SECOND}
    assert codes_of(then) == ["applied", "timer.past", "applied"]
    assert {outcome["at_us"] for outcome in then["body"]["outcomes"]} == {15 * SECOND}
    # Nothing was to be told at 15 s.
    assert (second_of(then), events_of(then)) == (16, [(16, "timer.fired")])


def test_what_happens_until_decisions_take_effect_comes_with_the_next_request(peer):
    request = at_first_jobs(peer, "slower")

    answer = peer.reply(request, [start(0), start(1)])

    assert (second_of(request), events_of(request)) == (
        30,
        [
            *[(0, "job.submitted")] * 2,
            *[(10, "job.submitted"), (10, "workload.exhausted")],
        ],
    )
    assert (second_of(answer), ends_of(answer)) == (160, [(0, "completed"), (1, "completed")])


def test_a_measured_latency_is_what_the_answer_took(peer):
    request = at_first_jobs(peer, "measured")

    answer = peer.reply(request, [start(0)])

    took_us = answer["body"]["outcomes"][0]["at_us"]
    assert 0 < took_us < 5 * SECOND


def test_without_latency_outcomes_carry_no_instant(peer):
    request = at_first_jobs(peer, "plain")

    answer = peer.reply(request, [start(0), start(99)])

    assert not any("at_us" in outcome for outcome in answer["body"]["outcomes"])


# ---------------------------------------------------------------------- decisions that are refused


def test_refused_decisions_are_asked_about_again_at_once_and_not_for_ever(peer):
    request = at_first_jobs(peer, "reasking")

    attempts = [request]
    for _ in range(3):
        attempts.append(peer.reply(attempts[-1], [start(99), start(0)]))

    assert [second_of(request) for request in attempts] == [0, 0, 0, 10]
    assert [request["body"]["attempt"] for request in attempts] == [1, 2, 3, 1]
    assert [events_of(request) for request in attempts[1:3]] == [[], []]
    assert codes_of(attempts[1]) == ["job.unknown", "applied"]
    assert codes_of(attempts[2]) == ["job.unknown", "job.not_pending"]


def test_a_refused_decision_fails_the_run_where_the_scenario_says_so(peer):
    request = at_first_jobs(peer, "strict")

    answer = peer.reply(request, [start(0), start(99)])

    assert_refused(answer, "decision.refused", fatal=True)
