"""Each mutant fails the cases that its fault concerns, and no others; right programs fail none."""

from __future__ import annotations

import pytest

from tests.conformance.mutants.nursery import Nursery
from tests.conformance.table import failed, faults, mutants, results_of, table


@pytest.fixture(scope="session")
def nursery():
    with Nursery() as started:
        yield started


@pytest.mark.long
@pytest.mark.parametrize(("side", "name"), mutants())
def test_a_mutant_fails_exactly_its_cases(nursery, side, name):
    results = results_of(nursery, side, name)

    assert faults(results) == []
    assert failed(results) == table()[side][name]


@pytest.mark.parametrize("name", ["re-zero", "epoch-one"])
def test_some_mutants_of_a_dispatcher_fail_exactly_their_cases(nursery, name):
    results = results_of(nursery, "dispatcher", name)

    assert faults(results) == []
    assert failed(results) == table()["dispatcher"][name]


@pytest.mark.parametrize("name", ["tattles"])
def test_some_mutants_of_a_server_fail_exactly_their_cases(nursery, name):
    results = results_of(nursery, "server", name)

    assert faults(results) == []
    assert failed(results) == table()["server"][name]
