"""Random workloads, machines and dispatchers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from parley_server.engine import (
    PAUSED,
    Annotate,
    CancelWake,
    ChunkGroup,
    Hold,
    Job,
    Kill,
    ListSource,
    NodeGroup,
    NodesDown,
    NodesUp,
    OnNodeDown,
    OnOverrun,
    Refuse,
    Reject,
    Release,
    Requeue,
    Shape,
    Simulation,
    Start,
    Stop,
    Submit,
    Wake,
)

if TYPE_CHECKING:
    from typing import Any

    from parley_server.engine import Decision, DecisionPoint

SHAPES = (
    Shape.of({"core": 1}, exclusive=True),
    Shape.of({"core": 1}, exclusive=False),
    Shape.of({"core": 2, "memory": 3}, exclusive=False),
    Shape.of({"memory": 5}, exclusive=False),
    Shape.of({"gpu": 1, "core": 1}, exclusive=False),
    Shape.of({"core": 3}, exclusive=True),
)


class Case(NamedTuple):
    """A machine and the jobs for it."""

    groups: tuple[NodeGroup, ...]
    jobs: tuple[Job, ...]

    def simulation(self, **options: Any) -> Simulation:
        """Return a simulation of the case from its beginning."""
        return Simulation(self.groups, ListSource(self.jobs), **options)


_capacities = st.fixed_dictionaries(
    {"core": st.integers(1, 4)},
    optional={"memory": st.integers(1, 12), "gpu": st.integers(1, 2)},
)


@st.composite
def machines(draw) -> tuple[NodeGroup, ...]:
    """Return up to three groups of nodes."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 5), _capacities), min_size=1, max_size=3))
    return tuple(
        NodeGroup(f"g{index}", count, capacity) for index, (count, capacity) in enumerate(sizes)
    )


@st.composite
def workloads(draw, *, max_size: int = 20, shapes=SHAPES) -> tuple[Job, ...]:
    """Return jobs that come close together, so that much happens at once."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3),  # since the job before
                st.sampled_from(shapes),
                st.integers(1, 8),
                st.integers(0, 9),  # runtime
                st.none() | st.integers(0, 9),
            ),
            max_size=max_size,
        )
    )
    jobs, submit = [], 0
    for number, (gap, shape, chunks, runtime, walltime) in enumerate(rows):
        submit += gap
        request = (ChunkGroup(chunks, shape),)
        jobs.append(Job(number, f"j{number}", submit, runtime, walltime, request))
    return tuple(jobs)


@st.composite
def cases(draw, **options: Any) -> Case:
    """Return a machine and jobs, some of which may not fit."""
    return Case(draw(machines()), draw(workloads(**options)))


seeds = st.integers(0, 2**32 - 1)


class Whim:
    """Decides at random: good decisions, bad ones, and none; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, simulation: Simulation, point: DecisionPoint) -> list[Decision]:
        """Return up to four decisions; they hang on the seed and the state alone."""
        draw = random.Random(f"{self._seed}/{point.version}/{point.now}")
        return [self._decision(index, simulation, draw) for index in range(draw.randrange(5))]

    def _decision(self, index: int, simulation: Simulation, draw: random.Random) -> Decision:
        known = [*simulation.pending, *simulation.running, 0, 99]
        job = draw.choice(known)
        match draw.randrange(12):
            case 0:
                return Reject(index, job)
            case 1:
                return Kill(index, job)
            case 2:
                return Wake(index, draw.randrange(3), simulation.now + draw.randrange(-1, 5))
            case 3:
                return Annotate(index, job, simulation.now + 7)
            case 4:
                return Refuse(index, "decision.unsupported", "of a later version")
            case 5 | 6:
                first = draw.randrange(-1, simulation.cluster.node_count + 1)
                spans = ((first, first + draw.randrange(3), draw.randrange(3)),)
                return Start(index, job, (spans,))
            case _:
                return Start(index, draw.choice([*simulation.pending, job]))


class Whimsy(Whim):
    """Decides at random about everything there is to decide."""

    def __init__(self, seed: int, *, slow: bool = False) -> None:
        super().__init__(seed)
        self._slow = slow

    def latency(self, point: DecisionPoint) -> int:
        """Return how long an answer takes in simulated time."""
        draw = random.Random(f"{self._seed}/{point.version}/{point.now}/latency")
        return draw.choice((0, 0, 1, 2, 5)) if self._slow else 0

    def _decision(self, index: int, simulation: Simulation, draw: random.Random) -> Decision:
        job = draw.choice([*simulation.pending, *simulation.running, 0, 99])
        match draw.randrange(30):
            case 0 | 1:
                return Requeue(index, job)
            case 2 | 3:
                return Hold(index, job)
            case 4 | 5 | 6:
                return Release(index, draw.choice([*simulation.holds, job]))
            case 7 | 8:
                return CancelWake(index, draw.choice([*simulation.timers, 0]))
            case 9:
                shape = draw.choice(SHAPES)
                made = Job(0, draw.choice(("", "a", "b")), 0, draw.randrange(9), None, ())
                made.request = (ChunkGroup(draw.randrange(1, 5), shape),)
                return Submit(index, made, draw.choice((None, simulation.now + 2, -1)))
            case 10 if not draw.randrange(8):
                return Stop(index)
            case _:
                return super()._decision(index, simulation, draw)


class World(NamedTuple):
    """A case, with all that may go wrong on the machine, and the rules for it."""

    case: Case
    options: dict[str, Any]

    def simulation(self, **options: Any) -> Simulation:
        """Return a simulation from its beginning."""
        return self.case.simulation(**self.options, **options)


@st.composite
def worlds(draw) -> World:
    """Return a case whose nodes go down and come back."""
    case = draw(cases())
    last = sum(group.count for group in case.groups) - 1
    changes = []
    for at, first, length, up in draw(
        st.lists(
            st.tuples(
                st.integers(0, 25), st.integers(0, last), st.integers(0, last), st.booleans()
            ),
            max_size=6,
        )
    ):
        nodes = ((first, min(last, first + length)),)
        changes.append(NodesUp(at, nodes) if up else NodesDown(at, nodes))
    options = {
        "changes": changes,
        "on_node_down": draw(st.sampled_from(OnNodeDown)),
        "on_overrun": draw(st.sampled_from(OnOverrun)),
        "ask_always": draw(st.booleans()),
        "atomic": draw(st.booleans()),
    }
    return World(case, options)


def play(simulation: Simulation, whim: Whimsy, *, steps: int = 300, look=None) -> None:
    """Go on for so many decision points, or to the end; *look* sees every step."""
    while steps:
        point = simulation.advance()
        if look is not None:
            look(simulation)
        if point is None:
            return
        if point is not PAUSED:
            simulation.apply(whim(simulation, point), latency=whim.latency(point))
            steps -= 1
        if look is not None:
            look(simulation)


def drive(simulation: Simulation, decide, *, steps: int | None = None) -> None:
    """Go on for so many decision points, or to the end."""
    while steps is None or steps > 0:
        point = simulation.advance()
        if point is None:
            return
        simulation.apply(decide(simulation, point))
        steps = None if steps is None else steps - 1


def outline(simulation: Simulation) -> tuple:
    """Return all that a simulation leaves behind, comparable."""
    return (
        simulation.end,
        simulation.now,
        [
            (record.job.number, record.state, record.start, record.end, record.allocation)
            for record in (*simulation.take_records(), *simulation.unfinished())
        ],
        simulation.take_instants(),
        simulation.held,
    )
