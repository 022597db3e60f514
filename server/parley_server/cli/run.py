"""`parley run`: one scenario, from flags or a file, to a directory of results."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from parley_server.errors import UsageError
from parley_server.quantities import parse_amounts, parse_columns


class CommandAfterDashes(TyperCommand):
    """Whatever stands behind `--` is a dispatcher's command line, not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Cut the arguments at the first `--`."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta["command"] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show the dispatcher's command in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARGS...]"]


def run(
    ctx: typer.Context,
    scenario: Annotated[
        Path | None, typer.Argument(help="A scenario file; flags win over it.")
    ] = None,
    swf: Annotated[Path | None, typer.Option(help="A trace, plain or compressed.")] = None,
    workload: Annotated[
        Path | None,
        typer.Option(help="A workload in any format (see --format) instead; - is standard input."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Of the workload: auto, swf, jsonl, batsim, sacct, csv, parquet, or "
            "path/to/file.py:function.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Of a table, FIELD=COLUMN, such as id=job; may be repeated."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A column that travels to the dispatcher; may be repeated."),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="How many equal nodes.")] = None,
    per_node: Annotated[
        str | None, typer.Option(help="What each has, as core=4,gpu=1; core=1 if not given.")
    ] = None,
    platform: Annotated[
        Path | None,
        typer.Option(
            help="A platform file instead: ours, AccaSim's, Batsim's XML, slurm.conf; guess takes "
            "it from an SWF header."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            help="A requested processor is an exclusive node (nodes) or a chunk that "
            "may share one (processors)."
        ),
    ] = None,
    per_processor: Annotated[
        str | None, typer.Option(help="What such a chunk asks of its node; core=1.")
    ] = None,
    processors_per_node: Annotated[
        int | None, typer.Option(help="With request nodes: so many processors are a node.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Processors requested, or allocated; requested.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Requested memory: ignore, per-processor, or per-job."),
    ] = None,
    memory_unit: Annotated[
        str | None, typer.Option(help="In what the trace counts it: bytes, kilobytes, megabytes.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A cleaning rule, such as 'user=3 and proc=1'; may be repeated."),
    ] = None,
    zero_runtime: Annotated[
        str | None, typer.Option(help="Runtimes of zero: keep, drop, raise, or raise:10s.")
    ] = None,
    reorder: Annotated[
        str | None,
        typer.Option(
            help="Lines out of order: as-is drops them, window:N looks among N jobs, sort."
        ),
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="The trace's instant that is to be time 0.")
    ] = None,
    select: Annotated[
        str | None, typer.Option(help="all, or archive: without lines of status 2, 3 and 4.")
    ] = None,
    on_overrun: Annotated[
        str | None, typer.Option(help="run on beyond the walltime, or kill there.")
    ] = None,
    estimate: Annotated[
        str | None, typer.Option(help="Walltimes: trace, exact, factor:F of the runtime, model:F.")
    ] = None,
    estimate_missing: Annotated[
        str | None,
        typer.Option(
            help="Where the trace has none: runtime, none, maximum, maximum:5h, factor:F, model:F."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Read so many jobs at most.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="A policy by name, or FILE.py:NAME; parley policies lists them. fifo"),
    ] = None,
    allocator: Annotated[
        str | None, typer.Option(help="An allocator by name, or FILE.py:NAME; first-fit.")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="The policy's queue order: a name, or FILE.py:NAME.")
    ] = None,
    depth: Annotated[int | None, typer.Option(help="How many reservations it keeps.")] = None,
    backfill_order: Annotated[
        str | None, typer.Option(help="In which order it backfills, if not in the queue's.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="The policy decides only so often: 30s, 5m.")
    ] = None,
    examine: Annotated[
        int | None, typer.Option(help="It looks at so many jobs at a time at most.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the policy."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For all that is random; 0.")] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Wall time for each answer of a child: 60s, 5m.")
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict", help="A dropped line or rejected job is an error.")
    ] = None,
    on_node_down: Annotated[
        str | None, typer.Option(help="Jobs on a node that goes down: kill, or requeue.")
    ] = None,
    on_reject: Annotated[
        str | None, typer.Option(help="A refused decision: report it, reask, or fail the run.")
    ] = None,
    reasks: Annotated[
        int | None, typer.Option(help="How often one instant is asked about again; 3.")
    ] = None,
    on_timeout: Annotated[
        str | None, typer.Option(help="A late reply: fail, take it as empty, or detach.")
    ] = None,
    on_disconnect: Annotated[
        str | None, typer.Option(help="A child that is gone: fail, or wait and start it again.")
    ] = None,
    reconnect: Annotated[
        str | None, typer.Option(help="How long to wait for a resume, in wall time; 60s.")
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="How often a child is started again; 3.")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(help="What a decision takes: zero, fixed:5s, scaled:2, or measured."),
    ] = None,
    dynamic_jobs: Annotated[
        bool | None, typer.Option("--dynamic-jobs", help="The dispatcher may submit jobs.")
    ] = None,
    state_digest: Annotated[
        bool | None,
        typer.Option("--state-digest", help="Let the dispatcher check its mirror; slow."),
    ] = None,
    transcript: Annotated[
        Path | None, typer.Option(help="A file for every message, as parley replay reads it.")
    ] = None,
    journal: Annotated[
        bool,
        typer.Option("--journal", help="Keep every reply, so that --resume can take the run up."),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Take up the run in this directory where its journal ends."),
    ] = None,
    external: Annotated[
        bool | None,
        typer.Option("--external", help="The built-in policy in a child process, over ZeroMQ."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the results go.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another run in that directory.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print one line per message to standard error.")
    ] = False,
    watch_at: Annotated[
        str | None,
        typer.Option(help="Tell how it stands there as well, for parley watch: tcp://127.0.0.1:*"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the scenario and show it; run nothing.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no result; warnings stay.")
    ] = False,
) -> None:
    """Simulate a scenario and write its results.

    The dispatcher is a built-in policy, or any command behind `--`: {endpoint} in it is replaced
    by where the server listens, and PARLEY_ENDPOINT is set to the same.
    """
    from parley_server.api import load_resumed, load_scenario, run_scenario  # noqa: PLC0415 - not for --help
    from parley_server.cli.display import (  # noqa: PLC0415
        progress_on,
        show_result,
        trace_line,
        warn_of_losses,
    )
    from parley_server.cli.interrupts import Interrupts  # noqa: PLC0415
    from parley_server.cli.watch import publication  # noqa: PLC0415
    from parley_server.running import (  # noqa: PLC0415
        Preparation,
        RunOptions,
        policy_parameters,
    )
    from parley_server.scenario import settings_of  # noqa: PLC0415

    command: list[str] | None = ctx.meta.get("command")
    if command == []:
        raise UsageError("a command is missing behind --")
    changes = settings_of(
        nodes=nodes,
        per_node=None if per_node is None else parse_amounts(per_node),
        platform=platform,
        swf=swf,
        workload=workload,
        format=format_,
        columns=parse_columns(column),
        attributes=attribute or None,
        request=request,
        processors_per_node=processors_per_node,
        size=size,
        memory=memory,
        memory_unit=memory_unit,
        drop=drop or None,
        zero_runtime=zero_runtime,
        reorder=reorder,
        origin=origin,
        per_processor=None if per_processor is None else parse_amounts(per_processor),
        select=select,
        estimate=estimate,
        estimate_missing=estimate_missing,
        limit=limit,
        on_overrun=on_overrun,
        seed=seed,
        deadline=deadline,
        strict=strict,
        policy=policy,
        allocator=allocator,
        parameters=policy_parameters(
            settings or (),
            order=order,
            depth=depth,
            backfill_order=backfill_order,
            interval=interval,
            examine=examine,
        ),
        external=external,
        command=command,
        out=out,
        on_node_down=on_node_down,
        on_reject=on_reject,
        reasks=reasks,
        on_timeout=on_timeout,
        on_disconnect=on_disconnect,
        reconnect=reconnect,
        restarts=restarts,
        latency=latency,
        dynamic_jobs=dynamic_jobs,
        state_digest=state_digest,
    )
    if resume is not None:
        resolved = load_resumed(resume, changes, scenario)
    else:
        if scenario is None and swf is None and workload is None and format_ is None:
            raise UsageError(
                "what is to be simulated? name a scenario file, a trace with --swf, or a --workload"
            )
        if scenario is None and nodes is None and platform is None:
            raise UsageError("on which machine? give --nodes or --platform")
        resolved = load_scenario(scenario, changes)
    if dry_run:
        prepared = Preparation(resolved)
        prepared.check_first_job()
        typer.echo(resolved.resolved(prepared.machine), nl=False)
        return
    # A simulation makes millions of objects and hardly a cycle: looking for them costs a tenth.
    gc.set_threshold(100_000, 50, 100)
    published = publication(watch_at, quiet=quiet)
    progress = progress_on(sys.stderr, quiet=quiet or trace)
    options = RunOptions(
        force=force,
        progress=progress.show if progress else None,
        trace=trace_line if trace else None,
        transcript=transcript,
        journal=journal,
        resume=resume is not None,
        poll=Interrupts().poll,
        publish=None if published is None else lambda status: published.send([status]),
    )
    try:
        result = run_scenario(resolved, options)
    finally:
        if progress:
            progress.close()
        if published is not None:
            published.close()
    warn_of_losses(result.summary)
    if not quiet:
        show_result(result.summary, result.files.directory)
