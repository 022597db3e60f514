"""Opening workload files, whatever they are compressed with, and reading whole lines of them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

from parley_server.errors import ExitStatus, InputError, OutputError, ParleyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

STANDARD = "-"
"""The name that stands for standard input or output."""

LONGEST_LINE = 1 << 16
_BLOCK = 1 << 16

_MAGIC: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_ENDINGS: Mapping[str, str] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}

COMPRESSED_ENDINGS = tuple(_ENDINGS)
"""How the names of compressed files end."""


class OneWay(ParleyError):
    """What is read once cannot be read again: standard input, a socket, a generator."""

    exit_status = ExitStatus.USAGE
    reason = "input_error"


def _zstd() -> Any:
    """Return the module of the standard library's interface to Zstandard.

    It comes with Python 3.14; before, a backport of that very interface is installed with us.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - only for such a file

        return zstd
    from backports import zstd  # noqa: PLC0415

    return zstd


def corrupt() -> tuple[type[BaseException], ...]:
    """Return what a decompressor raises in the middle of a file that is cut off or damaged."""
    plain = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
    loaded = sys.modules.get("compression.zstd") or sys.modules.get("backports.zstd")
    return plain if loaded is None else (*plain, loaded.ZstdError)


def _opener(kind: str) -> Callable[..., Any]:
    match kind:
        case "gzip":
            return gzip.open
        case "bz2":
            return bz2.open
        case "xz":
            return lzma.open
        case _:
            return cast("Callable[..., Any]", _zstd().open)


def is_standard(path: Path) -> bool:
    """Whether a path stands for standard input or output."""
    return str(path) == STANDARD


def require_again(path: Path) -> None:
    """Do nothing if a path can be read again.

    Raises:
        OneWay: It is standard input.
    """
    if is_standard(path):
        raise OneWay(
            "standard input is read once, and this needs what was read before; name a file"
        )


def open_workload(path: Path) -> IO[bytes]:
    """Open a plain, gzip, bzip2, xz or Zstandard file; the content tells, not the name.

    Args:
        path: The file; `-` is standard input.

    Raises:
        InputError: It cannot be opened.
    """
    if is_standard(path):
        return _standard_input()
    try:
        file = cast("io.BufferedReader", path.open("rb", buffering=_BLOCK))
    except ValueError as error:
        raise InputError(f"{str(path)!r}: no name of a file: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        start = file.peek(6)[:6]
    except OSError as error:
        file.close()
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            file.close()
            return io.BufferedReader(_opener(kind)(path), _BLOCK)
    return file


def _standard_input() -> IO[bytes]:
    """Return the content of standard input, decompressed."""
    stream = sys.stdin.buffer
    start = peek_standard()[:6]
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return io.BufferedReader(_opener(kind)(stream), _BLOCK)
    return stream


def peek_standard() -> bytes:
    """Return what standard input begins with, and leave it there."""
    stream: Any = sys.stdin.buffer
    return bytes(stream.peek(1)) if hasattr(stream, "peek") else b""


def peek_content() -> bytes:
    """Return what the content of standard input begins with, decompressed."""
    start = peek_standard()
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            try:
                return bytes(_decompressor(kind).decompress(start))
            except OSError:
                return b""
            except corrupt():
                return b""
    return start


def _decompressor(kind: str) -> Any:
    match kind:
        case "gzip":
            return zlib.decompressobj(31)
        case "bz2":
            return bz2.BZ2Decompressor()
        case "xz":
            return lzma.LZMADecompressor()
        case _:
            return _zstd().ZstdDecompressor()


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


class Blocks:
    """The whole lines of a file, a block at a time.

    A line longer than `LONGEST_LINE` comes as a block of its own, cut off and without an end.

    Attributes:
        path: What it is called in messages; `-` is standard input.
        offset: Bytes before the next block, decompressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.file = open_workload(path)
        self._read: Callable[[int], bytes] = getattr(self.file, "read1", self.file.read)
        self._carry = b""
        self._pushed = b""
        self._ended = False

    @property
    def name(self) -> str:
        """The file as messages name it."""
        return "standard input" if is_standard(self.path) else str(self.path)

    def require_again(self) -> None:
        """Do nothing if the file can be read again.

        Raises:
            OneWay: It is standard input.
        """
        require_again(self.path)

    def seek(self, offset: int) -> None:
        """Go on at the beginning of a block.

        Raises:
            OneWay: It is standard input.
        """
        self.require_again()
        self.file.seek(offset)
        self.offset, self._carry, self._pushed, self._ended = offset, b"", b"", False

    def next(self) -> bytes | None:
        """Return the next whole lines, or None at the end.

        Raises:
            InputError: The file is cut off or damaged; the text does not say after which line.
        """
        carry, self._carry = self._carry, b""
        while not self._ended:
            part = self._part()
            if not part:
                self._ended = True
                break
            end = part.rfind(b"\n") + 1
            if end:
                self._carry = part[end:]
                return self._give(carry + part[:end])
            carry += part
            if len(carry) >= LONGEST_LINE:
                return self._overlong(carry)
        return self._give(carry) if carry else None

    def _give(self, block: bytes) -> bytes:
        self.offset += len(block)
        return block

    def _overlong(self, start: bytes) -> bytes:
        """Read over the rest of a line beyond all reason, and keep nothing of it."""
        length = len(start)
        while part := self._part():
            end = part.find(b"\n") + 1
            if end:
                length += end
                self._pushed = part[end:]
                break
            length += len(part)
        self.offset += length
        return start[:LONGEST_LINE]

    def _part(self) -> bytes:
        if self._pushed:
            part, self._pushed = self._pushed, b""
            return part
        try:
            return self._read(_BLOCK)
        except corrupt() as error:
            raise InputError(f"cut off or damaged: {error}") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}") from None

    def lines(self) -> Iterator[bytes]:
        """Yield lines without their ends; one beyond `LONGEST_LINE` is cut to that length.

        Raises:
            InputError: The file is cut off or damaged.
        """
        count = 0
        while True:
            try:
                block = self.next()
            except InputError as error:
                raise InputError(f"{self.name}: {after(count, str(error))}") from None
            if block is None:
                return
            for line in block.removesuffix(b"\n").split(b"\n"):
                count += 1
                yield line.removesuffix(b"\r")

    def close(self) -> None:
        """Let go of the file."""
        if not is_standard(self.path):
            self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was let go."""
        return self.file.closed


def after(lines: int, reason: str) -> str:
    """Return a failure to read with the line after which it came."""
    cut = "cut off or damaged"
    if reason.startswith(cut):
        return f"{cut} after line {lines}{reason.removeprefix(cut)}"
    return reason


def create(path: Path) -> IO[bytes]:
    """Open a file to write; its ending says how it is compressed, and `-` is standard output.

    Raises:
        OutputError: It cannot be written.
    """
    if is_standard(path):
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=_BLOCK)
    try:
        kind = _ENDINGS.get(path.suffix)
        if kind == "gzip":
            # No name and no time in it: the same jobs give the same bytes.
            raw = path.open("wb")
            return cast("IO[bytes]", gzip.GzipFile("", "wb", 6, raw, mtime=0))
        opener = None if kind is None else _opener(kind)
        return path.open("wb", buffering=_BLOCK) if opener is None else opener(path, "wb")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
