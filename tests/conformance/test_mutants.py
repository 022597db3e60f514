"""A mutant fails the cases that its fault concerns, and no others.

These are a few of them: `python -m tests.conformance.table` runs them all, and CI does.
"""

from __future__ import annotations

import pytest

from tests.conformance.mutants.nursery import Nursery
from tests.conformance.table import failed, faults, results_of, table


@pytest.fixture(scope="session")
def nursery():
    with Nursery() as started:
        yield started


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
