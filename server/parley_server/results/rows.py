"""Rows of text on their way to a file: in blocks, whole, and never half."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley_server.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BLOCK = 1000
"""Rows that are written together, at least."""


class RowFile:
    """A file of rows; what is on disk is always whole rows.

    Args:
        path: Where it lies.
        header: Its first row.
        append: Keep the whole rows of a file that is there.

    Raises:
        OutputError: It cannot be created.
    """

    def __init__(self, path: Path, header: str, *, append: bool = False) -> None:
        self.path = path
        self._broken = False
        try:
            self._size = _whole_rows(path) if append else 0
            self._file = path.open("r+b" if self._size else "wb", buffering=0)
            self._file.truncate(self._size)
            self._file.seek(self._size)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._rows = [] if self._size else [header]

    def write(self, row: str) -> None:
        """Add a row, without its line end.

        Raises:
            OutputError: A block could not be written.
        """
        self._rows.append(row)
        if len(self._rows) >= BLOCK:
            self.flush()

    def extend(self, rows: Iterable[str]) -> None:
        """Add rows, without their line ends.

        Raises:
            OutputError: A block could not be written.
        """
        self._rows += rows
        if len(self._rows) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Hand the rows that wait to the operating system.

        Raises:
            OutputError: They could not be written; the file ends with the last whole block.
        """
        if self._broken:
            # What would follow now would leave a hole where the rows that failed belong.
            self._rows.clear()
        if not self._rows:
            return
        self._rows.append("")
        block = "\n".join(self._rows).encode()
        self._rows.clear()
        try:
            written = 0
            while written < len(block):
                written += self._file.write(block[written:]) or 0
        except OSError as error:
            # The rows before stay; half a row would spoil the file.
            self._broken = True
            os.ftruncate(self._file.fileno(), self._size)
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None
        self._size += len(block)

    def close(self) -> None:
        """Write what waits and close the file.

        Raises:
            OutputError: The rows could not be written.
        """
        try:
            self.flush()
        finally:
            self._file.close()


def _whole_rows(path: Path) -> int:
    """Return how many bytes of a file are whole rows; none if it is not there."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - 4096)
            file.seek(begin)
            cut = file.read(end - begin).rfind(b"\n")
            if cut >= 0:
                return begin + cut + 1
            end = begin
    return 0
