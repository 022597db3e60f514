"""Sorting a workload that does not fit into memory."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import IO, TYPE_CHECKING

from parley_server.errors import OutputError
from parley_server.workload.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN_LENGTH = 50_000
"""Jobs sorted in memory at a time."""

_BATCH = 500

_Numbered = tuple[int, int, Entry]


class Sorted:
    """Entries by ascending submission; those of one instant keep their order.

    Runs of `RUN_LENGTH` are sorted in memory, written to unnamed temporary files, and merged.

    Args:
        entries: All of them; read to the end at once.

    Raises:
        OutputError: There is no room for the temporary files.
    """

    def __init__(self, entries: Iterator[Entry | None], *, run_length: int = RUN_LENGTH) -> None:
        self._files = ExitStack()
        runs: list[Iterator[_Numbered]] = []
        numbered = (
            (entry.submit, number, entry)
            for number, entry in enumerate(entries)
            if entry is not None
        )
        try:
            while run := sorted(islice(numbered, run_length), key=itemgetter(0, 1)):
                runs.append(self._written(run) if len(run) == run_length else iter(run))
        except OSError as error:
            self.close()
            raise OutputError(f"temporary files for sorting: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise
        self._merged = merge(*runs, key=itemgetter(0, 1))

    def next(self) -> Entry | None:
        """Return the next entry in order."""
        numbered = next(self._merged, None)
        return None if numbered is None else numbered[2]

    def close(self) -> None:
        """Let go of the temporary files; the system removes them."""
        self._files.close()

    def _written(self, run: list[_Numbered]) -> Iterator[_Numbered]:
        file = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - it is entered
        for start in range(0, len(run), _BATCH):
            pickle.dump(run[start : start + _BATCH], file, protocol=5)
        file.seek(0)
        return _read(file)


def _read(file: IO[bytes]) -> Iterator[_Numbered]:
    while True:
        try:
            # Written by this very process into a file without a name.
            batch: list[_Numbered] = pickle.load(file)  # noqa: S301
        except EOFError:
            return
        yield from batch
