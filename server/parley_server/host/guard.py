"""Runs a dispatcher and outlives neither it nor the server; standard library only.

    python guard.py LIFELINE -- COMMAND ARGS...

LIFELINE is the read end of a pipe whose write end only the server holds. When it closes, because
the server has closed it or has died in whatever way, the dispatcher's whole process group is
ended: a shell script that starts the real program leaves nothing behind.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

GRACE = 1.0
"""Seconds between asking a dispatcher to end and ending it."""

NOT_STARTED = 127
"""Exit status if the command cannot be executed, as shells have it."""

SIGNALLED = 128
"""Added to the number of the signal that ended the command, as shells have it."""


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the lifeline is cut; return its exit status."""
    lifeline, command = int(arguments[0]), arguments[2:]
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        child = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose
            command, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return NOT_STARTED
    while child.poll() is None:
        ready, _, _ = select.select([lifeline, wake_read], [], [])
        if lifeline in ready:
            end_group(child)
        elif wake_read in ready:
            os.read(wake_read, 4096)
    end_group(child)
    status = child.returncode
    return SIGNALLED - status if status < 0 else status


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it has started, first kindly."""
    if not _signal(child.pid, signal.SIGTERM):
        return
    give_up = time.monotonic() + GRACE
    while time.monotonic() < give_up:
        if child.poll() is not None and not _signal(child.pid, 0):
            return
        time.sleep(0.01)
    _signal(child.pid, signal.SIGKILL)
    child.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group; whether there was anybody."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
