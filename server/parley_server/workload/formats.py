"""The formats of workloads by name, and which of them a file is in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parley_server.errors import InputError, UsageError, did_you_mean
from parley_server.workload.files import (
    COMPRESSED_ENDINGS,
    corrupt,
    is_standard,
    open_workload,
    peek_content,
)
from parley_server.workload.rules import Order, ReadingRules
from parley_server.workload.source import WorkloadSource
from parley_server.workload.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parley_server.workload.reader import Reader
    from parley_server.workload.report import ReadReport

FORMATS = ("swf", "jsonl", "batsim", "sacct", "csv", "parquet")

_BY_ENDING: Mapping[str, str] = {
    ".swf": "swf",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_SORTED = frozenset({"batsim", "sacct"})
"""Formats whose own tools do not keep jobs by submission: sorted unless a rule says otherwise."""

_PEEK = 1 << 16
_NUMBERS = re.compile(rb";|-?\d+\s")
"""How a line of SWF begins; there may be commas behind it, in a list of nodes."""


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """A workload and the format that it is in.

    Attributes:
        path: The file; `-` is standard input; None with a reader of one's own that needs none.
        format: One of `FORMATS`, `auto`, or `path/to/file.py:function`.
        columns: Of a table, which column is what.
    """

    path: Path | None
    format: str = "auto"
    columns: Columns = field(default_factory=Columns)

    @property
    def own(self) -> bool:
        """Whether a user's own function reads it."""
        return self.format.rpartition(":")[0].endswith(".py")

    def resolved(self) -> str:
        """Return the format, found out if it is `auto`.

        Raises:
            InputError: The file cannot be read.
            UsageError: There is no such format.
        """
        if self.own or self.format in FORMATS:
            return self.format
        if self.format != "auto":
            raise UsageError(
                f"{self.format!r} is no format{did_you_mean(self.format, FORMATS)}; there are: "
                f"{', '.join(FORMATS)}, and path/to/file.py:function"
            )
        if self.path is None:
            raise UsageError("which workload? name a file")
        return detect(self.path)

    def open(self, report: ReadReport, *, strict: bool = False) -> Reader:
        """Open it for reading from its start.

        Raises:
            InputError: It cannot be opened.
            UsageError: Its format or columns make no sense.
        """
        kind = self.resolved()
        if self.own:
            from parley_server.workload.own import OwnReader  # noqa: PLC0415 - rarely needed

            return OwnReader(self.path, report, kind, strict=strict)
        if self.path is None:
            raise UsageError("which workload? name a file")
        return _reader(kind, self.path, report, self.columns, strict=strict)

    def source(
        self, rules: ReadingRules | None = None, *, unix_start: int | None = None
    ) -> WorkloadSource:
        """Return its jobs.

        Raises:
            InputError: It cannot be opened.
            UsageError: Its format, its columns or a rule make no sense.
        """
        rules = rules or ReadingRules()
        kind = self.resolved()
        order = Order("sort", sort=True) if kind in _SORTED else None
        known = WorkloadFile(self.path, kind, self.columns)
        return WorkloadSource(
            lambda report: known.open(report, strict=rules.strict),
            rules,
            order=order,
            unix_start=unix_start,
        )


def _reader(kind: str, path: Path, report: ReadReport, columns: Columns, *, strict: bool) -> Reader:
    # Each format is imported when it is met: a trace in SWF needs none of the others.
    match kind:
        case "swf":
            from parley_server.workload.swf import SwfReader  # noqa: PLC0415

            return SwfReader(path, report, strict=strict)
        case "jsonl":
            from parley_server.workload.jsonlines import JsonLinesReader  # noqa: PLC0415

            return JsonLinesReader(path, report, strict=strict)
        case "batsim":
            from parley_server.workload.batsim import BatsimReader  # noqa: PLC0415

            return BatsimReader(path, report, strict=strict)
        case "sacct":
            from parley_server.workload.sacct import SacctReader  # noqa: PLC0415

            return SacctReader(path, report, strict=strict)
        case "csv":
            from parley_server.workload.tables import CsvReader  # noqa: PLC0415

            return CsvReader(path, report, columns, strict=strict)
        case _:
            from parley_server.workload.tables import ParquetReader  # noqa: PLC0415

            return ParquetReader(path, report, columns, strict=strict)


def detect(path: Path) -> str:
    """Return the format of a file, by its ending if that says it, else by its content.

    Raises:
        InputError: The file cannot be read.
    """
    name = path.name
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    for ending, kind in _BY_ENDING.items():
        if name.lower().endswith(ending):
            return kind
    if is_standard(path):
        return _by_content(peek_content())
    file = open_workload(path)
    try:
        start = file.read(_PEEK)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except corrupt() as error:
        raise InputError(f"{path}: cut off or damaged after line 0: {error}") from None
    finally:
        file.close()
    return _by_content(start)


def _by_content(start: bytes) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    first, _, _ = start.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if first.startswith(b"{"):
        return "batsim" if _is_document(first) else "jsonl"
    if b"JobID" in first and b"|" in first:
        return "sacct"
    return "csv" if b"," in first and not _NUMBERS.match(first) and b"\0" not in first else "swf"


def _is_document(first: bytes) -> bool:
    """Whether a first line is the beginning of one document rather than an object by itself."""
    try:
        line = json.loads(first)
    except (ValueError, RecursionError):
        return True
    return isinstance(line, dict) and "jobs" in line
