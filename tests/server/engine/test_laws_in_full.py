"""The same laws where nodes fail, decisions take time, and everything is decided that can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley_server.engine import EndReason, JobState, check_invariants
from tests.strategies import Whimsy, outline, play, seeds, worlds

slowness = st.booleans()


@given(world=worlds(), seed=seeds, slow=slowness)
def test_no_invariant_breaks_whatever_fails_and_is_decided(world, seed, slow):
    simulation = world.simulation()
    play(simulation, Whimsy(seed, slow=slow), look=check_invariants)

    check_invariants(simulation)


@given(world=worlds(), seed=seeds, slow=slowness)
def test_every_job_has_one_last_attempt_and_they_are_counted_on(world, seed, slow):
    simulation = world.simulation()
    play(simulation, Whimsy(seed, slow=slow))
    records = [*simulation.take_records(), *simulation.unfinished()]
    attempts: dict[int, list] = {}
    for record in records:
        attempts.setdefault(record.job.number, []).append(record)

    for of_one in attempts.values():
        assert [record.attempt for record in of_one] == list(range(1, len(of_one) + 1))
        assert [record.last for record in of_one] == [False] * (len(of_one) - 1) + [True]
        assert all(record.state is JobState.REQUEUED for record in of_one[:-1])
    assert sum(not record.last for record in records) == simulation.counts.requeues
    if simulation.end is EndReason.COMPLETED:
        assert set(attempts) >= set(range(len(world.case.jobs)))
        assert all(of_one[-1].end is not None for of_one in attempts.values())


@given(world=worlds(), seed=seeds, slow=slowness)
def test_nothing_runs_on_a_node_while_it_is_down(world, seed, slow):
    simulation = world.simulation()
    play(simulation, Whimsy(seed, slow=slow))
    down: dict[int, list[tuple[int, int]]] = {}
    begun: dict[int, int] = {}
    script = sorted(
        world.options["changes"], key=lambda change: (change.at, type(change).__name__ == "NodesUp")
    )
    for change in script:
        goes_down = type(change).__name__ == "NodesDown"
        for first, last in change.nodes:
            for node in range(first, last + 1):
                if goes_down:
                    begun.setdefault(node, change.at)
                elif node in begun:
                    down.setdefault(node, []).append((begun.pop(node), change.at))
    for node, since in begun.items():
        down.setdefault(node, []).append((since, 10**9))

    for record in simulation.take_records():
        for spans in record.allocation or ():
            for first, last, _ in spans:
                for node in range(first, last + 1):
                    for begin, end in down.get(node, ()):
                        assert record.end <= begin or record.start >= end


@given(world=worlds(), seed=seeds, slow=slowness, steps=st.integers(0, 12))
def test_a_fork_has_the_original_s_future_whatever_happens(world, seed, slow, steps):
    original, undisturbed = world.simulation(), world.simulation()
    play(original, Whimsy(seed, slow=slow), steps=steps)
    twin, stray = original.fork(), original.fork()
    play(stray, Whimsy(seed + 1, slow=slow))
    play(twin, Whimsy(seed, slow=slow))
    play(original, Whimsy(seed, slow=slow))
    play(undisturbed, Whimsy(seed, slow=slow), steps=300 + steps)

    assert outline(twin) == outline(original) == outline(undisturbed)


@given(world=worlds(), seed=seeds)
def test_an_atomic_answer_takes_effect_whole_or_not_at_all(world, seed):
    world.options["atomic"] = True
    simulation, whim = world.simulation(), Whimsy(seed)
    for _ in range(200):
        point = simulation.advance()
        if point is None:
            break
        decisions = whim(simulation, point)
        before, version = simulation.fork(), simulation.version
        outcomes = simulation.apply(decisions)
        applied = [outcome.applied for outcome in outcomes]

        assert [outcome.id for outcome in outcomes] == [decision.id for decision in decisions]
        assert all(applied) or not any(applied)
        if decisions and not any(applied):
            assert simulation.version == version
            for name in ("pending", "holds", "timers", "counts"):
                assert getattr(simulation, name) == getattr(before, name)
            assert list(simulation.cluster.runs()) == list(before.cluster.runs())
            codes = [outcome.code for outcome in outcomes]
            assert len([code for code in codes if code != "decision.rolled_back"]) == 1


@given(world=worlds(), seed=seeds)
def test_decisions_take_effect_as_much_later_as_they_are_charged(world, seed):
    simulation, whim = world.simulation(), Whimsy(seed, slow=True)
    due = None
    for _ in range(400):
        asked = simulation.advance()
        if due is not None:
            assert simulation.now == due
            assert all(outcome.at == due for outcome in simulation.outcomes)
            due = None
        if asked is None:
            break
        if type(asked).__name__ == "DecisionPoint":
            latency = whim.latency(asked)
            simulation.apply(whim(simulation, asked), latency=latency)
            due = simulation.now + latency if latency else None
