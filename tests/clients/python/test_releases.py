"""When running jobs give their slots back, against adding up instant by instant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley_client.estimates import NEVER, SECOND_US
from parley_client.releases import Releases

# Around now, within the second after it, and beyond; some jobs have no limit.
NOW = 5 * SECOND_US
_ENDS = st.one_of(
    st.integers(NOW - 2 * SECOND_US, NOW + 3 * SECOND_US),
    st.sampled_from([NOW, NOW + 1, NOW + SECOND_US - 1, NOW + SECOND_US, NOW + SECOND_US + 1]),
    st.integers(0, 40 * SECOND_US),
    st.just(NEVER),
)
_HELD = st.lists(st.tuples(_ENDS, st.integers(1, 5)), max_size=400)


def _one_by_one(held: list[tuple[int, int]], slots: int, now: int) -> tuple[int, int]:
    """Return what `Releases.earliest` is to say: the late ones come in a second."""
    come = 0
    ends = [(end if end > now else now + SECOND_US, count) for end, count in held]
    for instant in sorted({end for end, _ in ends}):
        come += sum(count for end, count in ends if end == instant)
        if come >= slots:
            return instant, come - slots
    return NEVER, 0


@given(_HELD, st.data())
def test_the_earliest_release_is_that_of_adding_up(
    held: list[tuple[int, int]], data: st.DataObject
) -> None:
    releases = Releases()
    for end, slots in held:
        releases.add(end, slots)
    gone = data.draw(st.lists(st.integers(0, max(len(held) - 1, 0)), unique=True)) if held else []
    for index in gone:
        releases.remove(*held[index])
    left = [entry for index, entry in enumerate(held) if index not in set(gone)]
    assert releases.total == sum(slots for _, slots in left)
    wanted = data.draw(st.integers(1, releases.total + 2))
    assert releases.earliest(wanted, NOW) == _one_by_one(left, wanted, NOW)
    assert releases.overdue(NOW) == any(end <= NOW for end, _ in left)
