"""Reads what a run has left behind: its files as tables of numpy columns, with what they say.

Everything that looks at finished runs (metrics, plots, the report, comparisons, experiments) reads
them here:

    run = open_run(Path("out"))
    run.jobs.wait.mean(), run.instants.queue_length.max(), run.summary["rules"]

Times are seconds; a time that a job does not have is NaN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import InputError, UsageError
from parley_server.results.cells import Cells, Spans, read_cells
from parley_server.results.recorder import RunFiles
from parley_server.settings import parse_settings, read_bytes, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]
    Counts = NDArray[np.int32]
    Reals = NDArray[np.float64]
    Mask = NDArray[np.bool_]


MOST_SPANS = 5_000_000
"""Runs of nodes that are kept in memory once they are read; more are read again."""


@dataclass(frozen=True, slots=True)
class Category:
    """A column of few different words.

    Attributes:
        codes: For each row the place of its word in *names*, shape (rows,).
        names: The words, in the order in which they first appear.
    """

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    def __getitem__(self, rows: Mask) -> Category:
        return Category(self.codes[rows], self.names)

    def is_any(self, *words: str) -> Mask:
        """Return which rows hold one of some words, shape (rows,)."""
        wanted = [place for place, name in enumerate(self.names) if name in words]
        return np.isin(self.codes, wanted)


@dataclass(frozen=True, slots=True)
class JobTable:
    """The rows of `jobs.csv`: one for each attempt of a job, in the file's order.

    All columns have the shape (rows,); times are seconds, NaN where there is none.

    Attributes:
        job_id: What the trace calls the job, UTF-8.
        submit, start, end: Instants.
        wait, execution: From submission to start; on the nodes.
        walltime: The limit asked for.
        expected_start: The start that its dispatcher announced last.
        size: Chunks asked for: nodes or processors.
        attempt: From 1.
        last: Whether no other attempt follows.
        state: Batsim's words for how it ended.
        amounts: By resource, what it held while it ran; only of resources of which the run's rules
            tell it.
    """

    job_id: NDArray[np.bytes_]
    submit: Reals
    start: Reals
    end: Reals
    wait: Reals
    execution: Reals
    walltime: Reals
    expected_start: Reals
    size: Whole
    attempt: Whole
    last: Mask
    state: Category
    user: Category
    group: Category
    queue: Category
    partition: Category
    amounts: Mapping[str, Reals]

    def __len__(self) -> int:
        return len(self.submit)

    def __getitem__(self, rows: Mask) -> JobTable:
        """Return some of the rows."""
        picked: dict[str, Any] = {}
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, dict):
                picked[field.name] = {kind: held[rows] for kind, held in column.items()}
            else:
                picked[field.name] = column[rows]
        return JobTable(**picked)

    @property
    def turnaround(self) -> Reals:
        """From submission to end."""
        return self.wait + self.execution

    @property
    def ended(self) -> Mask:
        """Which rows are of a job that ran to an end, with its last attempt."""
        return self.last & np.isfinite(self.end)


@dataclass(frozen=True, slots=True)
class InstantTable:
    """The rows of `decisions.csv`; all of shape (instants,), the first in seconds."""

    instant: Reals
    queue_length: Counts
    running: Counts
    events: Counts
    requests: Counts
    decisions: Counts
    rejected: Counts


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The rows of `timing.csv`; all of shape (requests,), all in seconds but the last.

    Attributes:
        instant: Simulated.
        dispatcher, server, wire: Where the wall time of the request went.
        memory: The server's resident memory in bytes; 0 where it was not looked at.
    """

    instant: Reals
    dispatcher: Reals
    server: Reals
    wire: Reals
    memory: Whole


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run.

    Attributes:
        capacity: By resource, what all nodes together have.
        per_node: By resource, what each node has, shape (nodes,).
    """

    node_count: int
    capacity: Mapping[str, int]
    per_node: Mapping[str, Whole]


class RunDirectory:
    """A run that is over, or still going on.

    Made by `open_run`. Tables are read when they are first asked for and then kept; `job_blocks`
    and `held_blocks` read in bounded memory and keep nothing.

    Attributes:
        path: Where it lies.
        label: What it is called beside others.
        summary: `summary.json`; empty if there is none yet.
        scenario: `scenario.toml`.
        partial: Whether it is read although it is not over.
    """

    def __init__(
        self,
        path: Path,
        *,
        label: str,
        summary: Mapping[str, Any],
        scenario: Mapping[str, Any],
        partial: bool,
    ) -> None:
        self.path = path
        self.files = RunFiles.below(path)
        self.label = label
        self.summary = summary
        self.scenario = scenario
        self.partial = partial
        self._spans: list[Spans] | None = None

    # ------------------------------------------------------------------ tables

    @cached_property
    def jobs(self) -> JobTable:
        """All rows of `jobs.csv`.

        Raises:
            InputError: The file is no such, cut off, or holds fewer jobs than were submitted.
        """
        tables: list[JobTable] = []
        kept: list[Spans] = []
        count = before = 0
        for table, spans in self._blocks():
            count += len(spans.row)
            if count <= MOST_SPANS:
                kept.append(spans.placed(before))
            before += len(table)
            tables.append(table)
        self._spans = kept if count <= MOST_SPANS else None
        table = _joined(tables)
        submitted = self.summary.get("jobs", {}).get("submitted")
        found = int(table.last.sum())
        if submitted is not None and found < submitted and not self.partial:
            raise InputError(
                f"{self.files.jobs}: holds {found} jobs, but {submitted} were submitted: the file "
                "is cut off (--partial reads what there is)"
            )
        return table

    @cached_property
    def instants(self) -> InstantTable:
        """All rows of `decisions.csv`.

        Raises:
            InputError: The file is no such, or cut off.
        """
        names = [field.name for field in fields(InstantTable)]
        parts: list[list[Any]] = [[] for _ in names]
        for cells in read_cells(self.files.decisions, names, partial=self.partial):
            parts[0].append(cells.seconds("instant"))
            for part, name in zip(parts[1:], names[1:], strict=True):
                part.append(cells.whole(name).astype(np.int32))
        return InstantTable(*_columns(parts))

    @cached_property
    def requests(self) -> RequestTable:
        """All rows of `timing.csv`.

        Raises:
            InputError: The file is no such, or cut off.
        """
        spent = ("dispatcher_us", "server_us", "wire_us")
        names = ("instant", *spent, "memory_bytes")
        parts: list[list[Any]] = [[] for _ in names]
        for cells in read_cells(self.files.timing, names, partial=self.partial):
            parts[0].append(cells.seconds("instant"))
            for part, name in zip(parts[1:4], spent, strict=True):
                part.append(cells.whole(name) / 1e6)
            parts[4].append(cells.whole("memory_bytes"))
        return RequestTable(*_columns(parts))

    def job_blocks(self) -> Iterator[JobTable]:
        """Yield the rows of `jobs.csv` in parts.

        Raises:
            InputError: The file is no such, or cut off.
        """
        for table, _ in self._blocks():
            yield table

    def _blocks(self) -> Iterator[tuple[JobTable, Spans]]:
        vocabularies: dict[str, dict[bytes, int]] = {name: {} for name in _CATEGORIES}
        for cells in read_cells(self.files.jobs, _JOB_COLUMNS, partial=self.partial):
            spans = cells.spans("allocation")
            yield self._table(cells, vocabularies, spans), spans

    def held_blocks(self) -> Iterator[tuple[Reals, Reals, Spans]]:
        """Yield in parts when each row of `jobs.csv` held nodes, and which.

        Start and end are those of each span's row, shape (spans,), seconds; what a run broke off
        ends with it. Rows count on from part to part; those without nodes have no span.

        Raises:
            InputError: The file is no such, or cut off.
        """
        jobs, before, over = self.jobs, 0, self.end
        if self._spans is not None:
            ends = np.where(np.isfinite(jobs.end), jobs.end, over)
            for spans in self._spans:
                yield jobs.start[spans.row], ends[spans.row], spans
            return
        for cells in read_cells(self.files.jobs, _JOB_COLUMNS, partial=self.partial):
            start, end = cells.seconds("starting_time"), cells.seconds("finish_time")
            found = cells.spans("allocation")
            ends = np.where(np.isfinite(end), end, over)
            yield start[found.row], ends[found.row], found.placed(before)
            before += cells.rows

    # ------------------------------------------------------------------ what was run

    @property
    def end(self) -> float:
        """The last instant that was simulated, seconds; of a run that goes on the last end."""
        simulated = self.summary.get("end", {}).get("simulated_time")
        if simulated is None:
            return float(np.nanmax(self.jobs.end, initial=0.0))
        return float(simulated)

    @cached_property
    def machine(self) -> Machine:
        """The machine.

        Raises:
            InputError: `scenario.toml` does not say.
        """
        groups = self.scenario.get("platform", {}).get("groups")
        try:
            counts = [int(group["nodes"]) for group in groups]
            shapes = [dict(group["per_node"]) for group in groups]
        except (TypeError, KeyError, ValueError):
            raise InputError(
                f"{self.files.scenario}: names no groups of nodes: not a run's own scenario"
            ) from None
        kinds = sorted({kind for shape in shapes for kind in shape})
        per_node = {
            kind: np.repeat(np.array([shape.get(kind, 0) for shape in shapes], np.int64), counts)
            for kind in kinds
        }
        capacity = {kind: int(amounts.sum()) for kind, amounts in per_node.items()}
        return Machine(sum(counts), capacity, per_node)

    @property
    def leading_resource(self) -> str:
        """The resource that `utilisation` is of: cores where there are any."""
        capacity = self.machine.capacity
        return "core" if "core" in capacity else min(capacity)

    @property
    def complete(self) -> bool:
        """Whether every job came to its end."""
        return bool(self.summary.get("end", {}).get("complete"))

    # ------------------------------------------------------------------ rows into columns

    def _table(
        self,
        cells: Cells,
        vocabularies: dict[str, dict[bytes, int]],
        found: Spans,
    ) -> JobTable:
        columns: dict[str, Any] = {
            name: _category(cells.texts(column), vocabularies[name])
            for name, column in _CATEGORIES.items()
        }
        columns |= {name: cells.seconds(column) for name, column in _TIMES.items()}
        top = int(found.last.max(initial=0))
        if top >= self.machine.node_count:
            raise InputError(
                f"{self.files.jobs}: names node {top} of a machine of "
                f"{self.machine.node_count} nodes: not of the scenario beside it"
            )
        return JobTable(
            job_id=cells.texts("job_id"),
            size=cells.whole("requested_number_of_resources"),
            attempt=cells.whole("attempt"),
            last=cells.whole("last") == 1,
            **columns,
            amounts=self._amounts(found, cells.rows),
        )

    def _amounts(self, spans: Spans, rows: int) -> dict[str, Reals]:
        """Return what each job holds of each resource, as far as the rules of the run tell."""
        settings = self.scenario.get("workload", {})
        nodes = spans.last - spans.first + 1
        if settings.get("request", "nodes") == "nodes":
            totals = {
                kind: np.concatenate((np.zeros(1, np.int64), np.cumsum(amounts)))
                for kind, amounts in self.machine.per_node.items()
            }
            return {
                kind: np.bincount(
                    spans.row, total[spans.last + 1] - total[spans.first], minlength=rows
                ).astype(np.float64)
                for kind, total in totals.items()
            }
        return {
            kind: np.bincount(spans.row, nodes * spans.chunks * amount, minlength=rows).astype(
                np.float64
            )
            for kind, amount in settings.get("per_processor", {}).items()
            if kind in self.machine.capacity
        }


_TIMES = {
    "submit": "submission_time",
    "start": "starting_time",
    "end": "finish_time",
    "wait": "waiting_time",
    "execution": "execution_time",
    "walltime": "requested_time",
    "expected_start": "expected_start",
}

_CATEGORIES = {
    "state": "final_state",
    "user": "user",
    "group": "group",
    "queue": "queue",
    "partition": "partition",
}

_JOB_COLUMNS = (
    "job_id",
    *_TIMES.values(),
    *_CATEGORIES.values(),
    "requested_number_of_resources",
    "attempt",
    "last",
    "allocation",
)


def open_run(path: Path, *, label: str | None = None, partial: bool = False) -> RunDirectory:
    """Return the run that lies in a directory.

    Args:
        path: The directory, or one of its files.
        label: What it is to be called beside others; else the directory's name.
        partial: Read what there is of a run that is not over, or was cut off.

    Raises:
        InputError: No run lies there, or it is not over.
    """
    directory = path.parent if path.is_file() else path
    files = RunFiles.below(directory)
    if not directory.is_dir():
        raise InputError(f"{path}: there is no such directory")
    for needed in (files.jobs, files.scenario):
        if not needed.is_file():
            raise InputError(f"{directory}: holds no run (no {needed.name})")
    if not files.summary.is_file() and not partial:
        raise InputError(
            f"{directory}: has no {files.summary.name}: the run is still going on, or was killed "
            "(--partial reads what there is)"
        )
    return RunDirectory(
        directory,
        label=label or directory.absolute().name,
        summary=_summary(files.summary) if files.summary.is_file() else {},
        scenario=parse_settings(
            text_of(read_bytes(files.scenario), files.scenario), files.scenario, json_too=False
        ),
        partial=partial,
    )


def open_runs(
    paths: Sequence[Path], *, labels: Sequence[str] = (), partial: bool = False
) -> list[RunDirectory]:
    """Return the runs of some directories, each with a label of its own.

    Args:
        paths: The directories.
        labels: What they are called; where there is none it is the part of its path that tells a
            directory from the others.
        partial: Read what there is of runs that are not over.

    Raises:
        InputError: No run lies in one of them.
        UsageError: There are more labels than runs.
    """
    if len(labels) > len(paths):
        raise UsageError(f"{len(labels)} labels for {len(paths)} runs")
    told = [*labels, *_distinct(paths)[len(labels) :]]
    return [
        open_run(path, label=label, partial=partial)
        for path, label in zip(paths, told, strict=True)
    ]


def _distinct(paths: Sequence[Path]) -> list[str]:
    """Return names for directories: as many last parts of their paths as tell them apart."""
    parts = [(path.parent if path.is_file() else path).absolute().parts for path in paths]
    for count in range(1, max(map(len, parts), default=1)):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{part[-1]} ({number})" for number, part in enumerate(parts, 1)]


def _summary(path: Path) -> dict[str, Any]:
    try:
        summary: dict[str, Any] = json.loads(text_of(read_bytes(path), path))
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}; was the file cut?") from None
    for table in ("scenario", "end", "rules", "platform", "jobs"):
        if not isinstance(summary, dict) or not isinstance(summary.get(table), dict):
            raise InputError(f"{path}: says nothing of {table!r}: not a summary of this version")
    return summary


def _category(texts: NDArray[np.bytes_], vocabulary: dict[bytes, int]) -> Category:
    """Return words as codes; *vocabulary* grows by those that are new."""
    words, first, places = np.unique(texts, return_index=True, return_inverse=True)
    codes = np.zeros(len(words), dtype=np.int32)
    for place in np.argsort(first):
        codes[place] = vocabulary.setdefault(bytes(words[place]), len(vocabulary))
    names = tuple(word.decode("utf-8", "backslashreplace") for word in vocabulary)
    return Category(codes[places], names)


def _joined(tables: Sequence[JobTable]) -> JobTable:
    """Return the rows of several tables as one; words of the last include those before."""
    joined: dict[str, Any] = {}
    for field in fields(JobTable):
        columns = [getattr(table, field.name) for table in tables]
        match columns[-1]:
            case Category(names=names):
                joined[field.name] = Category(
                    np.concatenate([column.codes for column in columns]), names
                )
            case dict() as amounts:
                joined[field.name] = {
                    kind: np.concatenate([column[kind] for column in columns]) for kind in amounts
                }
            case _:
                joined[field.name] = np.concatenate(columns)
    return JobTable(**joined)


def _columns(parts: Iterable[Sequence[Any]]) -> list[Any]:
    return [np.concatenate(part) for part in parts]
