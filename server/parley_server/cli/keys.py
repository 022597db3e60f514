"""`parley keys`: certificates for servers and dispatchers on different machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from parley_server.errors import OutputError, UsageError


def keys(
    directory: Annotated[Path, typer.Argument(help="Where they go; made if it is not there.")],
    name: Annotated[
        list[str] | None,
        typer.Option(help="Whose; server and client if not given. May stand several times."),
    ] = None,
) -> None:
    """Make CURVE certificates: NAME.key may be handed out, NAME.key_secret stays where it is."""
    from zmq.auth import create_certificates  # noqa: PLC0415 - not for --help

    names = name or ["server", "client"]
    for one in names:
        if not one.isidentifier() and not one.replace("-", "_").isidentifier():
            raise UsageError(f"{one!r} is no name for a key; write letters, digits, - and _")
        for path in (directory / f"{one}.key", directory / f"{one}.key_secret"):
            if path.exists():
                raise UsageError(f"{path}: is there already, and may be in use")
    mask = os.umask(0o077)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for one in names:
            public, secret = map(Path, create_certificates(directory, one))
            typer.echo(f"{public}  {secret}")
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror or error}") from None
    finally:
        os.umask(mask)
