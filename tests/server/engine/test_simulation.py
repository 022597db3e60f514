"""Single cases of the simulation's rules, each small enough to be worked by hand."""

from __future__ import annotations

import pytest

from parley_server.engine import (
    Annotate,
    EndReason,
    JobEnded,
    JobState,
    JobSubmitted,
    Kill,
    ListSource,
    NodeGroup,
    OnOverrun,
    Reject,
    SessionStart,
    Shape,
    Simulation,
    Start,
    TimerFired,
    Wake,
    WorkloadExhausted,
)
from tests.server.engine.test_laws import fifo
from tests.strategies import drive
from tests.support import jobs_of, simulation_of

SHARED = Shape.of({"core": 1}, exclusive=False)


def starts(simulation) -> dict[int, int]:
    records = [*simulation.take_records(), *simulation.unfinished()]
    return {record.job.number: record.start for record in records}


def kinds(point) -> list[type]:
    return [type(event) for event in point.events]


def test_first_come_first_served_on_ten_nodes():
    jobs = jobs_of(
        [(0, 6, 100), (1, 8, 50), (2, 3, 90), (3, 4, 200), (4, 2, 99), (5, 1, 300)], seconds=False
    )
    simulation = simulation_of(jobs)
    drive(simulation, fifo)

    assert starts(simulation) == {0: 0, 1: 100, 2: 150, 3: 150, 4: 150, 5: 150}


def test_the_first_question_comes_at_time_zero_before_any_event():
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    opening = simulation.advance()

    assert opening.opening
    assert opening.now == 0
    assert kinds(opening) == [SessionStart]
    assert not simulation.pending


def test_what_happens_at_time_zero_makes_a_second_question_there():
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    simulation.apply(simulation.advance() and [])
    point = simulation.advance()

    assert point.now == 0
    assert kinds(point) == [JobSubmitted, WorkloadExhausted]


def test_completions_go_before_submissions_and_these_before_timers():
    jobs = jobs_of([(0, 1, 10), (10, 1, 5), (20, 1, 5)], seconds=False)
    simulation = simulation_of(jobs)
    simulation.advance()
    simulation.apply([Wake(0, 4, 10)])
    simulation.advance()
    simulation.apply([Start(0, 0)])
    point = simulation.advance()

    assert kinds(point) == [JobEnded, JobSubmitted, TimerFired]


def test_completions_of_one_instant_come_in_reading_order_whoever_started_first():
    jobs = jobs_of([(0, 1, 10), (0, 1, 10), (0, 1, 10)], seconds=False)
    simulation = simulation_of(jobs)
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    simulation.apply([Start(0, 2), Start(1, 0), Start(2, 1)])
    point = simulation.advance()

    assert [event.number for event in point.events] == [0, 1, 2]


def test_timers_of_one_instant_fire_in_the_order_they_were_set():
    simulation = simulation_of(jobs_of([(9, 1, 1)], seconds=False))
    simulation.advance()
    simulation.apply([Wake(0, 7, 5), Wake(1, 2, 5), Wake(2, 9, 4)])
    fired = []
    for _ in range(2):
        fired += [event.timer for event in simulation.advance().events]
        simulation.apply([])

    assert fired == [9, 7, 2]


def test_nodes_of_a_job_of_no_length_are_free_at_the_same_instant():
    simulation = simulation_of(jobs_of([(3, 10, 0), (3, 10, 4)], seconds=False))
    drive(simulation, fifo)

    assert starts(simulation) == {0: 3, 1: 3}
    asked = [row.requests for row in simulation.take_instants() if row.instant == 3]
    assert asked == [2]


def test_a_runtime_equal_to_the_walltime_completes():
    simulation = simulation_of(jobs_of([(0, 1, 7, 7)]), on_overrun=OnOverrun.KILL)
    drive(simulation, fifo)

    (record,) = simulation.take_records()
    assert record.state is JobState.COMPLETED


def test_a_runtime_beyond_the_walltime_is_cut_there():
    simulation = simulation_of(jobs_of([(0, 1, 8, 7)], seconds=False), on_overrun=OnOverrun.KILL)
    drive(simulation, fifo)

    (record,) = simulation.take_records()
    assert (record.state, record.end) == (JobState.TIMED_OUT, 7)


