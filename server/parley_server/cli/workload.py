"""`parley workload`: look at workloads, clean them, convert them, make others of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parley_server.errors import UsageError

workload_app = typer.Typer(
    name="workload",
    help="Look at workloads, clean them, convert them, make others of them; - is a pipe.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

In = Annotated[Path, typer.Argument(metavar="IN", help="A workload; - is standard input.")]
Out = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="Where it goes; .gz, .bz2, .xz, .zst compress; - is out."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="Of IN: auto, swf, jsonl, batsim, sacct, csv, parquet, path/to/file.py:function.",
    ),
]
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", help="Of a table, FIELD=COLUMN; repeatable.")
]
AttributeOption = Annotated[
    list[str] | None, typer.Option("--attribute", help="A column to keep; repeatable.")
]
ToOption = Annotated[
    str | None, typer.Option("--to", help="swf or jsonl; else the ending of OUT tells, else swf.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="A line that cannot be read, or is dropped, is an error.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no counts.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


def info(
    file: In,
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Processors of the machine the load is offered to.")
    ] = None,
    platform: Annotated[
        Path | None, typer.Option(help="The machine's description instead, or guess.")
    ] = None,
    flurries: Annotated[
        bool, typer.Option("--flurries", help="Look for flurries as well; see WORKLOADS.md.")
    ] = False,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Of a week's jobs, for a flurry.")
    ] = 0.5,
    factor: Annotated[
        float, typer.Option(min=0, help="Times the median of users' weeks, for a flurry.")
    ] = 10.0,
    minimum: Annotated[int, typer.Option(min=1, help="Jobs of a flurry.")] = 200,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Tell what a workload holds, and what a reader meets in it."""
    from parley_server.cli.tools import opened, show_information, watched  # noqa: PLC0415
    from parley_server.toolbox import information  # noqa: PLC0415
    from parley_server.workload.flurry import Thresholds  # noqa: PLC0415

    thresholds = Thresholds(share, factor, minimum) if flurries else None
    workload = opened(file, format_, column)
    with watched(quiet=quiet) as watch:
        found = information(
            workload,
            processors=nodes,
            platform=platform,
            thresholds=thresholds,
            strict=strict,
            watch=watch,
        )
    show_information(found, as_json=as_json)


def clean(
    file: In,
    out: Out,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            help="A rule, such as 'user=3 and proc=1'; or header:FILE for the filters that the "
            "header of an archive's file names; or @FILE with one rule per line; repeatable."
        ),
    ] = None,
    flurries: Annotated[
        bool, typer.Option("--flurries", help="Drop what the detector finds; see WORKLOADS.md.")
    ] = False,
    select: Annotated[
        str, typer.Option(help="all, or archive: without lines of status 2, 3 and 4.")
    ] = "all",
    zero_runtime: Annotated[
        str, typer.Option(help="Runtimes of zero: keep, drop, raise, or raise:10s.")
    ] = "keep",
    simulatable: Annotated[
        bool,
        typer.Option("--simulatable", help="Drop what no run could simulate, each by its rule."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="For samples.")] = 0,
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    attribute: AttributeOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a workload without the lines that rules drop, and say what each dropped."""
    from parley_server.cli.tools import opened, show_report, watched  # noqa: PLC0415
    from parley_server.toolbox import CleaningSettings, cleaned, rules_of  # noqa: PLC0415

    settings = CleaningSettings(
        rules=rules_of(rules or []),
        flurries=flurries,
        select=select,
        zero_runtime=zero_runtime,
        simulatable=simulatable,
        seed=seed,
        strict=strict,
    )
    with watched(quiet=quiet) as watch:
        report = cleaned(opened(file, format_, column, attribute), out, to, settings, watch=watch)
    if not quiet:
        show_report(report)


def convert(
    file: In,
    out: Out,
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    attribute: AttributeOption = None,
    to: ToOption = None,
    reorder: Annotated[
        str, typer.Option(help="as-is keeps the lines' order, sort sorts by submission.")
    ] = "as-is",
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a workload in another format."""
    from parley_server.cli.tools import opened, show_report, watched  # noqa: PLC0415
    from parley_server.toolbox import converted  # noqa: PLC0415

    workload = opened(file, format_, column, attribute)
    with watched(quiet=quiet) as watch:
        report = converted(workload, out, to, order=reorder, strict=strict, watch=watch)
    if not quiet:
        show_report(report)


def head(
    file: In,
    out: Annotated[Path, typer.Argument(metavar="[OUT]")] = Path("-"),
    jobs: Annotated[int, typer.Option("--jobs", "-n", min=1, help="So many.")] = 10,
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    attribute: AttributeOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
) -> None:
    """Write the first jobs of a workload."""
    from parley_server.cli.tools import opened  # noqa: PLC0415
    from parley_server.toolbox import converted  # noqa: PLC0415

    converted(opened(file, format_, column, attribute), out, to, jobs=jobs, strict=strict)


def scale(
    file: In,
    out: Out,
    load: Annotated[
        str, typer.Option(help="So many times as much work a day, such as 1.2: time is shortened.")
    ],
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a workload whose jobs come closer together, or further apart."""
    from parley_server.cli.tools import factor_of, opened, show_report, watched  # noqa: PLC0415
    from parley_server.toolbox import scaled_to  # noqa: PLC0415

    with watched(quiet=quiet) as watch:
        report = scaled_to(
            opened(file, format_, column), out, to, factor_of(load), strict=strict, watch=watch
        )
    if not quiet:
        show_report(report)


def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="IN... OUT", help="Two workloads or more, and OUT.")
    ],
    apart: Annotated[
        bool, typer.Option("--apart", help="A user of one workload is nobody of another.")
    ] = False,
    format_: FormatOption = "auto",
    to: ToOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write several workloads as one, by submission, numbered from 1."""
    from parley_server.cli.tools import opened, show_report, watched  # noqa: PLC0415
    from parley_server.toolbox import merged_into  # noqa: PLC0415

    *inputs, out = files
    if len(inputs) < 2:
        raise UsageError("merge takes two workloads or more, and where the result goes")
    with watched(quiet=quiet) as watch:
        report = merged_into(
            [opened(path, format_) for path in inputs],
            out,
            to,
            apart=apart,
            strict=strict,
            watch=watch,
        )
    if not quiet:
        show_report(report)


def tile(
    file: In,
    out: Out,
    jobs: Annotated[int | None, typer.Option(min=1, help="End after so many jobs.")] = None,
    times: Annotated[int | None, typer.Option(min=1, help="Or after so many copies.")] = None,
    format_: FormatOption = "auto",
    column: ColumnOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a workload again and again, each copy whole days after the one before."""
    from parley_server.cli.tools import opened, show_report, watched  # noqa: PLC0415
    from parley_server.toolbox import tiled_to  # noqa: PLC0415

    if (jobs is None) is (times is None):
        raise UsageError("how long? give one of --jobs and --times")
    with watched(quiet=quiet) as watch:
        report = tiled_to(
            opened(file, format_, column),
            out,
            to,
            jobs=jobs,
            times=times,
            strict=strict,
            watch=watch,
        )
    if not quiet:
        show_report(report)


WORKLOAD_COMMANDS = (info, clean, convert, head, scale, merge, tile)
