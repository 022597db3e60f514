"""The cells of an experiment and their numbers: a file beside each, one database for all.

What became of a cell stands in `cell.json` in its own directory; `experiment.sqlite` holds the
same of all cells, to be asked in SQL. Whoever loses the database loses nothing: it is made anew
from the directories.
"""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from parley_server.errors import InputError, OutputError
from parley_server.experiments.grid import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from parley_server.experiments.grid import Cell

DATABASE = "experiment.sqlite"
CELLS = "cells"
RECORD = "cell.json"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS experiment (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cells (
    name TEXT PRIMARY KEY, position INTEGER, workload TEXT NOT NULL, platform TEXT NOT NULL,
    policy TEXT NOT NULL, allocator TEXT NOT NULL, seed INTEGER NOT NULL,
    repetition INTEGER NOT NULL, status TEXT NOT NULL, message TEXT NOT NULL,
    digest TEXT NOT NULL, analysis TEXT NOT NULL, parley TEXT NOT NULL, jobs_sha256 TEXT NOT NULL,
    began REAL, wall_seconds REAL
);
CREATE TABLE IF NOT EXISTS metrics (
    cell TEXT NOT NULL REFERENCES cells (name) ON DELETE CASCADE, name TEXT NOT NULL, value REAL,
    PRIMARY KEY (cell, name)
);
"""

_COLUMNS = (
    "name",
    "position",
    "workload",
    "platform",
    "policy",
    "allocator",
    "seed",
    "repetition",
    "status",
    "message",
    "digest",
    "analysis",
    "parley",
    "jobs_sha256",
    "began",
    "wall_seconds",
)

CellStatus = Literal["complete", "failed", "running", "waiting"]


class CellRecord(TypedDict):
    """The content of `cell.json`.

    Attributes:
        status: `complete`, `failed`, `running` or `waiting`.
        message: Why it failed; empty if it did not.
        digest: What tells whether the cell is still the same.
        analysis: What tells whether its metrics are of the same rules.
        parley: The version that ran it.
        jobs_sha256: Of `jobs.csv`: repetitions of one seed share it. Empty if the run is not
            complete; a cell that failed although it is had no metrics.
        began: Unix time.
        metrics: Every number of the run by name; null where it is undefined.
    """

    name: str
    workload: str
    platform: str
    policy: str
    allocator: str
    seed: int
    repetition: int
    status: CellStatus
    message: str
    digest: str
    analysis: str
    parley: str
    jobs_sha256: str
    began: float | None
    wall_seconds: float | None
    metrics: dict[str, float | None]
    position: NotRequired[int | None]


def row_of(record: CellRecord) -> Row:
    """Return where in the table a cell stands."""
    return Row(record["workload"], record["platform"], record["policy"], record["allocator"])


def blank_record(cell: Cell, *, parley: str) -> CellRecord:
    """Return the record of a cell that has not run yet."""
    return {
        "name": cell.name,
        "workload": cell.row.workload,
        "platform": cell.row.platform,
        "policy": cell.row.policy,
        "allocator": cell.row.allocator,
        "seed": cell.seed,
        "repetition": cell.repetition,
        "status": "waiting",
        "message": "",
        "digest": cell.digest,
        "analysis": "",
        "parley": parley,
        "jobs_sha256": "",
        "began": None,
        "wall_seconds": None,
        "metrics": {},
    }


class Store:
    """The database of an experiment, and the records in the directories of its cells.

    Args:
        directory: Of the experiment.
        create: Make the database if there is none.

    Raises:
        InputError: There is none, or it is something else.
        OutputError: It cannot be made.
    """

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        self.directory = directory
        self.path = directory / DATABASE
        if not create and not self.path.is_file():
            raise InputError(
                f"{directory}: holds no experiment (no {DATABASE}); parley experiment run makes one"
            )
        self._database = sqlite3.connect(self.path, isolation_level=None)
        try:
            with self._told():
                self._database.execute("PRAGMA foreign_keys = ON")
                if create:
                    self._database.executescript(_SCHEMA)
                self._database.execute("SELECT count(*) FROM cells").fetchone()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._database.close()

    def cell_directory(self, name: str) -> Path:
        """Return where a cell's run lies."""
        return self.directory / CELLS / name

    # ------------------------------------------------------------------ reading

    def records(self) -> list[CellRecord]:
        """Return all cells of the experiment as it is defined now, in order.

        Raises:
            InputError: The database is damaged.
        """
        with self._told():
            found = self._database.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM cells "  # noqa: S608 - names of our own
                "WHERE position IS NOT NULL ORDER BY position"
            ).fetchall()
            metrics: dict[str, dict[str, float | None]] = {}
            for cell, name, value in self._database.execute(
                "SELECT cell, name, value FROM metrics"
            ):
                metrics.setdefault(cell, {})[name] = value
        return [_record(row, metrics.get(row[0], {})) for row in found]

    def left_over(self) -> list[str]:
        """Return the names of cells that the definition does not speak of any more."""
        with self._told():
            rows = self._database.execute("SELECT name FROM cells WHERE position IS NULL")
            return [name for (name,) in rows.fetchall()]

    def fact(self, key: str) -> str | None:
        """Return what is noted of the experiment itself."""
        with self._told():
            row = self._database.execute(
                "SELECT value FROM experiment WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else str(row[0])

    # ------------------------------------------------------------------ writing

    def define(self, cells: Sequence[Cell], facts: Mapping[str, str], *, parley: str) -> None:
        """Take over what the experiment is made of now; what is known of cells stays.

        Raises:
            OutputError: It cannot be written.
        """
        known = {record["name"]: record for record in self._recorded(cell.name for cell in cells)}
        with self._changing() as database:
            database.execute("UPDATE cells SET position = NULL")
            for key, value in facts.items():
                database.execute("REPLACE INTO experiment VALUES (?, ?)", (key, value))
            for position, cell in enumerate(cells):
                record = known.get(cell.name)
                fresh = record is None
                if record is None:
                    record = blank_record(cell, parley=parley)
                self._put(record, position, with_metrics=not fresh)

    def note_fact(self, key: str, value: str) -> None:
        """Note something of the experiment itself.

        Raises:
            OutputError: It cannot be written.
        """
        with self._changing() as database:
            database.execute("REPLACE INTO experiment VALUES (?, ?)", (key, value))

    def save(self, record: CellRecord) -> None:
        """Note what became of a cell: in its directory first, then in the database.

        Raises:
            OutputError: It cannot be written.
        """
        directory = self.cell_directory(record["name"])
        path, scratch = directory / RECORD, directory / f"{RECORD}.part"
        content = {key: value for key, value in record.items() if key != "position"}
        try:
            scratch.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            scratch.replace(path)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        self.note(record)

    def note(self, record: CellRecord) -> None:
        """Note how a cell stands, in the database alone.

        Raises:
            OutputError: It cannot be written.
        """
        with self._changing() as database:
            found = database.execute(
                "SELECT position FROM cells WHERE name = ?", (record["name"],)
            ).fetchone()
            self._put(record, None if found is None else found[0])

    def forget(self, name: str) -> None:
        """Take a cell's record out of its directory: it is about to run again."""
        try:
            (self.cell_directory(name) / RECORD).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{name}: {error.strerror or error}") from None

    def _recorded(self, names: Iterable[str]) -> Iterator[CellRecord]:
        """Yield what the directories of cells say."""
        for name in names:
            record = read_record(self.cell_directory(name) / RECORD)
            if record is not None:
                yield record

    def _put(self, record: CellRecord, position: int | None, *, with_metrics: bool = True) -> None:
        values = {**record, "position": position}
        marks = ", ".join("?" for _ in _COLUMNS)
        self._database.execute("DELETE FROM metrics WHERE cell = ?", (record["name"],))
        self._database.execute(
            f"REPLACE INTO cells ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608 - our own
            [values[column] for column in _COLUMNS],
        )
        if with_metrics:
            self._database.executemany(
                "INSERT INTO metrics VALUES (?, ?, ?)",
                [(record["name"], name, value) for name, value in record["metrics"].items()],
            )

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing."""
        with self._told():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Let what is wrong with the database be told in one line."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise InputError(f"{self.path}: not the database of an experiment") from None
            raise OutputError(f"{self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{self.path}: not a sound database ({error}); remove it: parley experiment run "
                "makes it anew from the cells"
            ) from None


def read_record(path: Path) -> CellRecord | None:
    """Return what a cell's file says; None if there is none, or it is not whole."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only for what is there

    try:
        return TypeAdapter(CellRecord).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def finite(value: float | None) -> float | None:
    """Return a number as JSON and SQL can say it."""
    return None if value is None or not math.isfinite(value) else float(value)


def _record(row: Sequence[Any], metrics: dict[str, float | None]) -> CellRecord:
    record: Any = {**dict(zip(_COLUMNS, row, strict=True)), "metrics": metrics}
    return record  # type: ignore[no-any-return]