def test_a_job_may_run_on_beyond_its_walltime():
    simulation = simulation_of(jobs_of([(0, 1, 8, 7)], seconds=False), on_overrun=OnOverrun.RUN)
    drive(simulation, fifo)

    (record,) = simulation.take_records()
    assert (record.state, record.end) == (JobState.COMPLETED, 8)


def test_a_job_the_empty_machine_cannot_hold_is_rejected_and_not_shown():
    simulation = simulation_of(jobs_of([(0, 11, 5), (1, 10, 5)]))
    shown = []
    while (point := simulation.advance()) is not None:
        shown += [event.job.number for event in point.events if isinstance(event, JobSubmitted)]
        simulation.apply(fifo(simulation, point))

    assert shown == [1]
    assert simulation.counts.rejected == simulation.counts.never_fit == 1
    assert simulation.end is EndReason.COMPLETED


def test_a_kill_ends_a_job_now_and_frees_its_nodes_at_the_next_question():
    simulation = simulation_of(jobs_of([(0, 10, 50), (5, 10, 1)], seconds=False))
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    simulation.apply([Start(0, 0)])
    simulation.advance()
    outcomes = simulation.apply([Kill(0, 0), Start(1, 1)])
    point = simulation.advance()

    assert [outcome.code for outcome in outcomes] == [None, "alloc.no_fit"]
    assert point.now == 5
    assert point.events == [JobEnded(5, 0, JobState.KILLED)]
    assert simulation.cluster.free == [10]


@pytest.mark.parametrize("number", [-1, 1, 99])
def test_a_kill_of_a_job_that_never_was_is_told_so(number):
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    (outcome,) = simulation.apply([Kill(0, number)])

    assert outcome.code == "job.unknown"


def test_a_job_cannot_be_killed_twice():
    simulation = simulation_of(jobs_of([(0, 1, 50)], seconds=False))
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    outcomes = simulation.apply([Start(0, 0), Kill(1, 0), Kill(2, 0)])

    assert [outcome.code for outcome in outcomes] == [None, None, "job.not_running"]


def allocation(*spans: tuple[int, int, int]) -> tuple:
    return (tuple(tuple(span) for span in spans),)


