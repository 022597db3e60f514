"""The least of what pending jobs ask for, whatever joins and leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley_server.engine.demand import SmallestTotals

KINDS = 2


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[bool, tuple[int, ...]]]:
    """Return (joins, totals) pairs in which nobody leaves who has not joined."""
    waiting: list[tuple[int, ...]] = []
    history: list[tuple[bool, tuple[int, ...]]] = []
    # So many that what nobody asks for any more is swept out now and then.
    for joins in draw(st.lists(st.booleans(), max_size=200)):
        if joins or not waiting:
            waiting.append(draw(st.tuples(*[st.integers(0, 9)] * KINDS)))
            history.append((True, waiting[-1]))
        else:
            history.append((False, waiting.pop(draw(st.integers(0, len(waiting) - 1)))))
    return history


@given(histories(), st.tuples(*[st.integers(0, 9)] * KINDS))
def test_the_least_is_that_of_the_jobs_that_wait(
    history: list[tuple[bool, tuple[int, ...]]], free: tuple[int, ...]
) -> None:
    demand = SmallestTotals(KINDS)
    waiting: list[tuple[int, ...]] = []
    for joins, totals in history:
        if joins:
            demand.add(totals)
            waiting.append(totals)
        else:
            demand.remove(totals)
            waiting.remove(totals)
        possible = bool(waiting) and all(
            min(totals[kind] for totals in waiting) <= free[kind] for kind in range(KINDS)
        )
        assert demand.within(free) is possible
        assert demand.fork().within(free) is possible


def test_what_is_kept_does_not_grow_with_who_came_and_went() -> None:
    demand = SmallestTotals(KINDS)
    demand.add((1, 1))
    for amount in range(2, 5000):
        demand.add((amount, amount))
        demand.remove((amount, amount))
    assert all(len(heap) < 200 for heap in demand._heaps)
    assert demand.within((1, 1))
    demand.remove((1, 1))
    assert not demand.within((9999, 9999))
