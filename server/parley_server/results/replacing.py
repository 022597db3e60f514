"""Files that are written whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from parley_server.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write to that takes the place of *path* once all is written.

    Directories above it are made. Whatever goes wrong, what was there before stays.

    Raises:
        OutputError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device is written to, never replaced.
        try:
            yield path
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        return
    temporary = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