REFUSALS = {
    "job.unknown": Start(0, 77),
    "job.not_pending": Start(0, 0),
    "job.not_running": Kill(0, 1),
    "alloc.groups": Start(0, 1, ()),
    "alloc.span": Start(0, 1, allocation((6, 5, 1))),
    "alloc.order": Start(0, 1, allocation((6, 7, 1), (7, 8, 1))),
    "alloc.too_few": Start(0, 1, allocation((5, 6, 1))),
    "alloc.too_many": Start(0, 1, allocation((5, 8, 1))),
    "alloc.exclusive": Start(0, 1, allocation((5, 5, 2), (6, 6, 1))),
    "alloc.no_fit": Start(0, 2),
    "node.unknown": Start(0, 1, allocation((8, 10, 1))),
    "node.busy": Start(0, 1, allocation((4, 6, 1))),
    "timer.past": Wake(0, 1, 0),
    "timer.set": Wake(0, 5, 90),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_each_cause_of_refusal_has_its_code_and_changes_nothing(code):
    jobs = jobs_of([(0, 5, 50), (0, 3, 50), (0, 6, 50), (10, 1, 5)], seconds=False)
    simulation = simulation_of(jobs)
    simulation.apply(simulation.advance() and [Wake(0, 5, 80)])
    simulation.advance()
    simulation.apply([Start(0, 0, allocation((0, 4, 1))), Annotate(1, 1, 50)])
    simulation.advance()
    before = (list(simulation.cluster.runs()), dict(simulation.pending), simulation.version)
    (outcome,) = simulation.apply([REFUSALS[code]])

    assert outcome.code == code
    assert str(outcome.message)
    after = (list(simulation.cluster.runs()), dict(simulation.pending), simulation.version)
    assert after == before


def test_good_decisions_beside_a_bad_one_are_carried_out():
    simulation = simulation_of(jobs_of([(0, 4, 5), (0, 4, 5)]))
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    outcomes = simulation.apply([Start(0, 0), Start(1, 42), Start(2, 1)])

    assert [outcome.applied for outcome in outcomes] == [True, False, True]
    assert set(simulation.running) == {0, 1}


def test_the_server_places_a_job_on_the_lowest_nodes_that_hold_it():
    jobs = jobs_of([(0, 3, 9), (0, 5, 9)], shape=SHARED)
    simulation = simulation_of(jobs, nodes=4, per_node={"core": 2})
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    first, second = simulation.apply([Start(0, 0), Start(1, 1)])

    assert first.allocation == allocation((0, 0, 2), (1, 1, 1))
    assert second.allocation == allocation((1, 1, 1), (2, 3, 2))


def test_silence_while_nothing_is_to_come_is_a_stall():
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    drive(simulation, lambda *_: [])

    assert simulation.end is EndReason.STALLED
    assert [record.state for record in simulation.unfinished()] == [JobState.PENDING]


def test_a_dispatcher_that_was_refused_is_asked_once_more_before_a_stall():
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    asked = []

    def stubborn(_simulation, point):
        asked.append(point.now)
        return [Start(0, 0, allocation((0, 1, 1)))]

    drive(simulation, stubborn)

    assert simulation.end is EndReason.STALLED
    assert asked == [0, 0, 0]  # the opening, the submission, and once more


def test_a_reply_that_removes_a_job_is_followed_by_another_question():
    simulation = simulation_of(jobs_of([(0, 1, 5), (0, 1, 5)]))
    one_at_a_time = drive(
        simulation,
        lambda simulation, _point: [Reject(0, number) for number in list(simulation.pending)[:1]],
    )

    assert one_at_a_time is None
    assert simulation.end is EndReason.COMPLETED
    assert simulation.counts.rejected == 2


def test_a_timer_is_an_event_to_come_so_that_waiting_for_it_is_no_stall():
    simulation = simulation_of(jobs_of([(0, 1, 5)], seconds=False))

    def patient(simulation, point):
        if point.now < 1000:
            return [Wake(0, point.now, 1000)] if simulation.pending else []
        return [Start(0, 0)]

    drive(simulation, patient)

    assert simulation.end is EndReason.COMPLETED
    assert simulation.now == 1005


def test_timers_that_no_job_can_feel_do_not_prolong_the_run():
    simulation = simulation_of(jobs_of([(0, 1, 5)], seconds=False))

    def eager(simulation, point):
        wake = Wake(9, point.now, point.now + 1000)
        return [wake, *(Start(0, number) for number in simulation.pending)]

    drive(simulation, eager)

    assert simulation.now == 5


def test_only_wanted_events_are_told_and_asked_about():
    jobs = jobs_of([(0, 1, 5), (9, 1, 5)], seconds=False)
    simulation = simulation_of(jobs, wants=[JobSubmitted])
    told = []

    def note(simulation, point):
        told.extend((point.now, kind) for kind in kinds(point))
        return fifo(simulation, point)

    drive(simulation, note)

    assert told == [(0, SessionStart), (0, JobSubmitted), (9, JobSubmitted)]


def test_an_empty_workload_is_a_complete_run():
    simulation = simulation_of([])
    opening = simulation.advance()
    simulation.apply([])

    assert kinds(opening) == [SessionStart, WorkloadExhausted]
    assert simulation.advance() is None
    assert simulation.end is EndReason.COMPLETED


def test_the_expected_start_that_was_annotated_last_is_recorded():
    simulation = simulation_of(jobs_of([(0, 1, 5)], seconds=False))
    simulation.apply(simulation.advance() and [])
    simulation.advance()
    simulation.apply([Annotate(0, 0, 70), Annotate(1, 0, 30), Start(2, 0)])
    simulation.advance()

    assert [record.expected_start for record in simulation.take_records()] == [30]


def test_answers_are_due_and_only_due_after_questions():
    simulation = simulation_of(jobs_of([(0, 1, 5)]))
    with pytest.raises(RuntimeError, match="nothing was asked"):
        simulation.apply([])
    simulation.advance()

    with pytest.raises(RuntimeError, match="apply"):
        simulation.advance()


def test_a_job_is_in_memory_from_shortly_before_its_submission():
    class Counting(ListSource):
        taken = 0

        def next(self):
            job = super().next()
            self.taken += job is not None
            return job

    source = Counting(jobs_of([(10 * number, 1, 5) for number in range(50)]))
    simulation = Simulation([NodeGroup("n", 4, {"core": 1})], source)
    while (point := simulation.advance()) is not None:
        assert source.taken <= simulation.counts.submitted + 1
        simulation.apply(fifo(simulation, point))

    assert source.taken == 50
