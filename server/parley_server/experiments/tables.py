"""The table of an experiment: a row for each dispatcher on each workload, mean and deviation."""

from __future__ import annotations

import csv
import io
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from parley_server.errors import UsageError, did_you_mean
from parley_server.experiments.store import row_of
from parley_server.results.metrics import JOB_METRICS, RUN_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parley_server.experiments.grid import Row
    from parley_server.experiments.store import CellRecord

TableFormat = Literal["csv", "markdown", "latex"]
FORMATS: tuple[TableFormat, ...] = ("csv", "markdown", "latex")

SCHEDULE = (
    "wait.mean",
    "wait.median",
    "slowdown.mean",
    "bounded_slowdown.mean",
    "bounded_slowdown.p95",
    "queue_mean",
    "queue_max",
    "utilisation",
    "makespan",
)
"""How good the schedules are; the same whenever and wherever they are computed."""

COST = (
    "process.cpu_seconds",
    "process.dispatcher_seconds",
    "decision_time",
    "server_time",
    "dispatcher_share",
    "process.memory_mean",
    "process.memory_peak",
    "process.wall_seconds",
)
"""What they cost to compute: as AccaSim's table has it, and where the time of a decision goes."""

_PROCESS = {
    "process.wall_seconds": ("Wall time of the cell", "s"),
    "process.cpu_seconds": ("CPU time of the cell", "s"),
    "process.dispatcher_seconds": ("Time in the dispatcher", "s"),
    "process.memory_mean": ("Memory, mean", "MB"),
    "process.memory_peak": ("Memory, peak", "MB"),
    "process.dispatcher_memory_peak": ("Memory of the dispatcher's process, peak", "MB"),
}

