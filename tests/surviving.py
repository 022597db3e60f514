"""Runs that are disturbed on purpose, and what the same run is without that."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from tests.benchmarks.bench import generate
from tests.support import PARLEY, parley

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 40.0
"""Seconds for anything that is waited for; far more than it takes."""

NODES = 240
RESULTS = ("jobs.csv", "decisions.csv")
POLICY = ("--policy", "easy")


def workload(folder: Path, jobs: int = 3000) -> Path:
    """Write a trace that keeps the machine busy and the queue filled."""
    return generate(folder / "trace.swf", jobs)


def run_arguments(trace: Path, out: Path, *more: object) -> list[object]:
    return ["run", "--swf", trace, "--nodes", NODES, *POLICY, "--out", out, "-q", *more]


def results_of(out: Path) -> dict[str, bytes]:
    """Return the files that are the same whenever the same is simulated."""
    return {name: (out / name).read_bytes() for name in RESULTS}


def undisturbed(trace: Path, out: Path, *more: object) -> Path:
    """Run to the end without any disturbance; return where the results lie."""
    process = parley(*run_arguments(trace, out, *more))
    assert process.returncode == 0, process.stderr
    return out


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what the condition gives as soon as that is anything; give up after a while."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.001)
    return found


class Watched:
    """A command whose standard error is read all the time.

    Attributes:
        lines: Of standard error, so far.
        replies: How many replies were told by `--trace`.
    """

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [*PARLEY, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.replies = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def first_line(self) -> str:
        """Return the first line of standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def wait(self, seconds: float = PATIENCE) -> int:
        """Return the exit status, once everything that was said is read."""
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        return status

    def kill(self) -> None:
        """End it the hard way."""
        self.process.kill()
        self.wait()

    def close(self) -> None:
        """Let nothing of it stay."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.wait()
        for file in (self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()

    def reached(self, replies: int) -> bool:
        """Whether so many replies have come; it is an error if the command ends before that."""
        if self.replies >= replies:
            return True
        assert self.process.poll() is None, "".join(self.lines[-3:])
        return False

    def dispatcher(self) -> psutil.Process | None:
        """Return the process that decides: the child of the guard, which is a child of ours."""
        try:
            for guard in psutil.Process(self.process.pid).children():
                if any(part.endswith("guard.py") for part in guard.cmdline()):
                    for child in guard.children():
                        if child.status() != psutil.STATUS_ZOMBIE:
                            return child
        except psutil.NoSuchProcess:
            pass
        return None

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self.replies += line.startswith("server <- decision.reply")


@contextmanager
def watched(*arguments: object) -> Iterator[Watched]:
    command = Watched(*arguments)
    try:
        yield command
    finally:
        command.close()
