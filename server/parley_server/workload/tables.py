"""Workloads in tables, CSV or Parquet: which column is what is told by a mapping."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, UsageError, did_you_mean
from parley_server.workload.entry import Malformed
from parley_server.workload.files import Blocks, require_again
from parley_server.workload.reader import Records
from parley_server.workload.values import AFTERWARDS, KEYS, entry_of, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from parley_server.workload.entry import Entry
    from parley_server.workload.report import ReadReport

_STRUCTURED = ("request", "constraints", "attributes")
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a table is what.

    Attributes:
        mapping: The column's name by that of the field; a field that is left out is the column
            of its own name, if there is one.
        attributes: Columns that travel to the dispatcher as they are; no other does.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] = ()

    def require_sensible(self) -> None:
        """Do nothing if the mapping makes sense.

        Raises:
            UsageError: It names a field that there is not, or would tell what is known only
                afterwards.
        """
        for name in self.mapping:
            if name not in KEYS or name == "attributes":
                raise UsageError(
                    f"columns: {name!r} is no field{did_you_mean(name, KEYS)}; "
                    f"there are: {', '.join(key for key in KEYS if key != 'attributes')}"
                )
        secret = {self.mapping.get(name, name) for name in AFTERWARDS}
        for column in self.attributes:
            if column in secret:
                raise UsageError(
                    f"attributes: column {column!r} is known only afterwards and never travels"
                )

    def among(self, present: Sequence[str], name: str) -> dict[str, str]:
        """Return the column of each field that a table has.

        Raises:
            InputError: A column that the mapping names is missing, or one that every job needs.
        """
        for column in (*self.mapping.values(), *self.attributes):
            if column not in present:
                hint = did_you_mean(column, present)
                raise InputError(
                    f"{name}: no column {column!r}{hint}; there are: "
                    f"{', '.join(map(str, present))[:500]}"
                )
        found = {
            key: self.mapping.get(key, key)
            for key in KEYS
            if key != "attributes" and self.mapping.get(key, key) in present
        }
        for key in ("id", "submit", "runtime"):
            if key not in found:
                raise InputError(
                    f"{name}: which column is {key!r}? say it with --column {key}=NAME; "
                    f"there are: {', '.join(map(str, present))[:500]}"
                )
        return found


class _Table(Records):
    """Rows of named values."""

    def __init__(
        self,
        path: Path,
        report: ReadReport,
        columns: Columns | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.columns = columns or Columns()
        self.columns.require_sensible()
        super().__init__(path, report, strict=strict)

    def place(self) -> object:
        """Return how many rows were read."""
        require_again(self.path)
        return super().place()

    def _entry(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> Entry:
        values = {key: row[column] for key, column in fields.items()}
        for key in _STRUCTURED:
            if isinstance(values.get(key), str) and values[key].strip():
                values[key] = read_json(values[key])
        if self.columns.attributes:
            told = {name: row[name] for name in self.columns.attributes}
            values["attributes"] = {
                name: value for name, value in told.items() if value not in (None, "")
            }
        return entry_of(values, key=lambda key: fields.get(key, key))


class CsvReader(_Table):
    """The jobs of a CSV file; its first line names the columns."""

    def __init__(
        self,
        path: Path,
        report: ReadReport,
        columns: Columns | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.blocks = Blocks(path)
        super().__init__(path, report, columns, strict=strict)
        self.trouble.name = self.blocks.name

    def place(self) -> object:
        """Return how many rows were read.

        Raises:
            OneWay: They came from a pipe, which cannot be read again.
        """
        self.blocks.require_again()
        return super().place()

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        self.blocks.close()

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every row, None for one that is no job."""
        rows = self._rows()
        names = next(rows, None)
        if not isinstance(names, list):
            raise InputError(f"{self.name}: the file is empty or its first line names no columns")
        fields = self.columns.among(names, self.name)
        self.report.comments += 1
        yield None
        for row in rows:
            if isinstance(row, list) and not any(row):
                self.report.comments += 1
                yield None
                continue
            try:
                if isinstance(row, Malformed):
                    raise row
                if len(row) != len(names):
                    raise Malformed(f"{len(row)} columns where the first line names {len(names)}")  # noqa: TRY301
                yield self._entry(dict(zip(names, row, strict=True)), fields)
            except Malformed as error:
                self.trouble.malformed(self.where(), str(error))
                yield None

    def _rows(self) -> Iterator[list[str] | Malformed]:
        """Yield rows, or why there is none; a row of several lines is counted as one."""
        text = (line.decode("utf-8-sig", "replace") + "\n" for line in self.blocks.lines())
        reader = csv.reader(text, strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.report.lines += 1
                yield Malformed(f"not CSV: {error}")
                continue
            self.report.lines += 1
            yield [value.strip() for value in row]


class ParquetReader(_Table):
    """The jobs of a Parquet file, by way of pyarrow, which is an extra."""

    def where(self) -> str:
        """Return which row was read last."""
        return f"row {self.report.lines}"

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every row, None for one that is no job."""
        require_again(self.path)
        try:
            import pyarrow as pa  # noqa: PLC0415 - an extra
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError:
            raise InputError(
                f"{self.path}: reading Parquet needs pyarrow; pip install 'parley-sim[parquet]'"
            ) from None
        try:
            file = parquet.ParquetFile(self.path)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.path}: not a Parquet file: {_first_line(error)}") from None
        with file:
            fields = self.columns.among(file.schema_arrow.names, self.name)
            wanted = sorted({*fields.values(), *self.columns.attributes})
            try:
                for batch in file.iter_batches(_BATCH, columns=wanted):
                    for row in batch.to_pylist():
                        yield self._row(row, fields)
            except (OSError, ValueError, pa.ArrowException) as error:
                raise InputError(
                    f"{self.path}: damaged after row {self.report.lines}: {_first_line(error)}"
                ) from None

    def _row(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> Entry | None:
        self.report.lines += 1
        try:
            return self._entry(row, fields)
        except Malformed as error:
            self.trouble.malformed(self.where(), str(error))
            return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
