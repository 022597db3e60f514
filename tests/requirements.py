"""The requirements of the specification, and what checks each of them.

python -m tests.requirements            how many there are, and how they are checked
python -m tests.requirements messages   which of them speak of which message
python -m tests.requirements clauses    writes their texts, as the conformance kit ships them
python -m tests.requirements cases      writes which cases check each into requirements.yaml
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from parley_conformance.cases import ALL_CASES
from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES
from tests.support import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPEC = PROJECT / "protocol" / "spec"

CLAUSES = PROJECT / "protocol" / "parley_conformance" / "clauses.json"

LEVELS = ("MUST NOT", "MUST", "SHOULD NOT", "SHOULD", "MAY")
"""From the strongest to the weakest, each before what it begins with."""

_ITEM = re.compile(r"^- \[(R-[A-Z]+-\d+)\] (.*(?:\n  .*)*)", re.MULTILINE)

_NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|<!-- generated: .*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One sentence of the specification.

    Attributes:
        page: The name of the file it stands in.
    """

    id: str
    text: str
    page: str

    @property
    def levels(self) -> list[str]:
        """The words of RFC 2119 in it."""
        return levels_in(self.text)

    @property
    def messages(self) -> list[str]:
        """The messages it names."""
        named = re.findall(r"`([a-z.]+)`", self.text)
        return [kind for kind in (*CLIENT_MESSAGES, *SERVER_MESSAGES) if kind in named]


def pages() -> list[Path]:
    """Return the pages in the order of the index."""
    named = re.findall(r"\((\w+\.md)\)", (SPEC / "README.md").read_text())
    return [SPEC / name for name in dict.fromkeys(["README.md", *named])]


def requirements() -> list[Requirement]:
    """Return the requirements as they stand in the text."""
    return [
        Requirement(identity, " ".join(text.split()), page.name)
        for page in pages()
        for identity, text in _ITEM.findall(page.read_text())
    ]


def levels_in(text: str) -> list[str]:
    """Return the words of RFC 2119 in a text, code and generated parts left out."""
    return re.findall("|".join(rf"\b{level}\b" for level in LEVELS), _NOT_PROSE.sub("", text))


def outside_requirements(page: Path) -> str:
    """Return the text of a page without its requirements."""
    return _ITEM.sub("", page.read_text())


def entries() -> list[dict[str, Any]]:
    """Return what `requirements.yaml` says."""
    content = yaml.safe_load((SPEC / "requirements.yaml").read_text())
    return list(content)


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests in a file; none if there is no such file."""
    file = PROJECT / path
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def by_message() -> dict[str, tuple[str, ...]]:
    """Return the ids of the requirements that name each message."""
    return {
        kind: tuple(item.id for item in requirements() if kind in item.messages)
        for kind in (*CLIENT_MESSAGES, *SERVER_MESSAGES)
    }


def clauses_text() -> str:
    """Return the requirements as the conformance kit ships them, without these pages."""
    lines = (
        json.dumps(
            {"id": item.id, "level": item.levels[0], "text": item.text, "page": item.page},
            ensure_ascii=False,
        )
        for item in requirements()
    )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def report() -> str:
    """Return how many requirements there are and how they are checked."""
    listed = entries()
    levels = Counter(entry["level"] for entry in listed)
    tested = sum(bool(entry.get("tests")) for entry in listed)
    cases = sum(bool(entry.get("cases")) for entry in listed)
    reasons = sum("unchecked" in entry for entry in listed)
    named = {test for entry in listed for test in entry.get("tests", ())}
    counted = ", ".join(f"{levels[level]} {level}" for level in LEVELS if levels[level])
    return "\n".join(
        [
            (
                f"{len(listed)} requirements ({counted}): {tested} checked by {len(named)} tests, "
                f"{cases} by conformance cases, {reasons} unchecked for a written reason"
            ),
            *(_told(side, *_checked(side, listed)) for side in SIDES),
        ]
    )


SIDES = ("dispatcher", "server")


def sides_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return whose duty a requirement is, by the subject of its sentence.

    What neither names is about messages or files of the server, with these exceptions.
    """
    subject = entry["text"].split(entry["level"])[0].lower()
    if entry["id"] in _OF_BOTH or re.search(r"\b(receiver|sender|neither side)\b", subject):
        return SIDES
    return ("dispatcher",) if "dispatcher" in subject and "server" not in subject else ("server",)


_OF_BOTH = frozenset({"R-SEC-6"})


def _checked(side: str, listed: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return how many MUSTs of a side there are, and how they are checked."""
    musts = [
        entry for entry in listed if entry["level"].startswith("MUST") and side in sides_of(entry)
    ]
    by_case = [entry for entry in musts if entry["id"] in covered(side)]
    rest = [entry for entry in musts if entry["id"] not in covered(side)]
    tests = [entry for entry in rest if entry.get("tests")]
    reasons = [entry for entry in rest if "unchecked" in entry]
    other = [entry for entry in rest if entry not in tests and entry not in reasons]
    return len(musts), len(by_case), len(tests), len(reasons), len(other)


@cache
def covered(side: str) -> frozenset[str]:
    """Return the requirements that some case of a side checks."""
    cases = (case for case in ALL_CASES if case.side == side)
    return frozenset(identity for case in cases for identity in case.requirements)


def _told(side: str, musts: int, cases: int, tests: int, reasons: int, other: int) -> str:
    return (
        f"of {musts} MUSTs of a {side}: {cases} checked by a {side} case, {tests} by tests only, "
        f"{reasons} unchecked for a written reason, {other} in no way"
    )


def with_cases(text: str) -> str:
    """Return the text of `requirements.yaml` with the cases that check each requirement."""
    by_requirement: dict[str, list[str]] = {}
    for case in ALL_CASES:
        for identity in case.requirements:
            by_requirement.setdefault(identity, []).append(case.id)
    blocks = re.split(r"(?m)^(?=- id: )", text)
    return "".join(_with_cases(block, by_requirement) for block in blocks)


def _with_cases(block: str, by_requirement: Mapping[str, Sequence[str]]) -> str:
    named = re.match(r"- id: (\S+)", block)
    if named is None:
        return block
    cases = by_requirement.get(named[1], [])
    listed = "".join(f"\n  - {case}" for case in cases) if cases else " []"
    block = re.sub(r"(?m)^  cases:(?: \[\]|(?:\n  - .*)+)$", f"  cases:{listed}", block)
    # A reason why nothing checks it is out of date where something does.
    if cases:
        block = re.sub(r"(?m)^  unchecked:.*\n(?:    .*\n)*", f"  cases:{listed}\n", block)
    return block


if __name__ == "__main__":
    if sys.argv[1:] == ["messages"]:
        for kind, identities in by_message().items():
            print(f'    "{kind}": {identities},')
    elif sys.argv[1:] == ["clauses"]:
        CLAUSES.write_text(clauses_text())
    elif sys.argv[1:] == ["cases"]:
        file = SPEC / "requirements.yaml"
        file.write_text(with_cases(file.read_text()))
    else:
        print(report())
