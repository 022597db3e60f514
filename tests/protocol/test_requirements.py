"""The join: every requirement of the specification is listed, worded alike, and checked."""

from __future__ import annotations

import re

import pytest

from parley_protocol import PROTOCOL_VERSION
from parley_protocol.requirements import REQUIREMENTS_BY_MESSAGE
from tests.requirements import (
    CLAUSES,
    LEVELS,
    SIDES,
    SPEC,
    by_message,
    clauses_text,
    covered,
    entries,
    levels_in,
    names_in,
    outside_requirements,
    pages,
    report,
    requirements,
    sides_of,
    with_cases,
)

STATED = requirements()
LISTED = entries()


def test_every_requirement_of_the_text_is_listed_and_none_else():
    stated = [requirement.id for requirement in STATED]
    listed = [entry["id"] for entry in LISTED]

    assert sorted(stated) == sorted(set(stated))
    assert listed == stated


def test_the_list_says_what_the_text_says():
    texts = {requirement.id: requirement.text for requirement in STATED}

    assert {entry["id"]: entry["text"] for entry in LISTED} == texts


def test_every_requirement_is_one_sentence_with_its_level():
    for requirement in STATED:
        assert requirement.levels, requirement.id
        assert re.fullmatch(r"[A-Z`].*\.", requirement.text), requirement.id
        assert not re.search(r"[.!?] [A-Z]", requirement.text), requirement.id


def test_the_level_of_a_requirement_is_its_first():
    levels = {requirement.id: requirement.levels[0] for requirement in STATED}

    assert {entry["id"]: entry["level"] for entry in LISTED} == levels


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_nothing_is_required_without_an_id(page):
    assert levels_in(outside_requirements(page)) == []


def test_every_page_is_in_the_index():
    assert {page.name for page in pages()} == {page.name for page in SPEC.glob("*.md")}


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry["id"])
def test_every_requirement_is_checked_or_says_why_not(entry):
    assert set(entry) <= {"id", "level", "text", "tests", "cases", "unchecked"}
    assert entry["level"] in LEVELS
    checks = [*entry.get("tests", ()), *entry.get("cases", ())]
    if "unchecked" in entry:
        assert len(entry["unchecked"].split()) >= 5
        assert not checks
    else:
        assert checks
    for test in entry.get("tests", ()):
        path, _, name = test.partition("::")
        assert name in names_in(path), test


def test_the_list_names_the_cases_that_check_each_requirement():
    text = (SPEC / "requirements.yaml").read_text()

    assert with_cases(text) == text, "python -m tests.requirements cases brings it up to date"


def test_the_conformance_kit_ships_the_requirements_as_they_stand():
    assert CLAUSES.read_text() == clauses_text(), "python -m tests.requirements clauses writes it"


@pytest.mark.parametrize("side", SIDES)
def test_every_must_of_a_side_is_checked_or_says_why_not(side):
    unchecked = [
        entry["id"]
        for entry in LISTED
        if entry["level"].startswith("MUST") and side in sides_of(entry)
        if entry["id"] not in covered(side) and not entry.get("tests") and "unchecked" not in entry
    ]

    assert unchecked == []


def test_few_requirements_are_unchecked():
    unchecked = [entry["id"] for entry in LISTED if "unchecked" in entry]

    assert len(unchecked) <= len(LISTED) // 20
    assert str(len(LISTED)) in report()


def test_the_catalog_names_the_requirements_of_each_message():
    assert by_message() == REQUIREMENTS_BY_MESSAGE


def test_the_text_names_the_version_of_the_code():
    named = re.findall(r"version (\d+\.\d+)\n", (SPEC / "README.md").read_text())
    newest = re.search(r"^## (.*)$", (SPEC / "changelog.md").read_text(), re.MULTILINE)[1]

    assert named == [PROTOCOL_VERSION]
    assert newest == PROTOCOL_VERSION
    assert f"now {PROTOCOL_VERSION}." in (SPEC / "versioning.md").read_text()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            anchors = {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }
            assert anchor in anchors, target
