"""What a session does about a dispatcher that errs, is late, is gone, or comes back."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest

from parley_client import Dispatcher
from parley_conformance import ScriptedDispatcher
from parley_protocol.codec import read_server_message
from parley_server.engine import ListSource, NodeGroup
from parley_server.errors import RunFailed
from parley_server.host.conduct import Conduct, Latency
from parley_server.host.inprocess import run_in_process
from parley_server.host.session import Offer, Session
from tests.hosting import HASTE_US, JOBS, JsonDispatcher, hosting, is_silent
from tests.offering import codes_of, events_of, outcomes_of, second_of, state_of
from tests.scheduling import RULES, Kept
from tests.serving import SNAPSHOT, assert_refused, decide, go_on
from tests.support import jobs_of

HASTE = HASTE_US / 1e6
TWO_TICKS = 0.25
"""After a deadline the server looks twice before it acts."""

WAITING = Conduct(on_disconnect="wait")
NEVER = {"kind": "start", "job": 99}


def start(job):
    return {"kind": "start", "job": job}


def first_jobs(peer, **hello):
    """Open a session; return the request that tells of the first job."""
    return peer.reply(peer.open(**hello))


def ticket_of(welcome):
    return {"session": welcome["session"], "token": welcome["body"]["token"]}


def miss_the_deadline():
    time.sleep(HASTE + TWO_TICKS)


@pytest.fixture(scope="module")
def standing():
    """A server for all tests that leave it as it was: to end one takes its time."""
    with hosting() as live:
        yield live


@pytest.fixture(scope="module")
def waiting():
    """The same, where sessions can be resumed."""
    with hosting(WAITING) as live:
        yield live


@pytest.fixture
def connected():
    """Make peers that are closed in the end."""
    peers = []

    def connect(live, kind=ScriptedDispatcher):
        peers.append(kind(live.endpoint))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.close()


# ---------------------------------------------------------------------- refused decisions


def test_a_refused_decision_is_reported_and_time_goes_on(connected):
    with hosting(Conduct(on_reject="report")) as live:
        peer = connected(live)
        request = peer.reply(first_jobs(peer), [NEVER, start(0)])

    assert codes_of(request) == ["job.unknown", "applied"]
    assert (second_of(request), request["body"]["attempt"]) == (5, 1)


def test_a_refused_decision_is_asked_about_again_at_once_without_news(connected):
    with hosting(Conduct(on_reject="reask")) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        again = peer.reply(asked, [NEVER])
        onward = peer.reply(again, [start(0)])

    assert again["body"]["now_us"] == asked["body"]["now_us"]
    assert (asked["body"]["attempt"], again["body"]["attempt"]) == (1, 2)
    assert again["body"]["events"] == []
    assert codes_of(again) == ["job.unknown"]
    assert codes_of(onward) == ["applied"]
    assert (second_of(onward), onward["body"]["attempt"]) == (5, 1)


def test_what_was_applied_beside_a_refused_decision_stays_applied(connected):
    with hosting(Conduct(on_reject="reask")) as live:
        peer = connected(live)
        again = peer.reply(first_jobs(peer), [start(0), NEVER])
        running = state_of(peer)["running"]
        onward = peer.reply(again, [])

    assert codes_of(again) == ["applied", "job.unknown"]
    assert [entry["job"]["job"] for entry in running] == [0]
    assert second_of(onward) == 5


def test_nothing_of_an_atomic_reply_is_applied_before_it_is_asked_about_again(connected):
    with hosting(Conduct(on_reject="reask")) as live:
        peer = connected(live)
        asked = first_jobs(peer, capabilities={"decisions": "atomic"})
        again = peer.reply(asked, [start(0), NEVER])
        running = state_of(peer)["running"]
        onward = peer.reply(again, [start(0)])

    assert codes_of(again) == ["decision.rolled_back", "job.unknown"]
    assert running == []
    assert codes_of(onward) == ["applied"]


@pytest.mark.parametrize("reasks", [0, 1, 3])
def test_an_instant_is_asked_about_again_so_often_and_no_more(connected, reasks):
    with hosting(Conduct(on_reject="reask", reasks=reasks)) as live:
        peer = connected(live)
        request = first_jobs(peer)
        attempts = []
        while second_of(request) == 0:
            attempts.append(request["body"]["attempt"])
            request = peer.reply(request, [NEVER])

    assert attempts == list(range(1, reasks + 2))
    assert codes_of(request) == ["job.unknown"]
    assert request["body"]["attempt"] == 1


def test_every_instant_has_its_own_reasks(connected):
    with hosting(Conduct(on_reject="reask", reasks=2)) as live:
        peer = connected(live)
        request = first_jobs(peer)
        attempts = []
        for _ in range(9):
            attempts.append((second_of(request), request["body"]["attempt"]))
            request = peer.reply(request, [NEVER])

    assert attempts == [(second, attempt) for second in (0, 5, 6) for attempt in (1, 2, 3)]


def test_a_run_that_is_asked_again_and_again_is_the_same_in_the_end(connected):
    with hosting(Conduct(on_reject="reask", reasks=1)) as live:
        calm, erring = connected(live), connected(live)
        go_on(calm, calm.open(**SNAPSHOT))
        request = erring.open(**SNAPSHOT)
        while request["type"] == "decision.request":
            wrong = [NEVER] if request["body"]["attempt"] == 1 else []
            request = erring.reply(request, [*wrong, *decide(request)])
        kept = [live.records(number) for number in (0, 1)]

    assert request["body"]["reason"] == "completed"
    assert kept[0] == kept[1]


def test_a_refused_decision_fails_the_run_and_no_other(connected):
    with hosting(Conduct(on_reject="fail")) as live:
        peer, other = connected(live), connected(live)
        request = other.open(**SNAPSHOT)
        answer = peer.reply(first_jobs(peer), [start(0), {"id": 7, **NEVER}])

        assert_refused(answer, "decision.refused", fatal=True)
        assert "decision 7 at 0 s" in answer["body"]["message"]
        assert "job.unknown" in answer["body"]["message"]
        assert live.reason(1) == "decision_refused"
        assert go_on(other, request)[-1]["body"]["reason"] == "completed"


def offer_of(conduct):
    return Offer(
        name="live",
        digest="0",
        rules=RULES,
        groups=[NodeGroup("n", 4, {"core": 1})],
        open_source=lambda: ListSource(jobs_of(JOBS)),
        conduct=conduct,
        audit=True,
    )


class Erring:
    """Adds a decision that is refused to every first attempt, and counts the attempts."""

    def __init__(self):
        self.attempts = []

    def hello(self):
        return {"versions": ["1.0"], "client": {"name": "erring", "version": "0"}, **SNAPSHOT}

    def begin(self, welcome):
        pass

    def decide(self, request):
        self.attempts.append(request["attempt"])
        wrong = [{"id": 999, **NEVER}] if request["attempt"] == 1 else []
        right = [{"id": number, **what} for number, what in enumerate(decide({"body": request}))]
        return {"decisions": [*wrong, *right], "state_version": request["state_version"]}


@pytest.mark.parametrize(
    ("conduct", "attempts"),
    [(Conduct(on_reject="report"), {1}), (Conduct(on_reject="reask"), {1, 2})],
    ids=["report", "reask"],
)
def test_refused_decisions_are_taken_in_process_as_over_the_wire(conduct, attempts):
    decider = Erring()
    session = Session(offer_of(conduct), Kept())
    run_in_process(session, decider, Kept())

    session.require_completed()
    assert set(decider.attempts) == attempts
    assert session.simulation.counts.completed == len(JOBS)


def test_a_refused_decision_fails_a_run_in_process():
    session = Session(offer_of(Conduct(on_reject="fail")), Kept())

    with pytest.raises(RunFailed, match=r"decision 999 .*job\.unknown") as caught:
        run_in_process(session, Erring(), Kept())
    assert caught.value.reason == "decision_refused"


# ---------------------------------------------------------------------- late replies


def test_a_late_reply_fails_the_run(connected):
    with hosting(Conduct(deadline_us=HASTE_US)) as live:
        peer = connected(live)
        first_jobs(peer)
        answer = peer.receive()

        assert_refused(answer, "deadline.missed", fatal=True)
        assert "sent no reply within 0.15 s" in answer["body"]["message"]
        assert live.reason() == "deadline_missed"


def test_a_reply_that_is_taken_for_empty_is_told_so_when_it_comes(connected):
    # The second job comes so late that nothing happens meanwhile; time has gone on to it.
    conduct = Conduct(on_timeout="empty", deadline_us=HASTE_US)
    with hosting(conduct, [(0, 1, 10), (500, 1, 10), (9000, 1, 10)]) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        miss_the_deadline()
        silent = is_silent(peer, 0)
        late = peer.reply(asked, [{"id": 4, **start(0)}, {"id": 2, "kind": "stop"}])
        onward = peer.reply(late, [start(0)])

    assert silent
    assert second_of(late) >= 500
    assert events_of(late)[0] == (500, "job.submitted")
    assert outcomes_of(late) == [(4, "decision.late"), (2, "decision.late")]
    assert codes_of(onward) == ["applied"]


def test_nothing_is_lost_of_requests_that_were_missed_in_a_row(connected):
    conduct = Conduct(on_timeout="empty", deadline_us=HASTE_US)
    jobs = [(50 * number, 1, 10) for number in range(40)]
    with hosting(conduct, jobs) as live:
        peer = connected(live)
        first = peer.open()
        miss_the_deadline()
        miss_the_deadline()
        late = peer.reply(first)

    told = [event["job"]["job"] for event in late["body"]["events"] if "job" in event]
    assert len(told) > 1
    assert told == list(range(len(told)))


def test_a_late_reply_is_taken_once(connected):
    many = [(10 * number, 1, 5, 10) for number in range(60)]
    with hosting(Conduct(on_timeout="empty", deadline_us=HASTE_US), many) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        miss_the_deadline()
        late = peer.reply(asked, [start(0)])
        again = peer.reply(asked, [start(0)])
        onward = peer.reply(late, [start(0)])

    assert codes_of(late) == ["decision.late"]
    assert_refused(again, "sequence.stale")
    assert codes_of(onward) == ["applied"]


def test_a_late_reply_to_a_run_that_is_over_gets_the_end_of_the_session(connected):
    with hosting(Conduct(on_timeout="empty", deadline_us=HASTE_US), [(0, 1, 10)]) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        reason = live.reason()
        end = peer.reply(asked, [start(0)])
        after = peer.say("ping", {})

    assert reason == "stalled"
    assert (end["type"], end["body"]["reason"]) == ("session.end", "stalled")
    assert_refused(after, "session.over", fatal=True)


def test_whoever_never_speaks_again_ends_a_run_by_its_deadlines_alone(connected):
    conduct = Conduct(on_timeout="empty", deadline_us=HASTE_US)
    with hosting(conduct, [(0, 1, 10), (9, 1, 10)]) as live:
        peer = connected(live)
        peer.open()
        reason = live.reason()

    assert reason == "stalled"


def test_a_late_reply_to_an_instant_asked_again_is_told_so(connected):
    conduct = Conduct(on_timeout="empty", on_reject="reask", deadline_us=HASTE_US)
    many = [(10 * number, 1, 5, 10) for number in range(60)]
    with hosting(conduct, many) as live:
        peer = connected(live)
        again = peer.reply(first_jobs(peer), [NEVER])
        miss_the_deadline()
        late = peer.reply(again, [start(0)])

    assert again["body"]["attempt"] == 2
    assert codes_of(late) == ["decision.late"]
    assert second_of(late) > 0


def test_a_late_dispatcher_may_ask_for_the_state_and_leave(connected):
    many = [(10 * number, 1, 5, 10) for number in range(60)]
    with hosting(Conduct(on_timeout="empty", deadline_us=HASTE_US), many) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        miss_the_deadline()
        snapshot = peer.say("state.request", {}, re=asked["seq"])
        end = peer.say("bye", {})

        assert snapshot["body"]["now_us"] > asked["body"]["now_us"]
        assert (end["type"], end["body"]["reason"]) == ("session.end", "bye")
        assert live.reason() == "dispatcher_left"


def test_a_late_dispatcher_that_vanishes_can_be_replaced(connected):
    conduct = Conduct(on_timeout="empty", on_disconnect="wait", deadline_us=HASTE_US)
    many = [(10 * number, 1, 5, 10) for number in range(60)]
    with hosting(conduct, many) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello()
        peer.reply(peer.ready())
        miss_the_deadline()
        peer.close()
        heir.hello(resume=ticket_of(welcome))
        again = heir.ready()
        onward = heir.reply(again, [start(0)])

    assert again["type"] == "decision.request"
    assert codes_of(onward) == ["applied"]


def test_a_late_dispatcher_is_given_up_and_may_come_back_itself(connected):
    conduct = Conduct(on_timeout="detach", on_disconnect="wait", deadline_us=HASTE_US)
    with hosting(conduct) as live:
        peer = connected(live)
        welcome = peer.hello()
        asked = peer.reply(peer.ready())
        miss_the_deadline()
        late = peer.reply(asked, [start(0)])
        back = peer.hello(resume=ticket_of(welcome), **SNAPSHOT)
        again = peer.ready()
        end = go_on(peer, again)[-1]

        assert_refused(late, "epoch.stale", fatal=True)
        assert (back["epoch"], back["body"]["resumed"]) == (2, True)
        assert again["body"]["state"]["running"] == []
        assert again["body"]["now_us"] == asked["body"]["now_us"]
        assert end["body"]["reason"] == "completed"


def test_a_dispatcher_that_was_given_up_for_good_fails_the_run(connected):
    conduct = Conduct(on_timeout="detach", deadline_us=HASTE_US, reconnect_us=100_000)
    with hosting(conduct) as live:
        peer = connected(live)
        welcome = peer.hello()
        peer.ready()
        reason = live.reason()
        answer = connected(live).hello(resume=ticket_of(welcome))

    assert reason == "dispatcher_lost"
    assert_refused(answer, "session.over", fatal=True)


@pytest.mark.parametrize("dialogue", [["progress"], ["progress", "ping", "state.request"]])
def test_progress_lets_the_clock_begin_anew(connected, dialogue):
    with hosting(Conduct(deadline_us=400_000)) as live:
        peer = connected(live)
        asked = first_jobs(peer)
        began = time.monotonic()
        while time.monotonic() - began < 1.0:
            time.sleep(0.1)
            answers = [peer.say(kind, {}, re=asked["seq"]) for kind in dialogue]
            assert answers[0]["body"] == {"deadline_ms": 400}
        onward = peer.reply(asked, [start(0)])

    assert codes_of(onward) == ["applied"]


@pytest.mark.parametrize("kind", ["ping", "state.request"])
def test_nothing_but_progress_lets_the_clock_begin_anew(connected, kind):
    with hosting(Conduct(deadline_us=HASTE_US)) as live:
        peer = connected(live)
        first_jobs(peer)
        began = time.monotonic()
        answer = peer.say(kind, {})
        while answer["type"] != "error" and time.monotonic() - began < 5:
            time.sleep(0.03)
            answer = peer.say(kind, {})

        assert answer["body"]["code"] == "deadline.missed"
        assert live.reason() == "deadline_missed"


# ---------------------------------------------------------------------- gone, and back


def test_a_dispatcher_that_is_gone_fails_the_run_where_nobody_is_waited_for(connected):
    with hosting(Conduct(on_disconnect="fail")) as live:
        peer = connected(live)
        peer.open()
        peer.close()

        assert live.reason() == "dispatcher_lost"


def test_simulated_time_stands_still_while_a_dispatcher_is_waited_for(connected):
    with hosting(WAITING) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello()
        asked = peer.reply(peer.ready(), [start(0)])
        peer.close()
        time.sleep(0.5)
        ended = live.runs[0].ended
        heir.hello(resume=ticket_of(welcome))
        again = heir.ready()

    assert not ended
    assert again["body"]["now_us"] == asked["body"]["now_us"]
    assert again["body"]["state_version"] == asked["body"]["state_version"]


def test_the_wait_for_a_dispatcher_begins_anew_with_each_that_comes(connected):
    with hosting(Conduct(on_disconnect="wait", reconnect_us=600_000)) as live:
        peer = connected(live)
        welcome = peer.hello()
        peer.ready()
        for _ in range(3):
            peer.close()
            time.sleep(0.45)
            peer = connected(live)
            resumed = peer.hello(resume=ticket_of(welcome), **SNAPSHOT)
            request = peer.ready()
        end = go_on(peer, request)[-1]

    assert resumed["epoch"] == 4
    assert end["body"]["reason"] == "completed"


def test_a_request_is_delivered_again_as_it_was_with_the_full_state(connected):
    with hosting(WAITING) as live:
        peer = connected(live)
        welcome = peer.hello()
        request = peer.reply(peer.ready())
        asked = peer.reply(request, [{"id": 3, **start(0)}, {"id": 9, **NEVER}])
        deliveries = []
        for _ in range(3):
            heir = connected(live)
            heir.hello(resume=ticket_of(welcome))
            deliveries.append(heir.ready())

    for attempt, again in enumerate(deliveries, 2):
        read_server_message(again)
        for key in ("now_us", "events", "outcomes", "state_version"):
            assert again["body"][key] == asked["body"][key]
        assert again["body"]["attempt"] == attempt
        assert [entry["job"]["job"] for entry in again["body"]["state"]["running"]] == [0]
    assert outcomes_of(asked) == [(3, "applied"), (9, "job.unknown")]


def test_an_instant_that_is_asked_again_after_a_resume_counts_its_attempts_on(connected):
    with hosting(Conduct(on_disconnect="wait", on_reject="reask")) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello()
        peer.reply(peer.reply(peer.ready()), [NEVER])
        heir.hello(resume=ticket_of(welcome))
        third = heir.ready()
        fourth = heir.reply(third, [NEVER])
        onward = heir.reply(fourth, [start(0)])

    assert [request["body"]["attempt"] for request in (third, fourth, onward)] == [3, 4, 1]
    assert codes_of(onward) == ["applied"]


def test_a_session_is_resumed_with_one_token_as_often_as_it_takes(connected):
    with hosting(WAITING) as live:
        first = connected(live)
        welcomes = [first.hello()]
        first.ready()
        for _ in range(4):
            heir = connected(live)
            welcomes.append(heir.hello(resume=ticket_of(welcomes[0])))

    assert [welcome["epoch"] for welcome in welcomes] == [1, 2, 3, 4, 5]
    assert len({welcome["session"] for welcome in welcomes}) == 1
    assert len({welcome["body"]["token"] for welcome in welcomes}) == 1
    assert [welcome["body"]["resumed"] for welcome in welcomes] == [False, *[True] * 4]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        pytest.param({"token": ""}, "session.token", id="no-token"),
        pytest.param({"token": "0" * 32}, "session.token", id="another-token"),
        pytest.param({"token": "tökén\0"}, "session.token", id="not-ascii"),
        pytest.param({"session": "999999"}, "session.token", id="session-to-come"),
        pytest.param({"session": "0"}, "session.token", id="session-0"),
        pytest.param({"session": "0{}"}, "session.token", id="other-spelling"),
        pytest.param({"session": "¹"}, "session.token", id="digit-of-another-kind"),
        pytest.param({"session": "9" * 5000}, "session.token", id="long-number"),
        pytest.param({"session": ""}, "session.token", id="no-name"),
    ],
)
def test_nobody_else_takes_up_a_session(waiting, connected, wrong, code):
    peer, thief = connected(waiting), connected(waiting)
    welcome = peer.hello(**SNAPSHOT)
    request = peer.ready()
    named = {key: value.format(welcome["session"]) for key, value in wrong.items()}
    answer = thief.hello(resume={**ticket_of(welcome), **named})
    end = go_on(peer, request)[-1]

    assert_refused(answer, code, fatal=True)
    assert end["body"]["reason"] == "completed"


def test_a_session_without_a_token_yet_is_not_to_be_had_with_none(connected):
    # Nobody may take up what was refused: its token would be the empty string.
    with hosting(WAITING) as live:
        peer = connected(live)
        refused = peer.hello(versions=["9.9"])
        answer = peer.hello(resume={"session": "1", "token": ""})

    assert_refused(refused, "version.unsupported", fatal=True)
    assert_refused(answer, "session.token", fatal=True)


@pytest.mark.parametrize("how", ["completed", "bye"])
def test_a_session_that_is_over_is_not_taken_up(connected, how):
    with hosting(WAITING) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello(**SNAPSHOT)
        request = peer.ready()
        if how == "bye":
            peer.say("bye", {})
        else:
            go_on(peer, request)
        answer = heir.hello(resume=ticket_of(welcome))

    assert_refused(answer, "session.over", fatal=True)


def test_a_resume_in_a_version_that_is_not_spoken_changes_nothing(connected):
    with hosting(WAITING) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello(**SNAPSHOT)
        request = peer.ready()
        answer = heir.hello(resume=ticket_of(welcome), versions=["9.9"])
        end = go_on(peer, request)[-1]

    assert_refused(answer, "version.unsupported", fatal=True)
    assert end["body"]["reason"] == "completed"


def test_a_resume_from_within_a_session_is_refused_and_the_session_survives(connected):
    with hosting(WAITING) as live:
        peer, other = connected(live), connected(live)
        welcome = peer.hello(**SNAPSHOT)
        request = peer.ready()
        other.open()
        own = peer.hello(resume=ticket_of(welcome))
        foreign = other.hello(resume=ticket_of(welcome))
        end = go_on(peer, request)[-1]

    assert_refused(own, "message.unexpected")
    assert_refused(foreign, "message.unexpected")
    assert end["body"]["reason"] == "completed"


def test_a_reply_whose_answer_was_never_read_is_applied_exactly_once(connected):
    with hosting(WAITING) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello()
        asked = peer.reply(peer.ready())
        body = {"decisions": [{"id": 8, **start(0)}], "state_version": 1}
        reply = {"v": 1, "type": "decision.reply", **peer.session, "re": asked["seq"], "body": body}
        peer.send(reply)
        assert peer._socket.poll(5000)
        peer.close()
        resumed = heir.hello(resume=ticket_of(welcome))
        again = heir.ready()
        repeated = heir.say("decision.reply", body, re=asked["seq"])
        stale = heir.say("decision.reply", body)
        onward = heir.reply(again, [start(0)])

    assert resumed["body"]["resumed"] is True
    assert outcomes_of(again) == [(8, "applied")]
    assert [entry["job"]["job"] for entry in again["body"]["state"]["running"]] == [0]
    assert_refused(repeated, "sequence.stale")
    assert_refused(stale, "sequence.stale")
    assert codes_of(onward) == ["job.not_pending"]


def test_a_run_whose_every_answer_is_lost_is_the_same_in_the_end(connected):
    with hosting(WAITING) as live:
        calm = connected(live)
        go_on(calm, calm.open(**SNAPSHOT))
        peer = connected(live)
        welcome = peer.hello(**SNAPSHOT)
        request = peer.ready()
        lost = 0
        while not live.runs[1].ended:
            decisions = [{"id": n, **what} for n, what in enumerate(decide(request))]
            body = {"decisions": decisions, "state_version": request["body"]["state_version"]}
            message = {"v": 1, "type": "decision.reply", **peer.session, "body": body}
            peer.send({**message, "re": request["seq"]})
            assert peer._socket.poll(5000)
            peer.close()
            lost += 1
            peer = connected(live)
            answer = peer.hello(resume=ticket_of(welcome), **SNAPSHOT)
            if answer["type"] == "error":
                break
            request = peer.ready()
        kept = [live.records(number) for number in (0, 1)]

    assert_refused(answer, "session.over", fatal=True)
    assert lost >= 5
    assert kept[0] == kept[1]


# ---------------------------------------------------------------------- fences


def test_whoever_was_replaced_is_fenced_whatever_it_says(connected):
    with hosting(WAITING) as live:
        old, heir = connected(live), connected(live)
        welcome = old.hello(**SNAPSHOT)
        asked = old.ready()
        heir.hello(resume=ticket_of(welcome), **SNAPSHOT)
        request = heir.ready()
        answers = [
            old.reply(asked, [{"kind": "stop"}]),
            old.say("bye", {}),
            old.say("ping", {}),
            old.say("progress", {}),
            old.say("state.request", {}),
            old.say("ready", {}),
        ]
        end = go_on(heir, request)[-1]

    for answer in answers:
        assert_refused(answer, "epoch.stale", fatal=True)
    assert end["body"]["reason"] == "completed"


def test_whoever_guesses_the_epoch_of_its_successor_is_not_heard_either(connected):
    with hosting(WAITING) as live:
        old, heir = connected(live), connected(live)
        welcome = old.hello(**SNAPSHOT)
        asked = old.ready()
        heir.hello(resume=ticket_of(welcome), **SNAPSHOT)
        request = heir.ready()
        old.session = dict(heir.session)
        answers = [old.reply(asked, [{"kind": "stop"}]), old.say("bye", {}, re=request["seq"])]
        end = go_on(heir, request)[-1]

    for answer in answers:
        assert_refused(answer, "session.unknown")
    assert end["body"]["reason"] == "completed"


def test_whoever_was_replaced_may_begin_a_session_of_its_own(connected):
    with hosting(WAITING) as live:
        old, heir = connected(live), connected(live)
        welcome = old.hello()
        old.ready()
        heir.hello(resume=ticket_of(welcome))
        fresh = old.hello(**SNAPSHOT)
        end = go_on(old, old.ready())[-1]

    assert (fresh["session"], fresh["epoch"]) == ("2", 1)
    assert end["body"]["reason"] == "completed"


@pytest.mark.parametrize("kind", ["decision.reply", "ping", "state.request", "progress", "bye"])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"epoch": 1}, "epoch.stale", id="epoch-before"),
        pytest.param({"epoch": 3}, "epoch.future", id="epoch-after"),
        pytest.param({"epoch": 2**53 - 1}, "epoch.future", id="epoch-far-after"),
        pytest.param({"re": 0}, "sequence.stale", id="re-before"),
        pytest.param({"re": 1}, "sequence.stale", id="re-of-the-epoch-before"),
        pytest.param({"re": 99}, "sequence.future", id="re-after"),
        pytest.param({"re": 2**53 - 1}, "sequence.future", id="re-far-after"),
    ],
)
def test_what_belongs_to_another_epoch_or_message_changes_nothing(
    waiting, connected, kind, change, code
):
    peer, heir = connected(waiting), connected(waiting)
    welcome = peer.hello()
    peer.reply(peer.ready())
    heir.hello(resume=ticket_of(welcome), **SNAPSHOT)
    request = heir.ready()
    version = request["body"]["state_version"]
    stop = {"decisions": [{"id": 0, "kind": "stop"}], "state_version": version}
    body = stop if kind == "decision.reply" else {}
    answer = heir.say(kind, body, **{"re": request["seq"], **change})
    end = go_on(heir, request)[-1]

    assert_refused(answer, code)
    assert end["body"]["reason"] == "completed"


# ---------------------------------------------------------------------- the state


def test_the_state_that_is_asked_for_is_that_of_the_outstanding_request(connected):
    with hosting() as live:
        peer = connected(live)
        request = peer.open(**SNAPSHOT)
        while request["type"] == "decision.request":
            snapshot = peer.say("state.request", {})
            assert snapshot["type"] == "state.snapshot"
            for key in ("now_us", "state_version", "state"):
                assert snapshot["body"][key] == request["body"][key]
            request = peer.reply(request, decide(request))

    assert request["body"]["reason"] == "completed"


def test_the_state_is_not_to_be_had_before_ready(connected):
    with hosting() as live:
        peer = connected(live)
        peer.hello()
        answer = peer.say("state.request", {})

    assert_refused(answer, "message.unexpected")


def test_a_digest_of_the_state_comes_with_every_request_where_it_is_wanted(connected):
    with hosting(Conduct(state_digest=True, on_disconnect="wait")) as live:
        peer, heir = connected(live), connected(live)
        welcome = peer.hello()
        requests = [peer.ready()]
        requests.append(peer.reply(requests[-1]))
        requests.append(peer.reply(requests[-1], [start(0)]))
        heir.hello(resume=ticket_of(welcome))
        again = heir.ready()
    with hosting() as live:
        plain = first_jobs(connected(live))

    digests = [request["body"]["state_digest"] for request in requests]
    assert len(set(digests)) == 3
    assert again["body"]["state_digest"] == digests[-1]
    assert "state_digest" not in plain["body"]


def test_a_mirror_agrees_with_every_digest():
    conduct = Conduct(state_digest=True, latency=Latency("fixed", fixed_us=1_500_000))
    session = Session(offer_of(conduct), Kept())
    run_in_process(session, Dispatcher("easy"), Kept())

    session.require_completed()


# ---------------------------------------------------------------------- limits


def test_no_more_sessions_than_are_allowed_are_open_at_once(connected):
    with hosting(at_once=2) as live:
        peers = [connected(live) for _ in range(3)]
        welcomes = [peers[0].hello(**SNAPSHOT), peers[1].hello(**SNAPSHOT)]
        refused = peers[2].hello(**SNAPSHOT)
        end = go_on(peers[0], peers[0].ready())[-1]
        taken = peers[2].hello(**SNAPSHOT)

    assert [welcome["body"]["limits"]["sessions"] for welcome in welcomes] == [2, 2]
    assert_refused(refused, "limit.sessions", fatal=True)
    assert end["body"]["reason"] == "completed"
    assert taken["type"] == "welcome"


def test_a_session_that_waits_for_its_dispatcher_takes_a_place_and_is_resumed_into_it(connected):
    with hosting(WAITING, at_once=1) as live:
        peer, stranger, heir = (connected(live) for _ in range(3))
        welcome = peer.hello()
        peer.ready()
        peer.close()
        time.sleep(0.4)
        refused = stranger.hello()
        resumed = heir.hello(resume=ticket_of(welcome), **SNAPSHOT)
        end = go_on(heir, heir.ready())[-1]

    assert_refused(refused, "limit.sessions", fatal=True)
    assert (resumed["session"], resumed["epoch"]) == ("1", 2)
    assert end["body"]["reason"] == "completed"


def test_refused_hellos_take_no_place(connected):
    with hosting(at_once=1) as live:
        peer = connected(live)
        for _ in range(5):
            assert_refused(peer.hello(versions=["9.9"]), "version.unsupported", fatal=True)
        welcome = peer.hello()

    assert welcome["type"] == "welcome"


# ---------------------------------------------------------------------- JSON


def test_a_run_in_json_is_the_same_as_in_messagepack(connected):
    with hosting() as live:
        heard = []
        for kind in (ScriptedDispatcher, JsonDispatcher):
            peer = connected(live, kind)
            heard.append(go_on(peer, peer.open(**SNAPSHOT)))
        kept = [live.records(number) for number in (0, 1)]

    assert kept[0] == kept[1]
    assert len(kept[0]) == len(JOBS)
    without_session = [[{**message, "session": ""} for message in messages] for messages in heard]
    assert without_session[0] == without_session[1]


def test_all_that_can_be_said_can_be_said_in_json(connected):
    with hosting(WAITING) as live:
        peer, heir = connected(live, JsonDispatcher), connected(live, JsonDispatcher)
        welcome = peer.hello()
        pong = peer.say("ping", {})
        request = peer.say("ready", {}, re=1)
        answers = [peer.say("state.request", {}), peer.say("progress", {"note": '\u263a "\\'})]
        resumed = heir.hello(resume=ticket_of(welcome))
        again = heir.ready()
        end = heir.say("bye", {"reason": "naïve"})

    types = [message["type"] for message in (pong, request, *answers, resumed, again, end)]
    assert types == [
        *("pong", "decision.request", "state.snapshot", "progress.ack"),
        *("welcome", "decision.request", "session.end"),
    ]


PING = partial(json.dumps, {"v": 1, "type": "ping", "session": "1", "epoch": 1, "re": 2})

HOSTILE_JSON = [
    (b"{", "encoding.truncated"),
    (b'{"v":1,"type":"pi', "encoding.truncated"),
    (b'{"v":1}}', "encoding.trailing"),
    (b'{"v":1} x', "encoding.trailing"),
    (b'{"v":1}\n{"v":1}', "encoding.trailing"),
    (b"{'v':1}", "encoding.malformed"),
    (b'{"v":1,}', "encoding.malformed"),
    (b'{"v":01}', "encoding.malformed"),
    (b"{v:1}", "encoding.malformed"),
    (b'{"v" 1}', "encoding.malformed"),
    (b'{/**/"v":1}', "encoding.malformed"),
    (b'{"v":"\n"}', "encoding.malformed"),
    (b'{"v":"\\x"}', "encoding.malformed"),
    (b'{"v":1,"v":2}', "encoding.duplicate_key"),
    (b'{"x":{"y":1,"\\u0079":2}}', "encoding.duplicate_key"),
    (b'{"v":NaN}', "encoding.type"),
    (b'{"v":-Infinity}', "encoding.type"),
    (b'{"v":1e999}', "encoding.type"),
    (b'{"v":9007199254740992}', "encoding.type"),
    (b'{"v":' + b"9" * 5000 + b"}", "encoding.type"),
    (b'{"v":"\xff"}', "encoding.type"),
    (b'{"v":"\\ud800"}', "encoding.type"),
    (b'{"\\udfff":1}', "encoding.type"),
    (b'{"v":' + b"[" * 33 + b"]" * 33 + b"}", "limit.depth"),
    (b'{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "limit.depth"),
    (b'{"v":' * 50_000 + b"1" + b"}" * 50_000, "limit.depth"),
    (b'{"v":"' + b"x" * (2**18 + 1) + b'"}', "limit.length"),
    (b'{"v":[' + b"0," * 1_000_000 + b"0]}", "limit.length"),
    (b'{"v":1}', "message.invalid"),
    (b"{}", "message.invalid"),
    (b'{"v":1,"type":"dance"}', "message.unknown"),
    (b" {}", "encoding.dialect"),
    (b"\xef\xbb\xbf{}", "encoding.dialect"),
    (b"[]", "encoding.dialect"),
    (b"null", "encoding.dialect"),
    (b"", "encoding.dialect"),
    (b"\x81\xa1v\x01", "encoding.dialect"),
]


@pytest.mark.parametrize(
    ("frame", "code"),
    [pytest.param(*case, id=f"{number}-{case[1]}") for number, case in enumerate(HOSTILE_JSON)],
)
def test_json_that_is_no_message_is_refused_and_the_session_survives(
    standing, connected, frame, code
):
    peer = connected(standing, JsonDispatcher)
    request = peer.open(**SNAPSHOT)
    peer.send_bytes(frame)
    answer = peer.receive()

    assert_refused(answer, code)
    assert go_on(peer, request)[-1]["body"]["reason"] == "completed"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        pytest.param(frame, code, id=f"{number}-{code}")
        for number, (frame, code) in enumerate(HOSTILE_JSON)
        if frame.startswith(b"{")
    ],
)
def test_a_stranger_is_told_in_json_what_is_wrong_with_its_json(standing, connected, frame, code):
    peer = connected(standing, JsonDispatcher)
    peer.send_bytes(frame)
    answer = peer.receive()

    assert_refused(answer, code)
    assert go_on(peer, peer.open(**SNAPSHOT))[-1]["body"]["reason"] == "completed"


@pytest.mark.parametrize(
    ("first", "other"),
    [(ScriptedDispatcher, JsonDispatcher), (JsonDispatcher, ScriptedDispatcher)],
    ids=["to-json", "to-messagepack"],
)
def test_a_session_keeps_to_its_dialect(standing, connected, first, other):
    peer = connected(standing, first)
    request = peer.open(**SNAPSHOT)
    body = {"decisions": [], "state_version": request["body"]["state_version"]}
    message = {"v": 1, "type": "decision.reply", **peer.session, "re": 2, "body": body}
    other.send(peer, message)
    answer = peer.receive()

    assert_refused(answer, "encoding.dialect")
    assert go_on(peer, request)[-1]["body"]["reason"] == "completed"


def test_three_messages_in_the_other_dialect_end_the_session(connected):
    with hosting() as live:
        peer = connected(live)
        peer.open()
        answers = []
        for _ in range(3):
            peer.send_bytes(PING().encode())
            answers.append(peer.receive())

        assert_refused(answers[0], "encoding.dialect")
        assert_refused(answers[2], "message.undecodable", fatal=True)
        assert live.reason() == "protocol_error"
