"""What holds for all cases: ids, requirements, and a mutant for each."""

from __future__ import annotations

import re

import pytest

from parley_conformance.case import PROFILES, select
from parley_conformance.cases import ALL_CASES
from parley_conformance.clauses import clauses
from tests.conformance.mutants import dispatcher, server
from tests.conformance.table import table


def test_ids_are_names_and_each_is_given_once():
    ids = [case.id for case in ALL_CASES]

    assert len(ids) >= 120
    assert sorted(ids) == sorted(set(ids))
    assert all(re.fullmatch(r"[A-Z]+(-[A-Z]+)*", identity) for identity in ids)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_every_case_is_tied_to_the_text_and_says_what_is_right(case):
    assert case.requirements
    assert set(case.requirements) <= clauses().keys()
    assert case.profile in PROFILES
    assert case.scenes
    assert all(scene.about and not scene.about.endswith(".") for scene in case.scenes)
    assert re.fullmatch(r"[A-Z`].*\.", case.title)
    assert re.fullmatch(r"\S.*\.", case.right)


def test_every_profile_has_cases_of_each_side_that_it_concerns():
    of_side = {
        side: {case.profile for case in ALL_CASES if case.side == side}
        for side in ("dispatcher", "server")
    }

    assert of_side["dispatcher"] == set(PROFILES)
    assert of_side["server"] == set(PROFILES)


def test_every_mutant_is_in_the_table_and_none_else():
    assert set(table()["dispatcher"]) == set(dispatcher.FAULTS)
    assert set(table()["server"]) == set(server.FAULTS)


def test_every_case_has_a_mutant_that_it_must_fail():
    for side, rows in table().items():
        known = {case.id for case in ALL_CASES if case.side == side}
        killed = {identity for due in rows.values() for identity in due}

        assert killed == known


def test_the_table_holds_faults_enough_and_right_programs_too():
    faulty = [name for rows in table().values() for name, due in rows.items() if due]
    right = [name for rows in table().values() for name, due in rows.items() if not due]

    assert len(faulty) >= 30
    assert {"dispatcher", "server", "snapshots", "json"} <= set(right)


def test_cases_are_chosen_by_glob_and_profile():
    assert [case.id for case in select(ALL_CASES, globs=["seq-re"])] == ["SEQ-RE"]
    assert {case.profile for case in select(ALL_CASES, profiles=["json"])} == {"json"}
    assert len(select(ALL_CASES)) == len(ALL_CASES)
