"""What became of every line of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ReadReport:
    """Counts of a reader's lines.

    Attributes:
        lines: All lines read.
        comments: Header, comment and blank lines.
        kept: Lines that became jobs.
        dropped: Lines that did not, by the rule that dropped them.
        filled: Values that the trace left out, by what was filled in.
        ignored: Values that are read and have no effect yet, by field.
        first_malformed: The first line that could not be read, and why.
    """

    lines: int = 0
    comments: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    first_malformed: str | None = None

    def copy(self) -> ReadReport:
        """Return a copy that shares nothing that changes."""
        return ReadReport(
            self.lines,
            self.comments,
            self.kept,
            dict(self.dropped),
            dict(self.filled),
            dict(self.ignored),
            self.first_malformed,
        )

    def table(self) -> dict[str, Any]:
        """Return the counts as they stand in a summary: `lines`, and `dropped` by rule."""
        lines: dict[str, Any] = {
            "read": self.lines,
            "comments": self.comments,
            "kept": self.kept,
            "filled": dict(sorted(self.filled.items())),
            "ignored": dict(sorted(self.ignored.items())),
        }
        if self.first_malformed is not None:
            lines["first_malformed"] = self.first_malformed
        return {"lines": lines, "dropped": dict(sorted(self.dropped.items()))}

    def drop(self, rule: str) -> None:
        """Count one line that *rule* dropped."""
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
