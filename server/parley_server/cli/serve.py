"""`parley serve`: wait for dispatchers that are started elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from parley_server.errors import ExitStatus, ParleyError, UsageError, one_line


def serve(
    scenarios: Annotated[list[Path], typer.Argument(help="Scenario files; a hello names one.")],
    bind: Annotated[
        str, typer.Option(help="Where to listen; port * takes a free one.")
    ] = "tcp://127.0.0.1:5555",
    out: Annotated[
        Path | None, typer.Option(help="Each session's results go to OUT/1, OUT/2, ...")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="End after so many; without, at Ctrl-C.")
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option(min=1, help="How many at once; more are turned away.")
    ] = None,
    curve_secret: Annotated[
        Path | None, typer.Option(help="The server's secret certificate; parley keys makes it.")
    ] = None,
    curve_clients: Annotated[
        Path | None,
        typer.Option(
            help="A directory of the public certificates of those who are let in; without it, "
            "whoever knows the server's."
        ),
    ] = None,
    transcript: Annotated[
        Path | None,
        typer.Option(help="A file for every message; the session's number is put in its name."),
    ] = None,
    watch_at: Annotated[
        str | None,
        typer.Option(help="Tell how the sessions stand there, for parley watch."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace other runs in that directory.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print one line per message to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Wait for dispatchers; each hello starts a fresh run in a directory of its own."""
    from parley_server.api import load_scenario  # noqa: PLC0415 - not for --help
    from parley_server.cli.display import trace_line  # noqa: PLC0415
    from parley_server.cli.interrupts import Interrupts  # noqa: PLC0415
    from parley_server.cli.watch import publication  # noqa: PLC0415
    from parley_server.host.wire import Curve  # noqa: PLC0415
    from parley_server.service import Service  # noqa: PLC0415

    if out is None:
        raise UsageError("where do the results go? name a directory with --out")
    if curve_clients is not None and curve_secret is None:
        raise UsageError("--curve-clients goes with --curve-secret, the server's own key")

    def report(directory: Path, failure: ParleyError | None) -> None:
        if failure is not None:
            print(f"parley: {one_line(f'{directory}: {failure}')}", file=sys.stderr)
        elif not quiet:
            print(f"{directory}: complete", flush=True)

    published = publication(watch_at, quiet=quiet)
    service = Service(
        [load_scenario(path, {}) for path in scenarios],
        bind,
        out,
        sessions=sessions,
        at_once=max_sessions,
        curve=None if curve_secret is None else Curve(curve_secret, curve_clients),
        transcript=transcript,
        force=force,
        report=report,
        trace=trace_line if trace else None,
        poll=Interrupts().poll,
        publish=None if published is None else published.send,
    )
    if not quiet:
        print(f"listening at {service.endpoint}", flush=True)
    try:
        service.run()
    finally:
        if published is not None:
            published.close()
    if service.failed:
        raise typer.Exit(ExitStatus.FAILED)
