"""The report as data, from which every other form is made; JSON has this shape."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from parley_conformance.case import PROFILES
from parley_conformance.clauses import clauses
from parley_conformance.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from parley_conformance.dialogue import Line, Record
    from parley_conformance.runner import Result

REPORT_VERSION = 1

MOST_TEXT = 4000
"""Characters of a message that a report shows."""

MOST_BYTES = 2048
"""Bytes of a frame that a report shows."""

VerdictName = Literal["PASS", "NON_STRICT", "FAIL", "NOT_APPLICABLE", "ERROR"]


class ProgramReport(TypedDict):
    """What was put to the test."""

    command: Annotated[list[str], Field(description="As it was given.")]
    name: Annotated[str, Field(description="What the program calls itself, or the command.")]
    version: NotRequired[Annotated[str, Field(description="As the program says.")]]
    language: NotRequired[Annotated[str, Field(description="As the program says.")]]


class ClauseReport(TypedDict):
    """A sentence of the specification."""

    id: str
    text: str
    page: Annotated[str, Field(description="Of the specification.")]


class CaseReport(TypedDict):
    """A case and what came of it."""

    id: Annotated[str, Field(description="Stable.")]
    title: str
    right: Annotated[str, Field(description="What a right answer looks like.")]
    profile: Annotated[str, Field(json_schema_extra={"enum": list(PROFILES)})]
    level: Literal["MUST", "SHOULD"]
    clauses: list[ClauseReport]
    verdict: VerdictName
    expected: Annotated[bool, Field(description="A failure of this case was expected.")]
    reason: Annotated[str, Field(description="Why; empty for PASS.")]
    ending: Annotated[
        Literal["CLEAN", "UNCLEAN", "TIMEOUT", "CRASH"] | None,
        Field(description="How the program ended after this dialogue."),
    ]
    dialogue: Annotated[str, Field(description="The name of the dialogue it was judged by.")]
    line: Annotated[int, Field(description="The offending line of the dialogue; 0 if none is.")]
    took_ms: Annotated[int, Field(description="Wall time of that dialogue.")]


class LineReport(TypedDict):
    """A message of a dialogue, or a note."""

    n: int
    sender: Annotated[str, Field(json_schema_extra={"enum": ["program", "kit", "note"]})]
    at_ms: int
    peer: NotRequired[Annotated[str, Field(description="Which connection, if several.")]]
    text: Annotated[str, Field(description="The message as JSON text, or the note.")]
    hex: NotRequired[Annotated[str, Field(description="The frame, or its beginning.")]]
    faults: NotRequired[Annotated[list[str], Field(description="Breaches of the encoding.")]]


class DialogueReport(TypedDict):
    """A dialogue of which something is to be seen."""

    lines: list[LineReport]
    ending: str | None
    status: int | None
    output: Annotated[str, Field(description="What the program printed.")]


class Report(TypedDict):
    """What came of a run of the conformance kit."""

    report: Annotated[Literal[1], Field(description="Version of this format.")]
    protocol: str
    side: Literal["dispatcher", "server"]
    program: ProgramReport
    seed: int
    took_ms: int
    conformant: Annotated[bool, Field(description="No case failed.")]
    strict: Annotated[bool, Field(description="No SHOULD was missed either.")]
    counts: Annotated[dict[str, int], Field(description="Cases by verdict.")]
    profiles: Annotated[
        dict[str, dict[str, int]], Field(description="Cases by profile and verdict.")
    ]
    cases: list[CaseReport]
    dialogues: Annotated[
        dict[str, DialogueReport],
        Field(description="Those of cases that neither passed nor were not applicable."),
    ]


class NoReport(Exception):
    """A file is no report of the kit; the text says why in one line."""


def report_of(
    results: Sequence[Result],
    *,
    side: Literal["dispatcher", "server"],
    command: Sequence[str],
    seed: int,
    took_ms: int,
    expected: frozenset[str] = frozenset(),
) -> Report:
    """Return the report of a run."""
    counts = Counter(result.verdict.value for result in results)
    shown = [r for r in results if r.verdict not in {Verdict.PASS, Verdict.NOT_APPLICABLE}]
    dialogues = {}
    for result in shown:
        record = result.records[result.finding.scene]
        dialogues[record.scene] = dialogue_report(record)
    bad = [result for result in results if result.verdict is Verdict.FAIL]
    weak = [result for result in results if result.verdict is Verdict.NON_STRICT]
    faults = counts["ERROR"]
    return {
        "report": 1,
        "protocol": "1.0",
        "side": side,
        "program": _program(results, command, side),
        "seed": seed,
        "took_ms": took_ms,
        "conformant": not faults and all(result.case.id in expected for result in bad),
        "strict": not faults and all(result.case.id in expected for result in [*bad, *weak]),
        "counts": {verdict.value: counts[verdict.value] for verdict in Verdict},
        "profiles": _by_profile(results),
        "cases": [case_report(result, expected) for result in results],
        "dialogues": dialogues,
    }


def case_report(result: Result, expected: frozenset[str]) -> CaseReport:
    """Return what a report says of one case."""
    case, finding = result.case, result.finding
    record = result.records[finding.scene]
    return {
        "id": case.id,
        "title": case.title,
        "right": case.right,
        "profile": case.profile,
        "level": "MUST" if case.must else "SHOULD",
        "clauses": [
            {"id": clause.id, "text": clause.text, "page": clause.page}
            for clause in (clauses()[identity] for identity in case.requirements)
        ],
        "verdict": result.verdict.value,
        "expected": case.id in expected,
        "reason": finding.reason,
        "ending": record.ending.value if record.ending is not None else None,
        "dialogue": record.scene,
        "line": finding.line,
        "took_ms": record.took_ms,
    }


def dialogue_report(record: Record) -> DialogueReport:
    """Return what a report shows of a dialogue."""
    return {
        "lines": [line_report(line) for line in record.lines],
        "ending": record.ending.value if record.ending is not None else None,
        "status": record.status,
        "output": record.output[-MOST_TEXT:],
    }


def line_report(line: Line) -> LineReport:
    """Return what a report shows of one line."""
    told: LineReport = {
        "n": line.number,
        "sender": line.sender,
        "at_ms": line.at_ms,
        "text": line.text or message_text(line),
    }
    if line.peer:
        told["peer"] = line.peer
    if line.frames:
        frame = _without_token(b" | ".join(line.frames), line)
        told["hex"] = frame[:MOST_BYTES].hex() + ("..." if len(frame) > MOST_BYTES else "")
    if line.faults:
        told["faults"] = [fault.what for fault in line.faults]
    return told


def _without_token(frame: bytes, line: Line) -> bytes:
    """Return a frame in which asterisks stand for the token, or nothing of it may be shown."""
    resume = line.body.get("resume")
    token = resume.get("token") if isinstance(resume, dict) else line.body.get("token")
    if not isinstance(token, str) or not token:
        return frame
    raw = token.encode(errors="replace")
    return frame.replace(raw, b"*" * len(raw)) if raw in frame else b""


def message_text(line: Line) -> str:
    """Return a message as JSON text, its token masked, and not too much of it."""
    if line.message is None:
        return "(cannot be read)" if line.frames else ""
    text = json.dumps(_masked(line.message), ensure_ascii=False)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} ... ({len(text)} characters)"


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: "(masked)" if key == "token" and isinstance(item, str) else _masked(item)
                for key, item in value.items()
            }
        case list():
            return [_masked(item) for item in value]
        case _:
            return value


def _by_profile(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    table: dict[str, Counter[str]] = {}
    for result in results:
        table.setdefault(result.case.profile, Counter())[result.verdict.value] += 1
    return {name: dict(sorted(table[name].items())) for name in PROFILES if name in table}


def _program(results: Iterable[Result], command: Sequence[str], side: str) -> ProgramReport:
    told: ProgramReport = {"command": list(command), "name": " ".join(command)}
    kind, field = ("hello", "client") if side == "dispatcher" else ("welcome", "server")
    for result in results:
        line = result.records[0].first(kind)
        who: Any = line.body.get(field) if line is not None else None
        if isinstance(who, dict) and isinstance(who.get("name"), str):
            told["name"] = who["name"][:200]
            if isinstance(who.get("version"), str):
                told["version"] = who["version"][:200]
            if isinstance(who.get("language"), str):
                told["language"] = who["language"][:200]
            break
    return told


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report."""
    return TypeAdapter(Report).json_schema()


def read_report(text: str) -> Report:
    """Return a report from JSON text.

    Raises:
        NoReport: It is none.
    """
    try:
        return TypeAdapter(Report).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise NoReport(f"no report of the conformance kit: {where}: {first['msg']}") from None


def as_json(report: Mapping[str, Any]) -> str:
    """Return a report as JSON text."""
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
