"""What can go wrong, by whose fault it is: each type has its exit status."""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitStatus(IntEnum):
    """How the command ends."""

    COMPLETE = 0
    FAILED = 1
    USAGE = 2
    INTERNAL = 3
    INTERRUPTED = 130


class ParleyError(Exception):
    """Something a user can be told in one line.

    Attributes:
        reason: One word for `summary.json`, if it broke a run off.
    """

    exit_status: ClassVar[ExitStatus] = ExitStatus.INTERNAL
    reason: str = "failed"


class UsageError(ParleyError):
    """Wrong usage: an option, a name or a setting that makes no sense."""

    exit_status = ExitStatus.USAGE
    reason = "usage_error"


class InputError(ParleyError):
    """A file that cannot be used; the text names it, and the line if there is one."""

    exit_status = ExitStatus.USAGE
    reason = "input_error"


class OutputError(ParleyError):
    """Results cannot be written."""

    exit_status = ExitStatus.FAILED
    reason = "output_error"


class RunFailed(ParleyError):
    """The run broke off.

    Attributes:
        reason: `dispatcher_exited`, `deadline_missed`, ...
    """

    exit_status = ExitStatus.FAILED

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def one_line(text: str) -> str:
    """Return a message without line ends and other marks that a terminal would obey."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in shown)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the hint to append where a word is unknown; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
