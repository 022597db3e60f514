"""The digest of a state: the same for the same state however it is held, another for another."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from parley_protocol.digest import state_digest

numbers = st.integers(0, 2**53 - 1)
spans = st.lists(st.tuples(numbers, numbers, numbers), max_size=3)

states = st.fixed_dictionaries(
    {
        "now_us": numbers,
        "pending": st.lists(numbers, max_size=4, unique=True),
        "held": st.lists(numbers, max_size=3, unique=True),
        "running": st.lists(
            st.tuples(numbers, numbers, st.lists(spans, max_size=2)),
            max_size=3,
            unique_by=lambda entry: entry[0],
        ),
        "free": st.dictionaries(st.text(max_size=4), numbers, max_size=3),
        "down": st.lists(st.tuples(numbers, numbers), max_size=2, unique=True),
        "timers": st.dictionaries(numbers, numbers, max_size=3),
    }
)


def plain(state):
    """Return a state in one order."""
    return {
        key: dict(sorted(value.items()))
        if isinstance(value, dict)
        else sorted(value)
        if isinstance(value, list)
        else value
        for key, value in state.items()
    }


@given(state=states, data=st.data())
def test_the_order_in_which_a_state_is_held_does_not_show(state, data):
    shuffled = {
        key: dict(data.draw(st.permutations(list(value.items()))))
        if isinstance(value, dict)
        else data.draw(st.permutations(value))
        if isinstance(value, list)
        else value
        for key, value in state.items()
    }

    assert state_digest(**shuffled) == state_digest(**state)


@given(one=states, other=states)
def test_two_states_have_two_digests(one, other):
    assert (state_digest(**one) == state_digest(**other)) == (plain(one) == plain(other))


def test_the_digest_of_an_empty_state_is_that_of_one_line():
    digest = state_digest(now_us=7, pending=(), held=(), running=(), free={}, down=(), timers={})

    assert digest == hashlib.sha256(b"now 7\n").hexdigest()
