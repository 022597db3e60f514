"""A cell's process: measured, and guarded, so that it does not outlive the experiment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import psutil

from parley_server.host import guard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOOK_S = 0.5
"""How often it is looked at which processes there are; that costs more than to look at one."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and all it has started took.

    Attributes:
        status: Exit status; 128 and more: the number of the signal that ended it, added.
        wall_seconds: From its start to its end.
        cpu_seconds: User and system time, as the operating system counts it.
        memory_mean: Resident memory of the process itself, bytes, mean over samples.
        memory_peak: The largest of the samples.
        dispatcher_memory_peak: Of the dispatcher's processes together; 0 if there are none.
    """

    status: int
    wall_seconds: float
    cpu_seconds: float
    memory_mean: float
    memory_peak: int
    dispatcher_memory_peak: int


class GuardedProcess:
    """A command under a guard that ends it, and all it has started, when we are gone.

    Args:
        command: Program and arguments.
        output: Where its standard output goes.
        errors: Where its standard error goes.
        lock: A file descriptor that the guard holds for as long as there is something to end.
    """

    def __init__(self, command: Sequence[str], *, output: Path, errors: Path, lock: int) -> None:
        lifeline, self._hold = os.pipe()
        try:
            with output.open("wb") as out, errors.open("wb") as err:
                self._guard = _start(command, lifeline, lock, out, err)
        except BaseException:
            os.close(self._hold)
            raise
        finally:
            os.close(lifeline)
        self.began = time.time()
        self._clock = time.monotonic()
        self._looked = 0.0
        self._server: psutil.Process | None = None
        self._dispatchers: list[psutil.Process] = []
        self._samples = self._total = self._peak = self._dispatcher_peak = 0
        self._usage: Usage | None = None

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._clock

    def poll(self) -> Usage | None:
        """Return what it took if it has ended, or None."""
        if self._usage is None:
            # The rusage of this one child, with all that were waited for below it.
            found, status, usage = os.wait4(self._guard.pid, os.WNOHANG)
            if found:
                self._note(status, usage.ru_utime + usage.ru_stime)
        return self._usage

    def sample(self) -> None:
        """Look at its memory."""
        clock = time.monotonic()
        with contextlib.suppress(psutil.Error):
            if self._server is None or clock - self._looked > _LOOK_S:
                self._looked = clock
                self._look()
            if self._server is not None:
                memory = self._server.memory_info().rss
                self._samples += 1
                self._total += memory
                self._peak = max(self._peak, memory)
        if self._dispatchers:
            memory = 0
            for process in self._dispatchers:
                with contextlib.suppress(psutil.Error):
                    memory += process.memory_info().rss
            self._dispatcher_peak = max(self._dispatcher_peak, memory)

    def end(self) -> None:
        """Ask the guard to end it: kindly, then the hard way."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def wait(self) -> Usage:
        """Wait until it has ended."""
        while (usage := self.poll()) is None:
            time.sleep(0.01)
        return usage

    def _look(self) -> None:
        """Find the process itself, and the dispatchers that it has started under guards."""
        below = psutil.Process(self._guard.pid).children()
        self._server = below[0] if below else None
        if self._server is not None:
            self._dispatchers = [
                process
                for guarding in self._server.children()
                for process in guarding.children(recursive=True)
            ]

    def _note(self, status: int, cpu_seconds: float) -> None:
        code = os.waitstatus_to_exitcode(status)
        # Popen would wait for it again.
        self._guard.returncode = code
        self.end()
        self._usage = Usage(
            guard.SIGNALLED - code if code < 0 else code,
            self.seconds,
            cpu_seconds,
            self._total / self._samples if self._samples else 0.0,
            self._peak,
            self._dispatcher_peak,
        )


def _start(
    command: Sequence[str], lifeline: int, lock: int, output: IO[bytes], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a command of our own
        [sys.executable, "-I", "-S", guard.__file__, str(lifeline), "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        pass_fds=[lifeline, lock],
        # Ctrl-C is for whoever runs the experiment, which then ends its cells.
        start_new_session=True,
    )


def told_of(status: int) -> str:
    """Return how a process ended, in words."""
    if status <= guard.SIGNALLED:
        return f"exited with status {status}"
    try:
        name = signal.Signals(status - guard.SIGNALLED).name
    except ValueError:
        name = f"signal {status - guard.SIGNALLED}"
    return f"was ended by {name}"
