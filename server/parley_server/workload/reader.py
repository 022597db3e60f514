"""What all readers of formats have in common: lines in, entries out, everything counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from parley_server.errors import InputError, one_line
from parley_server.workload.files import Blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parley_server.workload.entry import Entry
    from parley_server.workload.report import ReadReport


class Reader(Protocol):
    """The lines of one workload, in the order in which they stand.

    Attributes:
        header: What is said of the whole workload, by key.
        partition_names: What it calls partitions, by number.
        report: What became of the lines so far; the reader counts lines, comments and what is
            malformed.
    """

    header: dict[str, str]
    partition_names: dict[str, str]
    report: ReadReport

    @property
    def name(self) -> str:
        """The workload as messages name it."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing is held open any more."""
        ...

    def read(self) -> Entry | None:
        """Return the next line that could be read, or None at the end.

        Raises:
            InputError: The file cannot be read on, or strict reading met a malformed line.
        """
        ...

    def where(self) -> str:
        """Return where the line that was read last stands, such as `line 7`."""
        ...

    def place(self) -> object:
        """Return where `read` stands: plain data that `seek` understands.

        Raises:
            OneWay: What was read cannot be read again.
        """
        ...

    def seek(self, place: object) -> None:
        """Go on at a place; the report is left as it is.

        Raises:
            OneWay: What was read cannot be read again.
        """
        ...

    def close(self) -> None:
        """Let go of the file. May be called twice."""
        ...


class Trouble:
    """How a reader takes lines that are no jobs: skipped and counted, or the end of it.

    Args:
        name: The workload as messages name it.
        report: Where they are counted.
        strict: A malformed line is an error.
    """

    def __init__(self, name: str, report: ReadReport, *, strict: bool) -> None:
        self.name = name
        self.report = report
        self.strict = strict

    def malformed(self, where: str, reason: str) -> None:
        """Count one line that could not be read.

        Raises:
            InputError: Under strict rules.
        """
        reason = one_line(reason)
        if self.report.first_malformed is None:
            self.report.first_malformed = f"{where}: {reason}"
        if self.strict:
            raise InputError(f"{self.name}: {where}: {reason}")
        self.report.drop("malformed")


class Records:
    """A reader's records as they come, counted, and found again by reading from the start.

    What SWF does by offsets in a file the other formats do by counting: their records have no
    place of their own in a file.
    """

    header: dict[str, str]
    partition_names: dict[str, str]
    report: ReadReport

    def __init__(self, path: Path, report: ReadReport, *, strict: bool) -> None:
        self.path = path
        self.header = {}
        self.partition_names = {}
        self.report = report
        self.trouble = Trouble(str(path), report, strict=strict)
        self.count = 0
        self.closed = False
        self._entries = self.entries()

    @property
    def name(self) -> str:
        """The workload as messages name it."""
        return self.trouble.name

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every record, None for one that is no job; count on the report."""
        raise NotImplementedError

    def where(self) -> str:
        """Return where the record that was read last stands."""
        return f"line {self.report.lines}"

    def read(self) -> Entry | None:
        """Return the next record that could be read, or None at the end."""
        for entry in self._entries:
            self.count += 1
            if entry is not None:
                return entry
        return None

    def place(self) -> object:
        """Return how many records were read."""
        return self.count

    def seek(self, place: object) -> None:
        """Read from the start again, as many records as were read."""
        if not isinstance(place, int):
            raise TypeError(f"not a place in {self.name}: {place!r}")
        report, self.report = self.report, self.report.copy()
        self.trouble.report = self.report
        for _ in range(place):
            next(self._entries)
        self.count = place
        self.report = self.trouble.report = report

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        close = getattr(self._entries, "close", None)
        if close is not None:
            close()


class LineRecords(Records):
    """Records that are lines of a file, plain or compressed, or of a pipe."""

    def __init__(self, path: Path, report: ReadReport, *, strict: bool = False) -> None:
        self.blocks = Blocks(path)
        super().__init__(path, report, strict=strict)
        self.trouble.name = self.blocks.name

    def place(self) -> object:
        """Return how many lines were read.

        Raises:
            OneWay: They came from a pipe, which cannot be read again.
        """
        self.blocks.require_again()
        return super().place()

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self.blocks.close()
