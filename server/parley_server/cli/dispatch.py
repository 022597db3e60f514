"""`parley dispatch`: a built-in policy as a dispatcher of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def dispatch(
    connect: Annotated[
        str | None,
        typer.Option(help="Where the server listens.", envvar="PARLEY_ENDPOINT"),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="A policy by name, or FILE.py:NAME; parley policies lists them.")
    ] = "fifo",
    allocator: Annotated[
        str, typer.Option(help="An allocator by name, or FILE.py:NAME.")
    ] = "first-fit",
    order: Annotated[str | None, typer.Option(help="The policy's queue order.")] = None,
    depth: Annotated[int | None, typer.Option(help="How many reservations it keeps.")] = None,
    backfill_order: Annotated[str | None, typer.Option(help="In which order it backfills.")] = None,
    interval: Annotated[str | None, typer.Option(help="Decide only so often: 30s.")] = None,
    examine: Annotated[int | None, typer.Option(help="Look at so many jobs at most.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the policy."),
    ] = None,
    session_file: Annotated[
        Path | None,
        typer.Option(help="Keeps what it takes to go on after a crash; if it is there, go on."),
    ] = None,
    curve_server: Annotated[
        Path | None, typer.Option(help="The server's public certificate.")
    ] = None,
    curve_secret: Annotated[Path | None, typer.Option(help="One's own secret certificate.")] = None,
) -> None:
    """Decide for a server, by a built-in policy, until its run is over."""
    from parley_client.__main__ import ConnectionOptions  # noqa: PLC0415 - not for --help
    from parley_client.__main__ import dispatch as decide  # noqa: PLC0415

    named = {"order": order, "depth": depth, "backfill_order": backfill_order}
    more = {"interval": interval, "examine": examine}
    connection = ConnectionOptions(session_file, curve_server, curve_secret)
    raise typer.Exit(
        decide(connect, policy, allocator, settings or (), connection=connection, **named, **more)
    )
