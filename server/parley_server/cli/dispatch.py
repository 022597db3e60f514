"""`parley dispatch`: a built-in policy as a dispatcher of its own."""

from __future__ import annotations

from typing import Annotated

import typer


def dispatch(
    connect: Annotated[
        str | None,
        typer.Option(help="Where the server listens.", envvar="PARLEY_ENDPOINT"),
    ] = None,
    policy: Annotated[str, typer.Option(help="A built-in policy.")] = "fifo",
    allocator: Annotated[str, typer.Option(help="A built-in allocator.")] = "first-fit",
) -> None:
    """Decide for a server, by a built-in policy, until its run is over."""
    from parley_client.__main__ import dispatch as decide  # noqa: PLC0415 - not for --help

    raise typer.Exit(decide(connect, policy, allocator))
