"""`parley schema`: the JSON Schemas of everything that crosses a border."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parley_server.errors import OutputError, RunFailed


def schema(
    directory: Annotated[Path, typer.Argument(help="Where they go.")] = Path("schemas"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if they differ from the models.")
    ] = False,
) -> None:
    """Write the JSON Schemas, or check that those written are up to date."""
    from parley_server.schemas import all_schemas  # noqa: PLC0415 - not for --help

    schemas = all_schemas()
    try:
        if check:
            stale = [
                name
                for name, text in schemas.items()
                if not (directory / name).is_file()
                or (directory / name).read_text(encoding="utf-8") != text
            ]
            if stale:
                raise RunFailed(
                    "stale", f"{directory}: not what the models say: {', '.join(stale)}"
                )
            return
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in schemas.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{directory}: {error.strerror or error}") from None
