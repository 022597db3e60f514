"""Runs for other tools: Batsim's machine states, Paje traces, Parquet."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import numpy as np

from parley_server.errors import UsageError, did_you_mean
from parley_server.quantities import MICROSECONDS, format_seconds
from parley_server.results.replacing import replacing
from parley_server.results.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from parley_server.results.run_directory import RunDirectory

    Reals = NDArray[np.float64]

MACHINE_STATE_COLUMNS = (
    *("time", "nb_sleeping", "nb_switching_on", "nb_switching_off", "nb_idle", "nb_computing"),
)
"""As Batsim names them, in its order."""

_ROWS = 50_000


def export(run: RunDirectory, kind: str, out: Path | None = None) -> list[Path]:
    """Write a run in the format of another tool, and return the files.

    Args:
        run: The run.
        kind: `machine-states`, `paje` or `parquet`.
        out: The file; of `parquet` the directory. None is the run's own directory.

    Raises:
        InputError: The run's files cannot be read.
        OutputError: A file cannot be written.
        UsageError: There is no such format, or a package that it needs is missing.
    """
    kinds: dict[str, tuple[str, Callable[[RunDirectory], Iterator[str]]]] = {
        "machine-states": ("machine_states.csv", machine_states),
        "paje": ("schedule.trace", paje_trace),
    }
    if kind == "parquet":
        from parley_server.results.parquet import write_parquet  # noqa: PLC0415 - an extra

        return write_parquet(run, out or run.path)
    if kind not in kinds:
        known = [*kinds, "parquet"]
        raise UsageError(
            f"nothing is written as {kind!r}{did_you_mean(kind, known)}; known: {', '.join(known)}"
        )
    name, lines = kinds[kind]
    path = out or run.path / name
    if path.is_dir():
        path = path / name
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        _write(file, lines(run))
    return [path]


def _write(file: IO[str], lines: Iterator[str]) -> None:
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) >= _ROWS:
            file.write("\n".join(held) + "\n")
            held.clear()
    if held:
        file.write("\n".join(held) + "\n")


# ---------------------------------------------------------------------- Batsim


def machine_states(run: RunDirectory) -> Iterator[str]:
    """Yield the rows of Batsim's `machine_states.csv`: one per instant at which a count changes.

    A node computes while a job holds any of it; nothing sleeps or switches.

    Raises:
        InputError: The run's files cannot be read.

    Source: the output section of Batsim's documentation.
    """
    yield ",".join(MACHINE_STATE_COLUMNS)
    nodes = run.machine.node_count
    busy = _busy_nodes(run)
    if not len(busy.times) or busy.times[0] > 0:
        yield f"0,0,0,0,{nodes},0"
    before: int | None = 0
    for time, value in zip(busy.times.tolist(), busy.values.tolist(), strict=True):
        computing = round(value)
        if computing != before:
            yield f"{_seconds(time)},0,0,0,{nodes - computing},{computing}"
        before = computing


def _busy_nodes(run: RunDirectory) -> Steps:
    """Return how many nodes hold at least one job over time."""
    parts = [(start, stop, spans.first, spans.last) for start, stop, spans in run.held_blocks()]
    begin, end, first, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    if run.scenario.get("workload", {}).get("request", "nodes") == "nodes":
        # A node holds one job at most: runs of nodes count as they are.
        return Steps.of_intervals(begin, end, (last - first + 1).astype(np.float64))
    return _busy_shared(first, last, begin, end)


def _busy_shared(
    first: NDArray[np.int64], last: NDArray[np.int64], begin: Reals, end: Reals
) -> Steps:
    """Return how many nodes are busy where several jobs may hold one."""
    widths = last - first + 1
    offsets = np.concatenate(([0], np.cumsum(widths)[:-1]))
    node = np.repeat(first - offsets, widths) + np.arange(int(widths.sum()))
    begins, ends = np.repeat(begin, widths), np.repeat(end, widths)
    order = np.lexsort((begins, node))
    node, begins, ends = node[order], begins[order], ends[order]
    if not len(node):
        return Steps(np.zeros(0), np.zeros(0))
    # On each node, how far it was busy before: a later job may begin and end within an earlier one.
    shift = float(ends.max()) + 1
    reached = np.maximum.accumulate(ends + node * shift) - node * shift
    fresh = np.ones(len(node), dtype=bool)
    fresh[1:] = (node[1:] != node[:-1]) | (begins[1:] > reached[:-1])
    opens = np.flatnonzero(fresh)
    closes = np.append(opens[1:] - 1, len(node) - 1)
    return Steps.of_intervals(begins[opens], reached[closes], np.ones(len(opens)))


def _seconds(seconds: float) -> str:
    return format_seconds(round(seconds * MICROSECONDS))


# ---------------------------------------------------------------------- Paje

_PAJE_HEADER = """\
%EventDef PajeDefineContainerType 0
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineStateType 1
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineVariableType 2
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeCreateContainer 3
% Time date
% Alias string
% Type string
% Container string
% Name string
%EndEventDef
%EventDef PajeDestroyContainer 4
% Time date
% Type string
% Name string
%EndEventDef
%EventDef PajeSetState 5
% Time date
% Type string
% Container string
% Value string
%EndEventDef
%EventDef PajeSetVariable 6
% Time date
% Type string
% Container string
% Value double
%EndEventDef
0 CM 0 "Machine"
0 CN CM "Node"
1 SN CN "Jobs"
2 VU CM "Jobs waiting" "0.8 0.4 0"\
"""


def paje_trace(run: RunDirectory) -> Iterator[str]:
    """Yield the lines of a Paje trace: the jobs on each node, and the queue.

    A state of a node is the job that holds it, `idle` without one; several that share it are
    joined by `+`, in the order in which they came.

    Raises:
        InputError: The run's files cannot be read.

    Source: Schnorr, Stein de Oliveira and Chassin de Kergommeaux, Paje trace file format, 2013.
    """
    from parley_server.results.sample import Sample  # noqa: PLC0415 - for the queue alone

    yield _PAJE_HEADER
    yield '3 0 M CM 0 "machine"'
    nodes = run.machine.node_count
    for node in range(nodes):
        yield f'3 0 n{node} CN M "node {node}"'
        yield f'5 0 SN n{node} "idle"'
    queue = Sample(run).queue
    last = 0.0
    at = 0
    for instant, changes in _changes(run):
        while at < len(queue.times) and queue.times[at] <= instant:
            yield f"6 {_seconds(queue.times[at])} VU M {round(queue.values[at])}"
            at += 1
        yield from changes
        last = instant
    for node in range(nodes):
        yield f"4 {_seconds(last)} CN n{node}"
    yield f"4 {_seconds(last)} CM M"


def _changes(run: RunDirectory) -> Iterator[tuple[float, list[str]]]:
    """Yield for each instant the states of the nodes that change at it."""
    parts = [
        (start, stop, spans.row, spans.first, spans.last)
        for start, stop, spans in run.held_blocks()
    ]
    begin, end, row, first, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    # A job of no length is never seen.
    seen = np.flatnonzero(end > begin)
    times = np.concatenate((end[seen], begin[seen]))
    kinds = np.concatenate((np.zeros(len(seen)), np.ones(len(seen))))
    order = np.lexsort((np.concatenate((row[seen], row[seen])), kinds, times))
    held: list[dict[int, None]] = [{} for _ in range(run.machine.node_count)]
    touched: dict[int, None] = {}
    at: float | None = None
    for event in order.tolist():
        time = float(times[event])
        if at is not None and time != at:
            yield at, [_state(run, at, node, held[node]) for node in touched]
            touched = {}
        at = time
        span = seen[event % len(seen)]
        for node in range(int(first[span]), int(last[span]) + 1):
            if event < len(seen):
                held[node].pop(int(row[span]), None)
            else:
                held[node][int(row[span])] = None
            touched[node] = None
    if at is not None:
        yield at, [_state(run, at, node, held[node]) for node in touched]


def _state(run: RunDirectory, at: float, node: int, jobs: dict[int, None]) -> str:
    names = [run.jobs.job_id[job].decode("utf-8", "backslashreplace") for job in jobs]
    told = "+".join(names).replace('"', "'") or "idle"
    return f'5 {_seconds(at)} SN n{node} "{told}"'
