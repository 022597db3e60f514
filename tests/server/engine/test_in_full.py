"""Requeues, holds, node changes, submissions, latency and atomic answers, one by one."""

from __future__ import annotations

import pytest

from parley_server.engine import (
    FIRST_SUBMITTED,
    PAUSED,
    CancelWake,
    ChunkGroup,
    EndReason,
    Hold,
    Job,
    JobEnded,
    JobState,
    JobSubmitted,
    Kill,
    ListSource,
    NodeGroup,
    NodesDown,
    NodesUp,
    OnNodeDown,
    Reject,
    Release,
    Requeue,
    Shape,
    Simulation,
    Start,
    Stop,
    Submit,
    TimerFired,
    Wake,
    WorkloadExhausted,
)

WHOLE = Shape.of({"core": 1}, exclusive=True)
MACHINE = (NodeGroup("nodes", 4, {"core": 1}),)


def job(number, submit=0, runtime=10, chunks=1, walltime=None):
    return Job(number, f"j{number}", submit, runtime, walltime, (ChunkGroup(chunks, WHOLE),))


def simulation(*jobs, **options):
    return Simulation(MACHINE, ListSource(jobs), **options)


def ask(simulation):
    """Return the next decision point, through every pause."""
    while (point := simulation.advance()) is PAUSED:
        pass
    return point


def asked_at(simulation, now):
    """Answer with nothing up to the point at an instant, and return that."""
    while (point := ask(simulation)).now < now or point.opening:
        simulation.apply([])
    assert point.now == now
    return point


def codes(outcomes):
    return [outcome.code for outcome in outcomes]


def answered(simulation, *decisions, **options):
    return codes(simulation.apply(decisions, **options))


# ---------------------------------------------------------------------- requeue


def test_a_requeued_job_leaves_its_nodes_now_and_waits_in_its_old_place():
    run = simulation(job(0), job(1, chunks=4), job(2))
    asked_at(run, 0)
    assert answered(run, Start(0, 0), Requeue(1, 0)) == [None, None]
    point = ask(run)

    assert point.now == 0
    assert point.events == [JobEnded(0, 0, JobState.REQUEUED)]
    assert [waiting.number for waiting in run.queue()] == [0, 1, 2]
    assert run.cluster.free == [4]


def test_each_attempt_leaves_a_record_and_runs_from_the_beginning():
    run = simulation(job(0, runtime=10), job(1, submit=4))
    asked_at(run, 0)
    answered(run, Start(0, 0))
    asked_at(run, 4)
    answered(run, Requeue(0, 0))
    ask(run)
    answered(run, Start(0, 0), Reject(1, 1))
    assert ask(run).now == 14
    answered(run)
    assert ask(run) is None

    told = [(r.state, r.start, r.end, r.attempt, r.last) for r in run.take_records()]
    assert told == [
        (JobState.REQUEUED, 0, 4, 1, False),
        (JobState.REJECTED, None, 4, 1, True),
        (JobState.COMPLETED, 4, 14, 2, True),
    ]
    assert (run.counts.requeues, run.counts.completed) == (1, 1)


@pytest.mark.parametrize("decision", [Kill, Requeue])
def test_a_job_that_is_leaving_cannot_be_ended_again(decision):
    run = simulation(job(0))
    asked_at(run, 0)

    assert answered(run, Start(0, 0), Requeue(1, 0), decision(2, 0)) == [
        None,
        None,
        "job.not_running",
    ]


def test_the_end_of_an_attempt_that_was_given_up_never_comes():
    run = simulation(job(0, runtime=5), job(1, submit=3, runtime=50))
    asked_at(run, 0)
    answered(run, Start(0, 0))
    asked_at(run, 3)
    answered(run, Requeue(0, 0), Start(1, 1))
    ask(run)
    answered(run, Start(0, 0))

    assert ask(run).events == [JobEnded(8, 0, JobState.COMPLETED)]


# ---------------------------------------------------------------------- hold and release


def test_a_held_job_waits_and_may_be_started_when_it_is_released():
    run = simulation(job(0))
    asked_at(run, 0)

    assert answered(
        run, Hold(0, 0), Start(1, 0), Hold(2, 0), Release(3, 0), Release(4, 0), Start(5, 0)
    ) == [None, "job.held", "job.held", None, "job.not_held", None]


