"""How long every job waited and ran, kept on disk until the statistics are made of it."""

from __future__ import annotations

import tempfile
from array import array
from typing import IO, TYPE_CHECKING, Self

from parley_server.quantities import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_BLOCK = 16_384
"""Jobs in memory at once."""


class Spill:
    """Pairs of wait and runtime, in memory that does not grow with them.

    Args:
        directory: Where the scratch file lies; it is made when it is needed, and has no name.

    Attributes:
        count: Jobs that ran to an end.
        first: The first submission of any job, microseconds, or None.
        last: The last end of one that ran, microseconds, or None.
        failure: What befell the scratch file; nothing is kept from then on.
    """

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self.first: int | None = None
        self.last: int | None = None
        self.failure: OSError | None = None
        self._directory = directory
        self._pairs = array("d")
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def note(self, jobs: Iterable[tuple[int, int | None, int | None]]) -> None:
        """Note jobs: submission, and start and end of those that ran to their end; microseconds."""
        first, last, pairs = self.first, self.last, self._pairs
        before = len(pairs)
        for submit, start, end in jobs:
            if first is None or submit < first:
                first = submit
            if start is not None and end is not None:
                if last is None or end > last:
                    last = end
                pairs.append((start - submit) / MICROSECONDS)
                pairs.append((end - start) / MICROSECONDS)
        self.first, self.last = first, last
        self.count += (len(pairs) - before) // 2
        if len(pairs) >= 2 * _BLOCK:
            self._write()

    @property
    def makespan(self) -> int | None:
        """From the first submission to the last end, microseconds."""
        if self.first is None or self.last is None:
            return None
        return self.last - self.first

    def blocks(self) -> Iterator[bytes]:
        """Yield all pairs so far as bytes of doubles: wait, runtime, both seconds.

        Raises:
            OSError: The scratch file could not be written or read.
        """
        if self.failure is not None:
            raise self.failure
        if self._file is not None:
            self._file.seek(0)
            while block := self._file.read(_BLOCK * 16):
                yield block
        if self._pairs:
            yield self._pairs.tobytes()

    def close(self) -> None:
        """Let go of the scratch file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self) -> None:
        if self.failure is None:
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - kept
                self._file.seek(0, 2)
                self._file.write(self._pairs)
                self._file.flush()
            except OSError as error:
                # The rows are what must not be lost; a full disk shows there soon enough.
                self.failure = error
        del self._pairs[:]
