"""`parley schema`: what is generated from the models, for programs and for the specification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley_server.errors import OutputError, RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def schema(
    directory: Annotated[
        Path, typer.Argument(help="Where schemas, catalog and examples go.")
    ] = Path("schemas"),
    spec: Annotated[
        Path | None,
        typer.Option(help="A directory of pages whose generated parts are brought up to date."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file is not as it should be.")
    ] = False,
) -> None:
    """Write schemas, catalog and examples of all messages, or check those that are there."""
    from parley_server.schemas import generated_files, generated_pages  # noqa: PLC0415 - slow

    try:
        _settle(directory, generated_files(), check=check)
        if spec is not None:
            if not spec.is_dir():
                raise UsageError(f"{spec}: no directory of pages")
            _settle(spec, generated_pages(spec), check=check)
    except OSError as error:
        raise OutputError(f"{error.filename or directory}: {error.strerror or error}") from None


def _settle(directory: Path, files: Mapping[str, str], *, check: bool) -> None:
    """Write the files that are not as they should be.

    Raises:
        RunFailed: They were only to be checked.
    """
    stale = [name for name, text in files.items() if _bytes_of(directory / name) != text.encode()]
    if not check:
        for name in stale:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(files[name].encode())
    elif stale:
        raise RunFailed("stale", f"{directory}: not what the models say: {', '.join(stale)}")


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
