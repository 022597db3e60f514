"""What every policy keeps to, with every allocator, on machines and jobs of all kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley_client import ALLOCATORS, ORDERS, POLICIES, Dispatcher, Easy, policy_named
from parley_client.conservative import _Conservative
from parley_client.estimates import FOREVER, planned_end
from parley_client.orders import Scored, order_of
from parley_client.slots import ManyReservations
from parley_server.engine import ChunkGroup, Job, NodeGroup
from parley_server.engine.events import NodesDown, NodesUp
from parley_server.host.conduct import Latency
from tests.scheduling import schedule
from tests.strategies import SHAPES, Case, cases
from tests.support import SECOND, jobs_of


def _without_limit(number: int, submit: int, nodes: int) -> Job:
    request = (ChunkGroup(nodes, SHAPES[0]),)
    return Job(number, f"j{number}", submit * SECOND, 2 * SECOND, None, request)


# The head waits for the second job for ever, as far as anybody knows; the third may run beside it,
# and so may the last, which comes when nothing has ended.
WITHOUT_LIMITS = Case(
    (NodeGroup("n", 10, {"core": 4}),),
    tuple(_without_limit(*job) for job in ((0, 0, 3), (1, 0, 8), (2, 0, 2), (3, 1, 1))),
)

RULES = [name for name in POLICIES if name not in ORDERS]
STARTING = [name for name in RULES if name != "reject"]
CONSERVATIVE = [name for name in RULES if issubclass(POLICIES[name].rule, _Conservative)]

each_allocator = pytest.mark.parametrize("allocator", list(ALLOCATORS))


@st.composite
def in_seconds(draw, **options) -> Case:
    """Return a case whose times are seconds."""
    case = draw(cases(**options))
    jobs = [
        replace(
            job,
            submit=job.submit * SECOND,
            runtime=job.runtime * SECOND,
            walltime=None if job.walltime is None else job.walltime * SECOND,
        )
        for job in case.jobs
    ]
    return Case(case.groups, tuple(jobs))


uniform = in_seconds(shapes=SHAPES[:1])


class Watched:
    """A policy, and somebody who looks at the view before and after it decides."""

    def __init__(self, policy, look):
        self._policy, self._look = policy, look
        self.name, self.ask = policy.name, policy.ask
        self.counts_slots = policy.counts_slots

    def decide(self, view):
        assert not view.rejected
        self._look("before", view)
        self._policy.decide(view)
        self._look("after", view)


def nobody(when, view):
    pass


@each_allocator
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=25)
@given(case=in_seconds(), kills=st.booleans())
def test_no_decision_is_refused_and_no_job_forgotten(name, allocator, case, kills):
    policy = Watched(policy_named(name), nobody)
    placed = schedule(case.jobs, policy, groups=case.groups, allocator=allocator, kills=kills)

    assert set(placed) == {job.name for job in case.jobs}


@pytest.mark.parametrize("name", STARTING)
@settings(max_examples=25)
@given(case=in_seconds(), requeue=st.booleans(), at=st.integers(0, 9), during=st.integers(1, 9))
def test_nodes_may_go_out_of_service_and_come_back(name, case, requeue, at, during):
    changes = [
        NodesDown(at * SECOND, ((0, 0),)),
        NodesUp((at + during) * SECOND, ((0, 0),)),
    ]
    placed = schedule(
        case.jobs,
        Watched(policy_named(name), nobody),
        groups=case.groups,
        changes=changes,
        on_node_down="requeue" if requeue else "kill",
    )

    assert set(placed) == {job.name for job in case.jobs}


@pytest.mark.parametrize("name", STARTING)
@settings(max_examples=25)
@given(case=in_seconds(), latency=st.integers(1, 3 * SECOND))
def test_decisions_may_take_their_time(name, case, latency):
    placed = schedule(
        case.jobs,
        policy_named(name),
        groups=case.groups,
        latency=Latency("fixed", latency),
    )

    assert set(placed) == {job.name for job in case.jobs}


ACTIONABLE = [name for name in RULES if POLICIES[name].rule.ask == "actionable"]


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("name", ACTIONABLE)
@settings(max_examples=25)
@given(case=in_seconds(), kills=st.booleans())
def test_asked_only_when_something_could_start_it_does_the_same(name, order, case, kills):
    schedules = [
        schedule(
            case.jobs,
            policy_named(name, {"order": order}),
            groups=case.groups,
            ask=ask,
            kills=kills,
        )
        for ask in ("always", "actionable")
    ]

    assert schedules[0] == schedules[1]


@pytest.mark.parametrize("name", sorted(set(RULES) - set(ACTIONABLE)))
def test_a_policy_whose_plans_hang_on_when_it_is_told_is_asked_always(name):
    assert Dispatcher(name).hello()["ask"] == "always"


@pytest.mark.parametrize("name", STARTING)
def test_whatever_decides_only_now_and_then_is_asked_always(name):
    assert Dispatcher(name, parameters={"interval": "30s"}).hello()["ask"] == "always"


# ---------------------------------------------------------------------- promises


@each_allocator
@pytest.mark.parametrize("depth", [1, 2, 3])
@settings(max_examples=25)
@given(case=in_seconds(), backfill=st.sampled_from([None, "sjf", "largest", "wfp3"]))
def test_easy_never_delays_the_head_beyond_its_first_shadow_time(depth, allocator, case, backfill):
    exact = [replace(job, walltime=job.runtime) for job in case.jobs]
    promised = {}

    def look(when, view):
        head = view.queue.head
        if when == "after" and head is not None:
            promised.setdefault(head.name, shadow_time(view, head))

    policy = Watched(Easy(depth=depth, backfill_order=backfill), look)
    placed = schedule(exact, policy, groups=case.groups, allocator=allocator)

    assert all(placed[name].start <= shadow for name, shadow in promised.items())


def shadow_time(view, head):
    """Return when the head fits if everything that runs takes as long as it may."""
    then = view.cluster.fork()
    running = sorted(view.running.values(), key=lambda job: planned_end(job, view.now_us))
    for job in running:
        then.release(job.job.shape, job.spans)
        if then.fits(head.shape, head.chunks):
            return planned_end(job, view.now_us)
    return FOREVER


@each_allocator
@pytest.mark.parametrize("name", CONSERVATIVE)
@settings(max_examples=25)
@given(case=in_seconds(), order=st.sampled_from(["fifo", "sjf", "largest"]))
def test_no_reservation_moves_back_and_no_job_starts_after_its_first(name, allocator, case, order):
    rule = policy_named(name, {"order": order})
    first, last = {}, {}

    def look(when, view):
        if when == "before":
            return
        for number, start in rule.reservations().items():
            first.setdefault(number, start)
            assert start <= last.get(number, FOREVER)
            last[number] = start

    placed = schedule(case.jobs, Watched(rule, look), groups=case.groups, allocator=allocator)

    assert all(placed[f"j{number}"].start <= start for number, start in first.items())


# ---------------------------------------------------------------------- one schedule, many ways


@pytest.mark.parametrize("name", STARTING)
@given(case=uniform, kills=st.booleans())
def test_where_nodes_are_slots_the_allocator_changes_no_start(name, case, kills):
    starts = [
        {
            name: job.start
            for name, job in schedule(
                case.jobs,
                policy_named(name),
                groups=case.groups,
                allocator=allocator,
                kills=kills,
            ).items()
        }
        for allocator in ALLOCATORS
    ]

    assert all(one == starts[0] for one in starts)


@pytest.mark.parametrize("order", [key for key, order in ORDERS.items() if order.timeless])
@pytest.mark.parametrize("name", ACTIONABLE)
@given(case=uniform, kills=st.booleans())
@example(case=WITHOUT_LIMITS, kills=False)
def test_the_index_of_the_queue_gives_the_schedule_of_a_scan(name, order, case, kills):
    key = order_of(order).key
    schedules = [
        schedule(case.jobs, POLICIES[name].rule(order=asked), groups=case.groups, kills=kills)
        for asked in (order, Scored(key))
    ]

    assert schedules[0] == schedules[1]


@given(case=uniform, kills=st.booleans(), backfill=st.sampled_from([None, "sjf", "wfp3"]))
def test_counting_slots_gives_the_schedule_of_looking_at_nodes(case, kills, backfill):
    counted = schedule(case.jobs, Easy(backfill_order=backfill), groups=case.groups, kills=kills)
    looked = schedule(case.jobs, OnNodes(backfill_order=backfill), groups=case.groups, kills=kills)

    assert counted == looked


class OnNodes(Easy):
    """EASY that never takes nodes for slots."""

    def _act(self, view):
        self._pass_on_nodes(view)


class Profiled(Easy):
    """EASY that takes one reservation for one of many."""

    def _room(self, *arguments):
        return ManyReservations(*arguments)


@given(case=uniform, kills=st.booleans())
def test_a_profile_with_one_reservation_is_a_shadow_time(case, kills):
    one = schedule(case.jobs, Easy(), groups=case.groups, kills=kills)

    assert schedule(case.jobs, Profiled(), groups=case.groups, kills=kills) == one


@pytest.mark.parametrize("name", ["strict", "easy", "aggressive", "conservative"])
@given(data=st.data())
def test_simultaneous_submissions_in_another_order_start_when_they_did(name, data):
    # Distinct lengths: where the policy's own order leaves no tie, reading order says nothing.
    lengths = data.draw(st.permutations(range(1, 15)))
    rows = [
        (data.draw(st.integers(0, 2)) * 5, data.draw(st.integers(1, 6)), length, length)
        for length in lengths
    ]
    shuffled = data.draw(st.permutations(rows))
    starts = []
    for ordered in (rows, shuffled):
        jobs = jobs_of(sorted(ordered, key=lambda row: row[0]))
        placed = schedule(jobs, policy_named(name, {"order": "sjf"}))
        starts.append({job.walltime: placed[job.name].start for job in jobs})

    assert starts[0] == starts[1]
