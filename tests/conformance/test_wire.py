"""The kit's reader and writers of bytes."""

from __future__ import annotations

import json

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_conformance import wire
from tests.payloads import UNDECODABLE

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53 - 1), 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
inner = st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=3)
maps = st.dictionaries(texts, scalars | inner, max_size=18)

some = settings(max_examples=60)


@some
@given(value=maps)
def test_what_is_packed_is_read_alike_by_everybody(value):
    for wide in (False, True):
        frame = wire.packed(value, wide=wide)

        assert wire.read(frame) == (value, [])
        assert msgpack.unpackb(frame) == value
    assert wire.packed(value) == msgpack.packb(value)


@some
@given(value=maps)
def test_odd_spellings_mean_the_same(value):
    text = wire.spelled_oddly(value)

    assert json.loads(text) == value
    assert wire.read(text.encode()) == (value, [])
    assert wire.with_floats(value) == value
    assert wire.backwards(value) == value


@some
@given(frame=st.binary(max_size=200))
def test_no_bytes_whatever_are_too_much_for_the_reader(frame):
    message, faults = wire.read(frame)

    assert message is not None or faults


@pytest.mark.parametrize("name", sorted(UNDECODABLE))
def test_whatever_a_server_refuses_has_a_fault_or_is_too_much(name):
    code, payload = UNDECODABLE[name]
    _, faults = wire.read(payload)

    assert faults or str(code).startswith("limit.")


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b"\x81\xa1a\xc4\x01x", "type"),
        (b"\x81\xa1a\xd4\x01x", "type"),
        (b"\x81\x01\x01", "key"),
        (b"\x82\xa1a\x01\xa1a\x02", "duplicate"),
        (b"\x81\xa1a\xa1\xff", "text"),
        (b"\x81\xa1a\xcf" + b"\xff" * 8, "range"),
        (b"\x81\xa1a\xcb\x7f\xf0" + b"\x00" * 6, "finite"),
        (b"\x80\x00", "trailing"),
        (b"\x81\xa1a", "truncated"),
        (b"\xc1", "malformed"),
        (b"\x93\x01\x02\x03", "malformed"),
        (b'{"a":1,"a":2}', "duplicate"),
        (b'{"a":NaN}', "finite"),
        (b'{"a":1} x', "trailing"),
        (b'{"a":"\\ud800"}', "text"),
        (b'{"a":99999999999999999999}', "range"),
        (b'{"a"}', "malformed"),
    ],
)
def test_each_breach_of_the_profile_has_its_name(frame, kind):
    _, faults = wire.read(frame)

    assert [fault.kind for fault in faults] == [kind]


def test_unknown_fields_go_into_maps_of_fields_only():
    told = wire.with_excess({"capacity": {"core": 1}, "job": {"job": 1}}, frozenset({"capacity"}))

    assert told["capacity"] == {"core": 1}
    assert "x_first" in told
    assert "x_last" in told["job"]
