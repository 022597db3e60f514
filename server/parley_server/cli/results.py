"""`parley plot`, `report`, `compare`, `metrics`, `export`: look at what runs have left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley_server.errors import UsageError

if TYPE_CHECKING:
    from parley_server.results.sample import Window

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Directories that runs have written.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="What a run is called, in their order; repeatable."),
]
WarmupOption = Annotated[
    str, typer.Option(help="Judge only jobs submitted after so long: 24h, or 10% of the makespan.")
]
CooldownOption = Annotated[
    str, typer.Option(help="... and before the end so long: 24h, 10%, or drain: last submission.")
]
PartialOption = Annotated[
    bool, typer.Option("--partial", help="Read what there is of a run that is not over.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option("--metric", help="Of jobs, by name or path/to/file.py:function; repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


def plot(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Directories that runs have written."),
    ] = None,
    plot_: Annotated[
        list[str] | None,
        typer.Option(
            "--plot", help="Which, by name or path/to/file.py:function; repeatable; else all."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Of these only: decision, performance or workload.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the files go.")] = Path("plots"),
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, svg or pdf; repeatable; else png and svg."),
    ] = None,
    label: LabelOption = None,
    warmup: WarmupOption = "0s",
    cooldown: CooldownOption = "0s",
    partial: PartialOption = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Show which plots there are, and leave.")
    ] = False,
) -> None:
    """Draw runs, each plot into files of its own."""
    from parley_server.results.run_directory import open_runs  # noqa: PLC0415 - not for --help

    if list_:
        from parley_server.results.plots import PLOTS  # noqa: PLC0415

        for known in PLOTS:
            print(f"{known.name:<22}{known.shows}")
        return
    if not runs:
        raise UsageError("which runs? name their directories")
    formats = format_ or ["png", "svg"]
    strange = [kind for kind in formats if kind not in {"png", "svg", "pdf"}]
    if strange:
        raise UsageError(f"--format {strange[0]}: a plot is png, svg or pdf")
    found = open_runs(runs, labels=label or (), partial=partial)
    # matplotlib takes its time, which is not due for runs that are none.
    from parley_server.results.plots import draw_all  # noqa: PLC0415

    for path in draw_all(
        found, out, names=plot_, kind=kind, formats=formats, window=_window(warmup, cooldown)
    ):
        print(path)


def report(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    plot_: Annotated[
        list[str] | None, typer.Option("--plot", help="Which plots; repeatable; else all.")
    ] = None,
    metric: MetricOption = None,
    title: Annotated[str | None, typer.Option(help="What stands above it.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    label: LabelOption = None,
    warmup: WarmupOption = "0s",
    cooldown: CooldownOption = "0s",
    partial: PartialOption = False,
) -> None:
    """Write one page of HTML about runs; the first is what others are compared with."""
    from parley_server.results.run_directory import open_runs  # noqa: PLC0415 - not for --help

    if out.is_dir():
        raise UsageError(f"{out}: is a directory; --out takes the name of a page")
    found = open_runs(runs, labels=label or (), partial=partial)
    from parley_server.results.report import report as page  # noqa: PLC0415
    from parley_server.results.report import write_report  # noqa: PLC0415

    text = page(
        found,
        window=_window(warmup, cooldown),
        plots=plot_,
        metrics=metric or (),
        title=title,
        seed=seed,
    )
    write_report(text, out)
    print(out)


def compare(
    runs: Runs,
    metric: MetricOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    most: Annotated[int, typer.Option(min=0, help="Jobs to name that gained or lost most.")] = 5,
    label: LabelOption = None,
    warmup: WarmupOption = "0s",
    cooldown: CooldownOption = "0s",
    partial: PartialOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare runs with the first, job by job."""
    from parley_server.cli.result_tables import show_comparisons  # noqa: PLC0415 - not for --help
    from parley_server.results.comparison import COMPARED  # noqa: PLC0415
    from parley_server.results.comparison import compare as compared  # noqa: PLC0415
    from parley_server.results.run_directory import open_runs  # noqa: PLC0415
    from parley_server.results.sample import Sample  # noqa: PLC0415

    if len(runs) < 2:
        raise UsageError("compare takes two runs or more; the others are compared with the first")
    window = _window(warmup, cooldown)
    found = open_runs(runs, labels=label or (), partial=partial)
    first, *others = [Sample(run, window) for run in found]
    names = metric or COMPARED
    show_comparisons(
        [compared(first, other, metrics=names, seed=seed, most=most) for other in others],
        as_json=as_json,
    )


def metrics(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Directories; without one, what each metric is."),
    ] = None,
    metric: MetricOption = None,
    by: Annotated[
        str | None,
        typer.Option(help="By class: size, work, runtime, user, group, queue, partition, state."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Users, groups or queues to show.")] = 20,
    label: LabelOption = None,
    warmup: WarmupOption = "0s",
    cooldown: CooldownOption = "0s",
    partial: PartialOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tell what runs are worth, or what each metric is."""
    from parley_server.cli.result_tables import (  # noqa: PLC0415 - not for --help
        show_classes,
        show_documentation,
        show_metrics,
    )
    from parley_server.results.run_directory import open_runs  # noqa: PLC0415
    from parley_server.results.sample import Sample  # noqa: PLC0415

    if not runs:
        show_documentation()
        return
    window = _window(warmup, cooldown)
    found = open_runs(runs, labels=label or (), partial=partial)
    samples = [Sample(run, window) for run in found]
    if by is None:
        show_metrics(samples, metric, as_json=as_json)
    else:
        chosen = metric or ["wait", "bounded_slowdown"]
        show_classes(samples, by, chosen, most=most, as_json=as_json)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A directory that a run has written.")],
    to: Annotated[str, typer.Option("--to", help="machine-states (as Batsim), paje, or parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="The file, or for parquet the directory; else beside RUN's.")
    ] = None,
    partial: PartialOption = False,
) -> None:
    """Write a run for other tools."""
    from parley_server.results.export import export as written  # noqa: PLC0415 - not for --help
    from parley_server.results.run_directory import open_run  # noqa: PLC0415

    for path in written(open_run(run, partial=partial), to, out):
        print(path)


def _window(warmup: str, cooldown: str) -> Window:
    from parley_server.results.sample import Window  # noqa: PLC0415 - not for --help

    return Window(warmup, cooldown)