def test_a_held_job_does_not_make_it_worth_asking():
    run = simulation(job(0), job(1, submit=5, chunks=4), job(2, submit=5), ask_always=False)
    asked_at(run, 0)
    answered(run, Start(0, 0), Wake(1, 7, 6))
    assert asked_at(run, 5).now == 5
    answered(run, Hold(0, 2))

    # Job 1 wants the whole machine, of which job 0 has a node, and job 2 is held.
    assert isinstance(ask(run).events[-1], TimerFired)


def test_a_held_job_may_be_rejected():
    run = simulation(job(0))
    asked_at(run, 0)
    answered(run, Hold(0, 0), Reject(1, 0))

    assert ask(run) is None
    assert run.end is EndReason.COMPLETED
    assert run.holds == set()


def test_a_run_whose_jobs_are_all_held_is_stalled():
    run = simulation(job(0))
    asked_at(run, 0)
    answered(run, Hold(0, 0))

    assert ask(run) is None
    assert run.end is EndReason.STALLED


# ---------------------------------------------------------------------- timers


def test_a_cancelled_timer_never_fires():
    run = simulation(job(0, runtime=20))
    asked_at(run, 0)

    assert answered(run, Start(0, 0), Wake(1, 5, 9), CancelWake(2, 5), CancelWake(3, 5)) == [
        None,
        None,
        None,
        "timer.unknown",
    ]
    assert ask(run).now == 20


def test_a_timer_may_be_set_anew_for_the_same_instant_and_fires_once():
    run = simulation(job(0, runtime=20))
    asked_at(run, 0)
    answered(run, Start(0, 0), Wake(1, 5, 9), CancelWake(2, 5), Wake(3, 5, 9))

    assert ask(run).events == [TimerFired(9, 5)]
    answered(run)
    assert ask(run).now == 20


# ---------------------------------------------------------------------- nodes


def test_the_jobs_on_a_node_that_fails_end_before_it_and_after_those_that_end_by_themselves():
    run = simulation(
        *(job(0, runtime=5), job(1, runtime=9), job(2, runtime=9), job(3, submit=5)),
        changes=[NodesUp(5, ((3, 3),)), NodesDown(5, ((0, 1),))],
    )
    asked_at(run, 0)
    answered(run, *(Start(n, n, (((n, n, 1),),)) for n in (0, 1, 2)))

    assert ask(run).events == [
        JobEnded(5, 0, JobState.COMPLETED),
        JobEnded(5, 1, JobState.FAILED),
        NodesDown(5, ((0, 1),)),
        JobSubmitted(5, run.pending[3]),
        WorkloadExhausted(5),
    ]


def test_jobs_on_a_node_that_fails_may_be_requeued():
    run = simulation(
        job(0, runtime=9, chunks=2),
        changes=[NodesDown(3, ((1, 1),)), NodesUp(5, ((0, 3),))],
        on_node_down=OnNodeDown.REQUEUE,
    )
    asked_at(run, 0)
    answered(run, Start(0, 0))
    point = ask(run)

    assert point.events == [JobEnded(3, 0, JobState.REQUEUED), NodesDown(3, ((1, 1),))]
    assert answered(run, Start(0, 0, (((0, 1, 1),),)), Start(1, 0)) == ["node.down", None]
    assert run.running[0].allocation == (((0, 0, 1), (2, 2, 1)),)
    # Only the node that was down comes back.
    assert ask(run).events == [NodesUp(5, ((1, 1),))]
    answered(run)
    assert ask(run).now == 12


def test_what_is_down_is_neither_free_nor_held():
    run = simulation(job(0, runtime=10), changes=[NodesDown(0, ((1, 3),))])
    asked_at(run, 0)
    assert run.cluster.free == [1]
    answered(run, Start(0, 0))
    asked_at(run, 10)
    answered(run)
    ask(run)

    assert run.held == {"core": 10}


def test_a_job_that_only_the_whole_machine_holds_waits_for_its_nodes():
    run = simulation(job(0, chunks=4), changes=[NodesDown(0, ((0, 0),)), NodesUp(70, ((0, 0),))])
    asked_at(run, 0)

    assert answered(run, Start(0, 0)) == ["alloc.no_fit"]
    assert ask(run).now == 70


def test_changes_of_nodes_that_nobody_feels_do_not_prolong_a_run():
    run = simulation(job(0, runtime=5), changes=[NodesDown(99, ((0, 0),))])
    asked_at(run, 0)
    answered(run, Start(0, 0))
    asked_at(run, 5)
    answered(run)

    assert ask(run) is None
    assert run.now == 5


# ---------------------------------------------------------------------- jobs of the dispatcher


def made(runtime=5, chunks=1, name=""):
    return Job(0, name, 0, runtime, None, (ChunkGroup(chunks, WHOLE),))


