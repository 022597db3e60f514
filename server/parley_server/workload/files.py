"""Opening workload files, whatever they are compressed with."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from typing import IO, TYPE_CHECKING, Any

from parley_server.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_COMPRESSED: Mapping[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}

CORRUPT = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""What a decompressor raises in the middle of a file that is cut off or damaged."""


def open_workload(path: Path) -> IO[bytes]:
    """Open a plain, gzip, bzip2 or xz file for reading; the content tells, not the name.

    Raises:
        InputError: It cannot be opened.
    """
    try:
        with path.open("rb") as file:
            start = file.read(6)
        for magic, opener in _COMPRESSED.items():
            if start.startswith(magic):
                return io.BufferedReader(opener(path), 1 << 16)
        return path.open("rb", buffering=1 << 16)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as it lies on disk, in hex.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
