"""Quantities: what is written is read, and what is no quantity is wrong usage."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley_server.errors import UsageError
from parley_server.quantities import (
    MICROSECONDS,
    format_seconds,
    parse_amounts,
    parse_duration,
    parse_seconds,
)

UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}

instants = st.integers(-(2**63), 2**63) | st.integers(-(10**8), 10**8)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)

# ---------------------------------------------------------------------- laws


@given(microseconds=instants)
@example(microseconds=0)
@example(microseconds=-1)
@example(microseconds=-MICROSECONDS)
def test_a_time_that_is_written_is_read(microseconds):
    text = format_seconds(microseconds)

    assert parse_seconds(text) == microseconds


@given(microseconds=instants)
def test_a_time_is_written_as_its_seconds_with_nothing_to_spare(microseconds):
    text = format_seconds(microseconds)

    assert Decimal(text) * MICROSECONDS == microseconds
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d{0,5}[1-9])?", text)


@given(microseconds=instants.map(abs))
def test_a_time_that_is_written_is_a_duration(microseconds):
    text = format_seconds(microseconds)

    assert parse_duration(text) == parse_duration(f"{text}s") == microseconds


@given(number=st.integers(0, 10**9), unit=st.sampled_from(sorted(UNITS)), space=st.booleans())
def test_a_duration_is_its_number_of_units(number, unit, space):
    text = f"{number}{' ' * space}{unit}"

    assert parse_duration(text) == number * UNITS[unit]
    assert parse_duration(f" {text}\n") == number * UNITS[unit]


@given(amounts=st.dictionaries(names, st.integers(0, 10**18 - 1), min_size=1, max_size=4))
def test_amounts_that_are_written_are_read(amounts):
    tight = ",".join(f"{name}={amount}" for name, amount in amounts.items())
    loose = " , ".join(f"{name} = {amount}" for name, amount in amounts.items())

    assert parse_amounts(tight) == amounts
    assert parse_amounts(loose) == amounts


@given(text=st.text(max_size=12) | st.text("0123456789.smhdu =,core-", max_size=12))
@example(text="9" * 5000)
@example(text="core=" + "9" * 5000)
@pytest.mark.parametrize("parse", [parse_duration, parse_amounts])
def test_whatever_is_no_quantity_is_wrong_usage(parse, text):
    try:
        value = parse(text)
    except UsageError as error:
        value = str(error)

    assert value or value == 0


# ---------------------------------------------------------------------- examples


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("90", 90 * 10**6),
        ("90s", 90 * 10**6),
        ("5m", 300 * 10**6),
        ("4h", 14_400 * 10**6),
        ("2d", 172_800 * 10**6),
        ("1.5m", 90 * 10**6),
        ("0.1", 100_000),
        ("250ms", 250_000),
        ("7us", 7),
        ("0", 0),
    ],
)
def test_durations_as_users_write_them(text, microseconds):
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1.", ".5", "1e3", "5x", "5 min", "1m30s", "5M"])
def test_what_is_no_duration_is_named(text):
    with pytest.raises(UsageError, match="is no duration") as caught:
        parse_duration(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", "core", "core=", "=4", "core=-1", "core=1.5", "core:4", "4=core", "core=4,", "core=4;gpu=1", "core=4 gpu=1"])  # fmt: skip  # noqa: E501
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(UsageError, match="is no amount"):
        parse_amounts(text)


def test_an_amount_that_stands_twice_is_refused():
    with pytest.raises(UsageError, match="'core' stands twice"):
        parse_amounts("core=4,gpu=1,core=5")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0"),
        (1, "0.000001"),
        (10, "0.00001"),
        (1_500_000, "1.5"),
        (60_000_000, "60"),
        (-1, "-0.000001"),
        (-1_500_000, "-1.5"),
        (-2_000_000, "-2"),
    ],
)
def test_times_as_files_show_them(microseconds, text):
    assert format_seconds(microseconds) == text
    assert parse_seconds(text) == microseconds
