"""What holds for every workload, every machine and every dispatcher."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from parley_server.engine import PAUSED, EndReason, JobState, OnOverrun, check_invariants
from tests.strategies import Whim, cases, drive, outline, seeds

rules = st.sampled_from(OnOverrun)
asking = st.booleans()


@given(case=cases(), seed=seeds, on_overrun=rules, ask_always=asking)
def test_no_invariant_breaks_whatever_is_decided(case, seed, on_overrun, ask_always):
    simulation = case.simulation(on_overrun=on_overrun, ask_always=ask_always)
    whim = Whim(seed)
    for _ in range(500):
        point = simulation.advance()
        check_invariants(simulation)
        if point is None:
            break
        simulation.apply(whim(simulation, point))
        check_invariants(simulation)

    assert simulation.end is not None


@given(case=cases(), seed=seeds, on_overrun=rules)
def test_no_node_ever_holds_more_than_it_has(case, seed, on_overrun):
    simulation = case.simulation(on_overrun=on_overrun)
    drive(simulation, Whim(seed))
    records = [record for record in simulation.take_records() if record.allocation]

    for instant in {record.start for record in records}:
        used: dict[tuple[int, str], int] = {}
        tenants: dict[int, list[bool]] = {}
        for record in records:
            if record.start <= instant < record.end:
                (group,), (spans,) = record.job.request, record.allocation
                for first, last, chunks in spans:
                    for node in range(first, last + 1):
                        tenants.setdefault(node, []).append(group.shape.exclusive)
                        for kind, amount in group.shape.per_chunk:
                            used[node, kind] = used.get((node, kind), 0) + amount * chunks
        capacity = [group.capacity for group in case.groups for _ in range(group.count)]
        assert all(amount <= capacity[node].get(kind, 0) for (node, kind), amount in used.items())
        assert all(not any(flags) or len(flags) == 1 for flags in tenants.values())


@given(case=cases(), seed=seeds, on_overrun=rules)
def test_every_job_comes_to_exactly_one_end(case, seed, on_overrun):
    simulation = case.simulation(on_overrun=on_overrun)
    drive(simulation, Whim(seed))
    records = [*simulation.take_records(), *simulation.unfinished()]

    assert sorted(record.job.number for record in records) == list(range(len(case.jobs)))
    if simulation.end is EndReason.COMPLETED:
        assert all(record.end is not None for record in records)


@given(case=cases(), seed=seeds, on_overrun=rules)
def test_a_job_runs_its_runtime_or_to_its_walltime(case, seed, on_overrun):
    simulation = case.simulation(on_overrun=on_overrun)
    drive(simulation, Whim(seed))

    for record in simulation.take_records():
        job, walltime = record.job, record.job.walltime
        cut = on_overrun is OnOverrun.KILL and walltime is not None and job.runtime > walltime
        if record.state is JobState.COMPLETED:
            assert record.end - record.start == job.runtime
            assert not cut
        elif record.state is JobState.TIMED_OUT:
            assert cut
            assert record.end - record.start == walltime
        elif record.state is JobState.KILLED:
            assert record.end - record.start <= job.runtime


@given(case=cases(), seed=seeds)
def test_the_same_input_gives_the_same_run(case, seed):
    runs = [case.simulation(), case.simulation()]
    for simulation in runs:
        drive(simulation, Whim(seed))

    assert outline(runs[0]) == outline(runs[1])


@given(case=cases(), seed=seeds, budget=st.integers(1, 3))
def test_coming_back_early_changes_nothing(case, seed, budget):
    whole, halting = case.simulation(ask_always=False), case.simulation(ask_always=False)
    whim = Whim(seed)
    drive(whole, whim)
    while (point := halting.advance(budget)) is not None:
        if point is not PAUSED:
            halting.apply(whim(halting, point))

    assert outline(halting) == outline(whole)


def fifo(simulation, _point):
    """Start the head while it fits; the engine places it."""
    from parley_server.engine import Start
    from parley_server.engine.errors import NoFit

    trial, decisions = simulation.cluster.fork(), []
    for job in simulation.pending.values():
        try:
            trial.take(job, trial.place(job))
        except NoFit:
            break
        decisions.append(Start(len(decisions), job.number))
    return decisions


@given(case=cases(), on_overrun=rules)
def test_asking_only_when_something_could_start_gives_the_same_schedule(case, on_overrun):
    always = case.simulation(on_overrun=on_overrun, ask_always=True)
    actionable = case.simulation(on_overrun=on_overrun, ask_always=False)
    for simulation in (always, actionable):
        drive(simulation, fifo)

    assert actionable.end is EndReason.COMPLETED
    assert actionable.take_records() == always.take_records()
    assert sum(i.requests for i in actionable.take_instants()) <= sum(
        i.requests for i in always.take_instants()
    )


@given(case=cases(), on_overrun=rules)
def test_events_come_in_order_none_is_lost_and_none_is_told_twice(case, on_overrun):
    simulation = case.simulation(on_overrun=on_overrun, ask_always=False)
    told, last = [], 0
    while (point := simulation.advance()) is not None:
        assert point.now >= last
        last = point.now
        told += point.events
        simulation.apply(fifo(simulation, point))

    assert [event.at for event in told] == sorted(event.at for event in told)
    submitted = [event.job.number for event in told if hasattr(event, "job")]
    assert len(submitted) == len(set(submitted))


@given(case=cases(), seed=seeds)
def test_held_resources_add_up_to_what_the_records_say(case, seed):
    simulation = case.simulation()
    drive(simulation, Whim(seed))
    capacity = [group.capacity for group in case.groups for _ in range(group.count)]

    expected: dict[str, int] = dict.fromkeys(simulation.cluster.kinds, 0)
    for record in simulation.take_records():
        for group, spans in zip(record.job.request, record.allocation or (), strict=False):
            for first, last, chunks in spans:
                for node in range(first, last + 1):
                    held = (
                        capacity[node]
                        if group.shape.exclusive
                        else {kind: amount * chunks for kind, amount in group.shape.per_chunk}
                    )
                    for kind, amount in held.items():
                        expected[kind] += amount * (record.end - record.start)
    assert simulation.held == expected


class TwoSpeeds:
    """A toy: alone a job gets on at speed 1, beside others at two thirds of it."""

    SLOW = Fraction(2, 3)

    def started(self, job, running):
        return self._speeds(running)

    def ended(self, job, running):
        return self._speeds(running)

    def fork(self):
        return self

    def _speeds(self, running):
        speed = 1 if len(running) == 1 else self.SLOW
        return [(job, speed) for job in running.values()]


@given(case=cases(), seed=seeds)
def test_an_end_that_moves_comes_when_the_work_is_done_and_not_later(case, seed):
    simulation = case.simulation(execution=TwoSpeeds())
    drive(simulation, Whim(seed))
    records = [record for record in simulation.take_records() if record.start is not None]

    def work_done(record, until):
        """Integrate the speed anew, from who ran when."""
        borders = {record.start, until}
        borders |= {at for other in records for at in (other.start, other.end)}
        inside = sorted(at for at in borders if record.start <= at <= until)
        done = Fraction(0)
        for begin, end in itertools.pairwise(inside):
            beside = sum(other.start <= begin < other.end for other in records)
            done += (end - begin) * (1 if beside == 1 else TwoSpeeds.SLOW)
        return done

    for record in records:
        if record.state is JobState.COMPLETED:
            assert work_done(record, record.end) >= record.job.runtime
            if record.end > record.start:
                assert work_done(record, record.end - 1) < record.job.runtime


@given(case=cases(), seed=seeds)
def test_a_machine_of_changing_speeds_breaks_no_invariant(case, seed):
    simulation = case.simulation(execution=TwoSpeeds(), on_overrun=OnOverrun.KILL)
    whim = Whim(seed)
    while (point := simulation.advance()) is not None:
        simulation.apply(whim(simulation, point))
        check_invariants(simulation)

    assert simulation.end is not None


@given(case=cases(), seed=seeds, other=seeds, steps=st.integers(0, 12), two_speeds=st.booleans())
def test_the_future_of_a_fork_is_that_of_the_original(case, seed, other, steps, two_speeds):
    execution = TwoSpeeds() if two_speeds else None
    original = case.simulation(execution=execution)
    undisturbed = case.simulation(execution=execution)
    drive(original, Whim(seed), steps=steps)
    twin, stray = original.fork(), original.fork()
    drive(stray, Whim(other))
    drive(twin, Whim(seed))
    drive(original, Whim(seed))
    drive(undisturbed, Whim(seed))

    assert outline(twin) == outline(original) == outline(undisturbed)


@given(case=cases(), seed=seeds, steps=st.integers(0, 8))
def test_a_fork_between_question_and_answer_takes_its_own_answer(case, seed, steps):
    original, whim = case.simulation(), Whim(seed)
    drive(original, whim, steps=steps)
    point = original.advance()
    twin = original.fork()
    for simulation in (original, twin):
        if point is not None:
            simulation.apply(whim(simulation, point))
        drive(simulation, whim)

    assert outline(twin) == outline(original)
