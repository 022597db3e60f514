"""Programs under test: started in a process group of their own, watched, and never left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, Self

from parley_conformance import warden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_OUTPUT = 64 * 1024
"""Bytes of what a program prints that are kept."""

_HIDDEN = frozenset({"PARLEY_SESSION", "PARLEY_TOKEN", "PARLEY_ENDPOINT"})
"""What somebody else may have told the kit, and the program must not hear."""


class NoProgram(Exception):
    """The command cannot be started at all; the text says why in one line."""


class Process(Protocol):
    """A running program."""

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal, or None while it runs."""

    def kill(self) -> None:
        """End it and whatever it has started, at once."""

    def wait(self, seconds: float) -> int | None:
        """Return its exit status, or None if it stays so long."""

    def output(self) -> str:
        """Return what it has printed so far."""

    def close(self) -> None:
        """End it and let go of everything."""


class Program(Protocol):
    """Something that can be started again and again."""

    def start(self, places: Mapping[str, str], environment: Mapping[str, str]) -> Process:
        """Start it.

        Args:
            places: What to replace in its arguments: `{endpoint}` and so on, without the braces.
            environment: What to set beside what is there.
        """


class Warden:
    """The process that ends programs if the kit dies before them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", warden.__file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch(self, group: int) -> None:
        """Take a process group in charge."""
        self._say(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """A process group is over."""
        self._say(f"- {group}\n")

    def close(self) -> None:
        """End it; what it still has in charge is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _say(self, text: str) -> None:
        stream = self._process.stdin
        if stream is None:
            return
        with self._lock:
            stream.write(text.encode())
            stream.flush()


# The program waits behind a gate until the warden has it in charge; if the kit dies before it
# opens, the program never runs.
_GATE = 'read -r _ && exec "$@" </dev/null'


@dataclass(slots=True)
class Command:
    """A command with its arguments, as the user gave it.

    Attributes:
        arguments: Program and arguments; `{endpoint}` and its like are replaced.
        warden: Who ends it if the kit dies.
    """

    arguments: Sequence[str]
    warden: Warden

    def start(self, places: Mapping[str, str], environment: Mapping[str, str]) -> Running:
        """Start it; see `Program`.

        Raises:
            NoProgram: There is no such command.
        """
        return Running(expanded(self.arguments, places), environment, self.warden)


def expanded(arguments: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """Return arguments with `{name}` replaced; `{scenarios}` alone becomes several."""
    result = []
    for argument in arguments:
        if argument == "{scenarios}" and "scenarios" in places:
            result += places["scenarios"].split(os.pathsep)
            continue
        for name, value in places.items():
            argument = argument.replace("{" + name + "}", value)  # noqa: PLW2901 - step by step
        result.append(argument)
    return result


def require_command(command: Sequence[str]) -> None:
    """Find out whether a command could be started at all.

    Raises:
        NoProgram: There is no such program, or it cannot be executed.
    """
    if not command:
        raise NoProgram("a command is missing behind --")
    if any("\0" in part for part in command):
        raise NoProgram(f"a zero byte stands in the command {list(command)!r}")
    program = command[0]
    if shutil.which(program) is not None:
        return
    if Path(program).exists():
        raise NoProgram(
            f"{program!r} cannot be executed; is it a script? name its interpreter: "
            f"-- python {program}"
        )
    raise NoProgram(f"there is no command {program!r}")


@dataclass(slots=True)
class Running:
    """A command that was started.

    Args:
        command: Program and arguments.
        environment: What to set beside what is there.
        warden: Who ends it if the kit dies.

    Raises:
        NoProgram: There is no such command.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    warden: Warden
    _process: subprocess.Popen[bytes] = field(init=False)
    _output: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        require_command(self.command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        self._process = subprocess.Popen(  # noqa: S603 - running it is the user's wish
            ["/bin/sh", "-c", _GATE, "sh", *self.command],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**kept, **self.environment},
            start_new_session=True,
        )
        self.warden.watch(self._process.pid)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b"\n")
                self._process.stdin.close()

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal, or None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Return its exit status, or None if it stays so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and whatever it has started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        """Return what it has printed so far, the last of it if it is much."""
        size = os.fstat(self._output.fileno()).st_size
        start = max(0, size - _MOST_OUTPUT)
        return os.pread(self._output.fileno(), _MOST_OUTPUT, start).decode(errors="replace")

    def close(self) -> None:
        """End it and let go of everything."""
        self.kill()
        self.warden.forget(self._process.pid)
        self._output.close()
