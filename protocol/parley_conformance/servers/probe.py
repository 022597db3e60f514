"""How a case for a server is made: a dialogue that breaks off where the server is at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_conformance.case import Case, Scene
from parley_conformance.judging import went_on
from parley_conformance.servers.hall import Breach, Hall
from parley_conformance.servers.settings import PLAIN, Setting
from parley_conformance.stage import NotForThis
from parley_conformance.verdicts import Finding, failed, not_applicable

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_conformance.dialogue import Line, Record

    Play = Callable[[Hall], None]


def played(play: Play) -> Play:
    """Return a dialogue which notes a breach instead of raising it."""

    def noted(hall: Hall) -> None:
        facts = hall.record.facts
        try:
            play(hall)
        except Breach as error:
            lines = list(hall.record.of_program())
            number = error.line or (lines[-1].number if lines else 0)
            facts["breach"] = (str(error), number)
        except NotForThis as error:
            facts["not_for_this"] = str(error)

    return noted


def found(record: Record) -> Finding | None:
    """Judge by what the dialogue has noted."""
    if "not_for_this" in record.facts:
        return not_applicable(record.facts["not_for_this"])
    if "breach" in record.facts:
        reason, line = record.facts["breach"]
        return failed(reason, line)
    return went_on(record)


def probe(
    identity: str,
    title: str,
    *requirements: str,
    right: str,
    setting: Setting = PLAIN,
    profile: str = "core",
    must: bool = True,
    alone: bool = False,
    weight: float = 1.0,
    timed: bool = False,
) -> Callable[[Play], Case]:
    """Return a decorator that makes a case of a dialogue; its docstring tells what happens."""

    def made(play: Play) -> Case:
        about = " ".join((play.__doc__ or title).split()).rstrip(".")
        scene: Scene[Any] = Scene(
            identity.lower(),
            played(play),
            about,
            setting.name,
            alone=alone,
            weight=weight,
            timed=timed,
        )
        return Case(identity, "server", title, right, requirements, profile, must, (scene,), found)

    return made


def require(holds: object, reason: str, line: Line | None = None) -> None:
    """Go on if this holds.

    Raises:
        Breach: It does not.
    """
    if not holds:
        raise Breach(reason, line.number if line is not None else 0)


def refused(line: Line, code: str, *, fatal: bool = False) -> None:
    """Go on if the server refused a message so.

    Raises:
        Breach: It did not.
    """
    require(line.kind == "error", f"an error {code} is due, {line.kind} came", line)
    given = line.body["code"]
    require(given == code, f"the code is {given}, not {code}", line)
    told = line.body["fatal"]
    require(told is fatal, f"fatal is {told} with {code}", line)


def outcome(line: Line, index: int = 0) -> dict[str, Any]:
    """Return an outcome of a request.

    Raises:
        Breach: There is none.
    """
    outcomes = line.body.get("outcomes") or []
    require(index < len(outcomes), f"outcome {index} is missing", line)
    result: dict[str, Any] = outcomes[index]
    return result


def rejected(line: Line, code: str, index: int = 0) -> None:
    """Go on if a decision was rejected so.

    Raises:
        Breach: It was not.
    """
    one = outcome(line, index)
    given = one.get("code") if one["status"] == "rejected" else one["status"]
    require(given == code, f"the outcome is {given}, not {code}", line)


def applied(line: Line, index: int = 0) -> dict[str, Any]:
    """Return an outcome that was applied.

    Raises:
        Breach: It was not.
    """
    one = outcome(line, index)
    require(one["status"] == "applied", f"the decision was refused as {one.get('code')}", line)
    return one
