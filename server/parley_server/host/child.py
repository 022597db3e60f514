"""A dispatcher that the server starts itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from parley_server.errors import RunFailed, UsageError
from parley_server.host import guard, remedies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PATIENCE = 5.0
"""Seconds a dispatcher has to leave after the last message, before it is ended."""


class Child:
    """A dispatcher process under a guard that ends it when this process is gone.

    It gets no standard input; what it prints goes to our standard error.

    Args:
        command: Program and arguments; `{endpoint}` in them is replaced.
        endpoint: Where the server listens; also in `PARLEY_ENDPOINT`.
        environment: What else to set there.

    Raises:
        UsageError: There is no such command.
    """

    def __init__(
        self,
        command: Sequence[str],
        endpoint: str,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = [part.replace("{endpoint}", endpoint) for part in command]
        require_command(self.command)
        lifeline, self._hold = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running it is the user's wish
                [
                    *(sys.executable, "-I", "-S", guard.__file__),
                    *(str(lifeline), "--", *self.command),
                ],
                stdin=subprocess.DEVNULL,
                stdout=_stderr(),
                env={**_inherited(), "PARLEY_ENDPOINT": endpoint, **(environment or {})},
                pass_fds=[lifeline],
                # What is sent to our whole process group must not end the guard before its time.
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._hold)
            raise UsageError(f"{self.command[0]!r} cannot be started: {error}") from None
        finally:
            os.close(lifeline)

    @property
    def ended(self) -> bool:
        """Whether the dispatcher has exited."""
        return self._process.poll() is not None

    def failure_within(self, patience_us: int) -> RunFailed | None:
        """Return what to raise if the dispatcher exits soon, or None if it does not."""
        try:
            self._process.wait(patience_us / 1e6)
        except subprocess.TimeoutExpired:
            return None
        return self.failure()

    def failure(self) -> RunFailed:
        """Return what to raise for a dispatcher that exited before its time."""
        status = self._process.wait()
        program = self.command[0]
        if status == guard.NOT_STARTED:
            how = "could not be started, or exited with status 127"
        elif status > guard.SIGNALLED:
            how = f"was ended by {_signal_name(status - guard.SIGNALLED)}"
        else:
            how = f"exited with status {status}"
        why = remedies.for_failure(self.command, status)
        return RunFailed(
            "dispatcher_exited", f"the dispatcher {program!r} {how} before the run was over{why}"
        )

    def end(self, *, patience: float | None = None) -> None:
        """Let the dispatcher leave, and end it if it does not within *patience* seconds."""
        try:
            self._process.wait(_PATIENCE if patience is None else patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            os.close(self._hold)
            self._process.wait()


def require_command(command: Sequence[str]) -> None:
    """Find out whether a command could be started at all.

    Raises:
        UsageError: There is no such program, or it cannot be executed.
    """
    if any("\0" in part for part in command):
        raise UsageError(f"a zero byte stands in the command {list(command)!r}")
    program = command[0]
    if shutil.which(program) is not None:
        return
    if Path(program).exists():
        raise UsageError(
            f"{program!r} cannot be executed; is it a script? name its interpreter: "
            f"-- python {program}"
        )
    raise UsageError(f"there is no command {program!r}{remedies.for_absent(program)}")


def _inherited() -> dict[str, str]:
    """Return our environment without what another server may have told us as its dispatcher."""
    hidden = {"PARLEY_SESSION", "PARLEY_TOKEN"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _stderr() -> int | None:
    """Return the file descriptor of our standard error, if there is a real one."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