def test_a_submitted_job_is_told_at_its_instant_and_numbered_after_all_others():
    run = simulation(job(0))
    asked_at(run, 0)
    outcomes = run.apply([Submit(0, made(name="mine")), Submit(1, made(), 30), Start(2, 0)])

    assert [outcome.job for outcome in outcomes] == [FIRST_SUBMITTED, FIRST_SUBMITTED + 1, None]
    point = ask(run)
    assert [(event.at, event.job.name) for event in point.events] == [(0, "dyn!mine")]
    answered(run, Start(0, FIRST_SUBMITTED), Start(1, FIRST_SUBMITTED + 1))
    assert run.outcomes[1].code == "job.unknown"
    assert ask(run).now == 5
    answered(run)
    assert ask(run).now == 10
    answered(run)
    assert [event.job.name for event in ask(run).events] == ["dyn!1"]
    assert run.now == 30


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (Submit(0, made(chunks=5)), "job.never_fits"),
        (Submit(0, made(name="mine")), "job.name"),
        (Submit(0, made(), -1), "job.past"),
    ],
)
def test_a_job_that_cannot_be_is_not_taken(decision, code):
    run = simulation(job(0))
    asked_at(run, 0)
    answered(run, Submit(0, made(name="mine")))
    ask(run)

    assert answered(run, decision) == [code]


# ---------------------------------------------------------------------- stop


def test_stop_ends_the_run_there_and_what_follows_is_refused():
    run = simulation(job(0), job(1, submit=40))
    asked_at(run, 0)

    assert answered(run, Start(0, 0), Stop(1), Wake(2, 1, 5)) == [None, None, "run.stopped"]
    assert ask(run) is None
    assert (run.end, run.now) == (EndReason.STOPPED, 0)
    assert [record.state for record in run.unfinished()] == [JobState.RUNNING]


# ---------------------------------------------------------------------- latency


def test_the_world_goes_on_while_a_decision_is_on_its_way():
    run = simulation(job(0, runtime=3), job(1, submit=2), job(2, submit=9))
    asked_at(run, 0)
    answered(run, Start(0, 0), latency=4)
    assert run.running == {}
    point = ask(run)

    # What was told at 2 was not worth a request of its own: one is out at a time.
    assert (point.now, [event.at for event in point.events]) == (4, [2])
    assert [(outcome.code, outcome.at) for outcome in point.outcomes] == [(None, 4)]
    assert run.running[0].start == 4


def test_without_news_the_next_request_comes_with_the_next_event():
    run = simulation(job(0, runtime=3))
    asked_at(run, 0)
    answered(run, Start(0, 0), latency=4)
    point = ask(run)

    assert (point.now, point.events) == (7, [JobEnded(7, 0, JobState.COMPLETED)])


def test_a_decision_is_checked_against_the_state_in_which_it_takes_effect():
    run = simulation(job(0, chunks=4), changes=[NodesDown(2, ((0, 0),))])
    asked_at(run, 0)
    answered(run, Start(0, 0), latency=2)
    point = ask(run)

    assert codes(point.outcomes) == ["alloc.no_fit"]
    assert point.now == 2


def test_a_kill_that_took_effect_is_told_with_the_end_it_brought():
    run = simulation(job(0, runtime=50), job(1, submit=1))
    asked_at(run, 0)
    answered(run, Start(0, 0))
    asked_at(run, 1)
    answered(run, Kill(0, 0), latency=6)
    point = ask(run)

    assert (point.now, point.events) == (7, [JobEnded(7, 0, JobState.KILLED)])


# ---------------------------------------------------------------------- atomic


def test_one_refused_decision_takes_all_others_of_the_answer_back():
    run = simulation(job(0), job(1), atomic=True)
    asked_at(run, 0)

    assert answered(run, Start(0, 0), Hold(1, 1), Start(2, 9), Wake(3, 1, 5)) == [
        *("decision.rolled_back", "decision.rolled_back"),
        *("job.unknown", "decision.rolled_back"),
    ]
    assert (run.running, run.holds, run.timers) == ({}, set(), {})
    assert run.cluster.free == [4]


def test_asking_again_tells_what_was_refused_and_nothing_new():
    run = simulation(job(0))
    asked_at(run, 0)
    answered(run, Start(0, 7))
    point = run.ask_again()

    assert (point.now, point.events, codes(point.outcomes)) == (0, [], ["job.unknown"])
    with pytest.raises(RuntimeError, match="apply"):
        run.ask_again()
