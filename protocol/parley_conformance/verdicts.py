"""What the kit says of a case, and of how a program ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What came of a case."""

    PASS = "PASS"  # noqa: S105 - a verdict, no password
    NON_STRICT = "NON_STRICT"
    """A SHOULD was missed."""
    FAIL = "FAIL"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    """The program does not do what the case is about, and need not."""
    ERROR = "ERROR"
    """The kit could not judge; the fault is not the program's."""


class Ending(Enum):
    """How a program ended."""

    CLEAN = "CLEAN"
    """By itself, when it was due, with the exit status that says what happened."""
    UNCLEAN = "UNCLEAN"
    """By itself, but too early or with another exit status."""
    TIMEOUT = "TIMEOUT"
    """It stayed and was ended by the kit."""
    CRASH = "CRASH"
    """By a signal that the kit did not send."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a judge found in a dialogue.

    Attributes:
        verdict: PASS, FAIL or NOT_APPLICABLE; a FAIL of a SHOULD becomes NON_STRICT.
        reason: Why, in a sentence; empty for PASS.
        line: The number of the offending line of the dialogue, from 1; 0 if none is.
        scene: Which of the dialogues, from 0.
    """

    verdict: Verdict
    reason: str = ""
    line: int = 0
    scene: int = 0


PASSED = Finding(Verdict.PASS)


def failed(reason: str, line: int = 0, *, scene: int = 0) -> Finding:
    """Return that the program is at fault."""
    return Finding(Verdict.FAIL, reason, line, scene)


def not_applicable(reason: str) -> Finding:
    """Return that the program does not do what the case is about."""
    return Finding(Verdict.NOT_APPLICABLE, reason)
