"""`parley experiment`: a grid of runs from one file, its table and its plots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley_server.errors import ExitStatus, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_server.experiments.experiment import Outlook
    from parley_server.experiments.result import ExperimentResult
    from parley_server.experiments.runner import CellEnd, Progress

experiment_app = typer.Typer(
    name="experiment", help="Grids of runs, from one file.", no_args_is_help=True
)

_MOST_FAILURES = 10

Definition = Annotated[Path, typer.Argument(help="A TOML file with a grid; see EXPERIMENTS.md.")]
Place = Annotated[Path, typer.Argument(help="The experiment's directory, or its file.")]


def run(
    definition: Definition,
    out: Annotated[
        Path | None, typer.Option(help="Where everything goes, if not where the file says.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=4096, help="How many cells at a time.")
    ] = 1,
    force: Annotated[
        bool, typer.Option("--force", help="Run cells again that are of other settings.")
    ] = False,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw the plots.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the grid and list its cells; run nothing.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no table; failures stay.")
    ] = False,
) -> None:
    """Run all cells that are not complete; the same command goes on where it was stopped."""
    from parley_server.cli.display import shortest  # noqa: PLC0415 - not for --help
    from parley_server.cli.interrupts import Interrupts  # noqa: PLC0415
    from parley_server.experiments.experiment import Experiment  # noqa: PLC0415

    experiment = Experiment.read(definition, out=out)
    if dry_run:
        _show_outlook(experiment.outlook())
        return
    shown = _Progress(quiet=quiet)
    try:
        result = experiment.run(
            jobs=jobs,
            force=force,
            plots=plots,
            begun=shown.begun,
            ended=shown.ended,
            progress=shown.progress if sys.stderr.isatty() and not quiet else None,
            poll=Interrupts().poll,
        )
    except KeyboardInterrupt:
        shown.close()
        _warn("what is complete stays; the same command goes on from here")
        raise
    finally:
        shown.close()
    _warn_of(result)
    if not quiet:
        print(result.table().text(), end="")
        print(f"tables and plots in {shortest(result.directory)}")
    if not result.complete:
        _fail(result)


def status(
    place: Place,
    every: Annotated[bool, typer.Option("--all", help="Show every cell.")] = False,
) -> None:
    """Show how far an experiment is, and what failed."""
    result = _result(place)
    counts = {"complete": 0, "failed": 0, "running": 0, "waiting": 0}
    going = result.running
    for record in result.records:
        # Who was killed could not say so.
        state = record["status"]
        counts["waiting" if state == "running" and not going else state] += 1
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    print(f"{result.name}: {len(result.records)} cells: {told}; {'' if going else 'not '}running")
    for record in result.records:
        if every or record["status"] == "failed":
            took = record["wall_seconds"]
            more = record["message"] or ("" if took is None else f"{took:,.1f} s")
            print(one_line(f"  {record['name']}: {record['status']} {more}".rstrip()))
    _warn_of(result, failures=False)


def table(
    place: Place,
    form: Annotated[str, typer.Option("--format", help="csv, markdown, or latex.")] = "markdown",
    cost: Annotated[
        bool, typer.Option("--cost", help="What the runs cost, in the place of what they gave.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A column, such as wait.p95 or utilisation; may be repeated."),
    ] = None,
) -> None:
    """Print mean ± standard deviation over seeds and repetitions, a row for each dispatcher."""
    from parley_server.experiments.tables import COST, FORMATS, SCHEDULE  # noqa: PLC0415

    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; there are: {', '.join(FORMATS)}")
    result = _result(place)
    chosen = tuple(metric or (COST if cost else SCHEDULE))
    print(result.table(chosen).text(form), end="")
    _warn_of(result, failures=False)


def plot(
    place: Place,
    plot_: Annotated[
        list[str] | None,
        typer.Option("--plot", help="A plot by name, or FILE.py:NAME; may be repeated. All."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where they go, if not to its plots.")] = None,
    form: Annotated[
        list[str] | None, typer.Option("--format", help="png, svg, or pdf; may be repeated.")
    ] = None,
) -> None:
    """Draw the plots that compare the dispatchers on each workload."""
    result = _result(place)
    formats = tuple(form or ("png", "svg"))
    unknown = next((kind for kind in formats if kind not in {"png", "svg", "pdf"}), None)
    if unknown is not None:
        raise UsageError(f"there is no format {unknown!r}; there are: png, svg, pdf")
    written = result.draw(names=plot_ or None, formats=formats, out=out)
    if not written:
        raise UsageError(f"{result.directory}: no cell is complete; there is nothing to draw")
    for path in written:
        print(path)


EXPERIMENT_COMMANDS: tuple[Callable[..., None], ...] = (run, status, table, plot)


class _Progress:
    """Cells as they end, a line each; on a terminal also what runs and how long it will take."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.live: Any = None

    def begun(self, outlook: Outlook) -> None:
        for name in outlook.older[:1]:
            _warn(
                f"{len(outlook.older)} complete cells were run by another version of Parley "
                f"({name}, ...); --out elsewhere runs all by this one"
            )
        if self._quiet:
            return
        done = len(outlook.cells) - len(outlook.work)
        if done:
            print(
                f"{done} of {len(outlook.cells)} cells are complete already",
                file=sys.stderr,
                flush=True,
            )
        if outlook.work and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - only on a terminal
            from rich.live import Live  # noqa: PLC0415

            console = Console(file=sys.stderr, highlight=False)
            self.live = Live(console=console, auto_refresh=False, transient=True)
            self.live.start()

    def ended(self, end: CellEnd) -> None:
        record = end.record
        took = record["wall_seconds"]
        line = f"[{end.number}/{end.count}] {record['name']}: {record['status']}"
        if record["status"] == "failed":
            line += f": {record['message']}"
        elif took is not None:
            line += f" in {took:,.1f} s"
        if self._quiet and record["status"] != "failed":
            return
        if self.live is not None:
            self.live.console.print(one_line(line), markup=False)
        else:
            print(one_line(line), file=sys.stderr, flush=True)

    def progress(self, progress: Progress) -> None:
        from rich.text import Text  # noqa: PLC0415 - only on a terminal

        if self.live is None:
            return
        running = ", ".join(f"{name} ({seconds:,.0f} s)" for name, seconds in progress.running)
        left = progress.seconds_left
        told = [
            f"{progress.complete} of {progress.total} cells complete",
            *([f"{progress.failed} failed"] if progress.failed else []),
            "time left unknown" if left is None else f"about {_duration(left)} left",
        ]
        self.live.update(Text(f"{', '.join(told)}; running: {running}"), refresh=True)

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