_STATISTICS = {
    "mean": "mean",
    "deviation": "standard deviation over jobs",
    "median": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p5": "5th percentile",
    "q1": "first quartile",
    "q3": "third quartile",
    "min": "least",
    "max": "most",
    "count": "jobs",
    "undefined": "jobs without",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A metric over the cells of a row.

    Attributes:
        mean: NaN if no cell has it.
        deviation: Standard deviation of a sample (n − 1); NaN for less than two cells.
        count: How many cells have it.
    """

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row.

    Attributes:
        complete: How many of its cells are complete.
        cells: How many there are.
        values: By metric.
    """

    row: Row
    complete: int
    cells: int
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in the order of the grid, and which metrics are their columns."""

    metrics: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def text(self, form: TableFormat = "markdown") -> str:
        """Return the table as `csv`, `markdown` or `latex`.

        In CSV each metric has a column of means and one of deviations, in full precision.
        """
        match form:
            case "csv":
                return _csv(self)
            case "latex":
                return _latex(self)
            case _:
                return _markdown(self)

    def best(self, metric: str) -> TableRow | None:
        """Return the row with the least mean of a metric."""
        known = [row for row in self.rows if not math.isnan(row.values[metric].mean)]
        return min(known, key=lambda row: row.values[metric].mean, default=None)


def table_of(records: Iterable[CellRecord], metrics: Sequence[str]) -> Table:
    """Return the table of some cells.

    Args:
        records: Of all cells; those that are not complete count, but have no numbers.
        metrics: By their flat names, such as `wait.mean`.

    Raises:
        UsageError: No cell has such a metric, though some are complete.
    """
    records = list(records)
    complete = [record for record in records if record["status"] == "complete"]
    known = {name for record in complete for name in record["metrics"]}
    for name in metrics:
        if complete and name not in known:
            raise UsageError(
                f"no cell has a metric {name!r}{did_you_mean(name, known)}; there are: "
                f"{', '.join(_families(known))}"
            )
    grouped: dict[Row, list[CellRecord]] = {}
    for record in records:
        grouped.setdefault(row_of(record), []).append(record)
    rows = []
    for row, members in grouped.items():
        done = [record for record in members if record["status"] == "complete"]
        values = {
            name: _value([record["metrics"].get(name) for record in done]) for name in metrics
        }
        rows.append(TableRow(row, len(done), len(members), values))
    return Table(tuple(metrics), tuple(rows))


def _families(known: Iterable[str]) -> list[str]:
    """Return metrics, those that are one of jobs in several statistics as one: `wait.mean ...`."""
    families = dict.fromkeys(
        f"{name.rpartition('.')[0]}.(mean, median, p95, ...)"
        if name.rpartition(".")[2] in _STATISTICS
        else name
        for name in sorted(known)
    )
    return list(families)


def title_of(metric: str) -> str:
    """Return what a metric is called above a column, with its unit."""
    if metric in _PROCESS:
        title, unit = _PROCESS[metric]
        return f"{title} ({unit})"
    for run_metric in RUN_METRICS:
        if run_metric.name == metric:
            return (
                f"{run_metric.title} ({run_metric.unit})" if run_metric.unit else run_metric.title
            )
    name, _, statistic = metric.partition(".")
    for job_metric in JOB_METRICS:
        if job_metric.name == name and statistic in _STATISTICS:
            unit = f" ({job_metric.unit})" if job_metric.unit else ""
            return f"{job_metric.title}, {_STATISTICS[statistic]}{unit}"
    return metric


def _value(numbers: Iterable[float | None]) -> Value:
    known = [number for number in numbers if number is not None]
    if not known:
        return Value(math.nan, math.nan, 0)
    # Exact, and rounded once: the order of the cells must not be seen in the last digit.
    mean = math.fsum(known) / len(known)
    deviation = statistics.stdev(known) if len(known) > 1 else math.nan
    return Value(mean, deviation, len(known))


def _csv(table: Table) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    columns = [part for name in table.metrics for part in (name, f"{name} deviation")]
    write(["workload", "platform", "policy", "allocator", "complete", "cells", *columns])
    for row in table.rows:
        numbers = [
            "" if math.isnan(number) else repr(float(number))
            for name in table.metrics
            for number in (row.values[name].mean, row.values[name].deviation)
        ]
        write([*row.row, row.complete, row.cells, *numbers])
    return out.getvalue()


def _heads(table: Table) -> list[str]:
    """Return the columns before the numbers that tell rows apart, and those of numbers."""
    return [*_telling(table), *(title_of(name) for name in table.metrics)]


def _telling(table: Table) -> list[str]:
    """Return the names of those parts of a row that are not the same in all."""
    rows = [row.row for row in table.rows]
    named = [
        field
        for number, field in enumerate(("workload", "platform", "policy", "allocator"))
        if field == "policy" or len({row[number] for row in rows}) > 1
    ]
    unfinished = any(row.complete < row.cells for row in table.rows)
    return [*named, "complete"] if unfinished else named


def _shown(table: Table, row: TableRow) -> list[str]:
    named = {**row.row._asdict(), "complete": f"{row.complete} of {row.cells}"}
    return [
        *(named[field] for field in _telling(table)),
        *(_number(row.values[name]) for name in table.metrics),
    ]


def _number(value: Value) -> str:
    if not value.count:
        return ""
    mean = _digits(value.mean)
    return mean if value.count < 2 else f"{mean} ± {_digits(value.deviation)}"


def _digits(number: float) -> str:
    """Return a number as people read it: at least four digits that count."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, 3 - math.floor(math.log10(abs(number))))
    return f"{number:,.{min(decimals, 6)}f}"


def _markdown(table: Table) -> str:
    heads = _heads(table)
    texts = len(heads) - len(table.metrics)
    lines = [heads, ["---"] * texts + ["---:"] * len(table.metrics)]
    lines += [_shown(table, row) for row in table.rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _latex(table: Table) -> str:
    heads = _heads(table)
    texts = len(heads) - len(table.metrics)
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{'l' * texts}{'r' * len(table.metrics)}}}",
        r"\toprule",
        " & ".join(map(_escaped, heads)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_escaped, _shown(table, row))) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "−": "$-$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(mark, mark) for mark in text)
