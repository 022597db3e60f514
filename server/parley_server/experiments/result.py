"""What an experiment has left behind: its records, tables and plots."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import OutputError
from parley_server.experiments.definition import ExperimentSettings, read_definition
from parley_server.experiments.lock import is_running
from parley_server.experiments.store import CELLS, DATABASE, Store, row_of
from parley_server.experiments.tables import COST, SCHEDULE, table_of, title_of
from parley_server.results.run_directory import open_run
from parley_server.results.sample import Window
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from parley_server.experiments.store import CellRecord
    from parley_server.experiments.tables import Table

_TABLES = {"schedule": SCHEDULE, "cost": COST}
DRAWN = "drawn"
_MEANS = {
    "schedule": (
        *("wait.mean", "slowdown.mean", "bounded_slowdown.mean"),
        *("queue_mean", "utilisation", "loss_of_capacity"),
    ),
    "cost": (
        *("process.cpu_seconds", "process.dispatcher_seconds", "decision_time"),
        *("server_time", "process.memory_mean", "process.memory_peak"),
    ),
}
"""What the plots of the tables show."""

_ENDINGS = {"csv": "csv", "markdown": "md", "latex": "tex"}


class ExperimentResult:
    """What an experiment has left behind, as far as it has come.

    Args:
        directory: Where it lies.

    Attributes:
        records: Of all its cells, in order.
        left_over: Names of cells that lie there and are not of its grid.
        content: Changes with what there is to be drawn.
        drawn: Whether all plots are drawn of just that.

    Raises:
        InputError: There is none.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with Store(directory) as store:
            self.name = store.fact("name") or directory.name
            self.records = store.records()
            self.left_over = store.left_over()
            definition = store.fact("definition")
            drawn = store.fact(DRAWN)
        self._window = _window_of(definition)
        told = [
            (record["name"], record["jobs_sha256"], record["analysis"], __version__)
            for record in self.records
            if record["status"] == "complete"
        ]
        self.content = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        self.drawn = drawn == self.content

    @property
    def complete(self) -> bool:
        """Whether every cell is."""
        return all(record["status"] == "complete" for record in self.records)

    @property
    def running(self) -> bool:
        """Whether somebody is at it."""
        return is_running(self.directory)

    @property
    def failed(self) -> list[CellRecord]:
        """The cells that failed."""
        return [record for record in self.records if record["status"] == "failed"]

    def disagreeing(self) -> list[str]:
        """Return rows of which repetitions with one seed differ: something in them is random."""
        seen: dict[Any, set[str]] = {}
        for record in self.records:
            if record["status"] == "complete":
                seen.setdefault((row_of(record), record["seed"]), set()).add(record["jobs_sha256"])
        return sorted(
            {
                f"{row.workload} on {row.platform} with {row.dispatcher}"
                for (row, _), digests in seen.items()
                if len(digests) > 1
            }
        )

    def table(self, metrics: Sequence[str] = SCHEDULE) -> Table:
        """Return mean and deviation of metrics for each row.

        Raises:
            UsageError: There is no such metric.
        """
        return table_of(self.records, metrics)

    def write_tables(self) -> list[Path]:
        """Write the tables of schedules and of costs, as CSV, Markdown and LaTeX.

        Raises:
            OutputError: They cannot be written.
        """
        written = []
        if not any(record["status"] == "complete" for record in self.records):
            return []
        for name, metrics in _TABLES.items():
            table = self.table(metrics)
            for form, ending in _ENDINGS.items():
                path = self.directory / "tables" / f"{name}.{ending}"
                try:
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(table.text(form), encoding="utf-8")  # type: ignore[arg-type]
                except OSError as error:
                    raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
                written.append(path)
        return written

    def draw(
        self,
        *,
        names: Sequence[str] | None = None,
        formats: Sequence[str] = ("png", "svg"),
        out: Path | None = None,
        poll: Callable[[], None] | None = None,
    ) -> list[Path]:
        """Draw the plots that compare the dispatchers on each workload and machine.

        Of each dispatcher the first complete cell is drawn: that of the first seed.

        Args:
            names: Which plots; None is all.
            formats: `png`, `svg`, `pdf`.
            out: Where they go, in the place of `plots` in the directory.
            poll: Called between plots; what it raises ends it.

        Raises:
            InputError: The files of a cell cannot be read.
            OutputError: A plot cannot be written.
            UsageError: There is no such plot.
        """
        from parley_server.results.plots import draw_all  # noqa: PLC0415 - matplotlib

        written = [] if names is not None else self._draw_means(formats, out)
        places: dict[tuple[str, str], dict[Any, CellRecord]] = {}
        for record in self.records:
            if record["status"] == "complete":
                row = row_of(record)
                places.setdefault((row.workload, row.platform), {}).setdefault(row, record)
        base = self.directory / "plots" if out is None else out
        for place, first in places.items():
            if poll is not None:
                poll()
            runs = [
                open_run(self.directory / CELLS / record["name"], label=row.dispatcher)
                for row, record in first.items()
            ]
            folder = base / ".".join(place)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
            window = self._window
            written += draw_all(runs, folder, names=names, formats=formats, window=window)
        return written

    def _draw_means(self, formats: Sequence[str], out: Path | None) -> list[Path]:
        """Draw the tables: all dispatchers on all workloads, with deviations."""
        from parley_server.results.plot_means import Panel, draw_means  # noqa: PLC0415 - matplotlib
        from parley_server.results.style import save  # noqa: PLC0415

        written: list[Path] = []
        if not any(record["status"] == "complete" for record in self.records):
            return written
        base = self.directory / "plots" if out is None else out
        for name, metrics in _MEANS.items():
            table = self.table(metrics)
            places = list(dict.fromkeys(row.row[:2] for row in table.rows))
            dispatchers = list(dict.fromkeys(row.row.dispatcher for row in table.rows))
            panels = []
            for metric in metrics:
                shape = (len(places), len(dispatchers))
                means, deviations = np.full(shape, np.nan), np.full(shape, np.nan)
                for row in table.rows:
                    place = places.index(row.row[:2]), dispatchers.index(row.row.dispatcher)
                    means[place] = row.values[metric].mean
                    deviations[place] = row.values[metric].deviation
                panels.append(Panel(title_of(metric), means, deviations))
            made = draw_means(
                panels, places=[" on ".join(place) for place in places], dispatchers=dispatchers
            )
            for kind in formats:
                written.append(base / f"{name}.{kind}")
                save(made, written[-1])
        return written


def experiment_directory(path: Path) -> Path:
    """Return where an experiment lies: a directory itself, or what its file says.

    Raises:
        InputError: It is neither.
        UsageError: The file describes none.
    """
    return path if path.is_dir() or path.name == DATABASE else read_definition(path).directory


def _window_of(definition: str | None) -> Window | None:
    if definition is None:
        return None
    return ExperimentSettings.model_validate_json(definition).analysis.window()