def _result(place: Path) -> ExperimentResult:
    from parley_server.experiments.result import (  # noqa: PLC0415 - not for --help
        ExperimentResult,
        experiment_directory,
    )

    return ExperimentResult(experiment_directory(place))


def _show_outlook(outlook: Outlook) -> None:
    todo = {work.cell.name: work for work in outlook.work}
    changed = set(outlook.changed)
    for cell in outlook.cells:
        state = "complete"
        if cell.name in changed:
            state = "complete, but of other settings"
        elif cell.name in todo:
            state = "to run" if todo[cell.name].record is None else "to be measured anew"
        print(f"{cell.name}: {state}")


def _warn_of(result: ExperimentResult, *, failures: bool = True) -> None:
    for row in result.disagreeing():
        _warn(f"{row}: repetitions with one seed differ; the dispatcher is not deterministic")
    if result.left_over:
        _warn(
            f"{len(result.left_over)} cells in {result.directory} are not of this grid "
            f"({result.left_over[0]}, ...); they are left alone"
        )
    if failures and result.failed:
        for record in result.failed[:_MOST_FAILURES]:
            _warn(f"{record['name']}: {record['message']}")


def _fail(result: ExperimentResult) -> None:
    missing = sum(record["status"] != "complete" for record in result.records)
    _warn(
        f"{missing} of {len(result.records)} cells are not complete; the same command tries them "
        "again"
    )
    raise typer.Exit(ExitStatus.FAILED)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _warn(message: str) -> None:
    print(f"parley: {one_line(message)}", file=sys.stderr)
