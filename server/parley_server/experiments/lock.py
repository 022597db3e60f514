"""One experiment at a time in a directory."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

import psutil

from parley_server.errors import OutputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

_NAME = "experiment.lock"
_PATIENCE = 5.0
"""Seconds that the cells of an experiment which was killed are given to end."""

_LOOK = 0.3
"""Seconds after which whoever holds it is taken to run an experiment."""


class DirectoryLock:
    """Held by whoever runs an experiment in a directory, and by the guards of its cells.

    The operating system lets go of it when the last of them is gone, however that came; so nobody
    begins while a cell of an experiment that was killed still writes.

    Raises:
        UsageError: Another experiment runs there.
        OutputError: The directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / _NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8")
        except FileExistsError:
            raise UsageError(f"{directory}: is a file; an experiment takes a directory") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        try:
            self._acquire(directory)
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n")
            self._file.flush()
        except OSError as error:
            self._file.close()
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        except BaseException:
            self._file.close()
            raise

    @property
    def descriptor(self) -> int:
        """The file descriptor, for those who hold the lock as well."""
        return self._file.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._file.close()

    def _acquire(self, directory: Path) -> None:
        began = time.monotonic()
        while not _locked(self._file.fileno(), fcntl.LOCK_EX):
            self._file.seek(0)
            holder = self._file.read().strip()
            alive = holder.isdigit() and psutil.pid_exists(int(holder))
            # Whoever only asks whether one is running holds it for no time.
            if time.monotonic() - began > (_LOOK if alive else _PATIENCE):
                who = f"process {holder}" if alive else "cells of one that was killed"
                raise UsageError(f"{directory}: an experiment is running there already ({who})")
            time.sleep(0.05)


def is_running(directory: Path) -> bool:
    """Whether an experiment runs in a directory."""
    try:
        with (directory / _NAME).open("r+", encoding="utf-8") as file:
            return not _locked(file.fileno(), fcntl.LOCK_SH)
    except OSError:
        return False


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
