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
        first_of: For rules whose name does not say enough, the first line that each dropped.
    """

    lines: int = 0
    comments: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    first_malformed: str | None = None
    first_of: dict[str, str] = field(default_factory=dict)

    def restore(self, other: ReadReport) -> None:
        """Take over another report's counts; nothing that changes is shared."""
        for name in ("lines", "comments", "kept", "first_malformed"):
            setattr(self, name, getattr(other, name))
        for name in ("dropped", "filled", "ignored", "first_of"):
            setattr(self, name, dict(getattr(other, name)))

    def copy(self) -> ReadReport:
        """Return a copy that shares nothing that changes."""
        twin = ReadReport()
        twin.restore(self)
        return twin

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
        if self.first_of:
            lines["first_of"] = dict(sorted(self.first_of.items()))
        return {"lines": lines, "dropped": dict(sorted(self.dropped.items()))}

    def fill(self, what: str) -> None:
        """Count one value that the trace left out or that a rule changed."""
        self.filled[what] = self.filled.get(what, 0) + 1

    def ignore(self, what: str) -> None:
        """Count one value that is read and has no effect."""
        self.ignored[what] = self.ignored.get(what, 0) + 1

    def drop(self, rule: str) -> None:
        """Count one line that *rule* dropped."""
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
