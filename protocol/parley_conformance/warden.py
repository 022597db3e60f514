"""Ends the programs under test when the kit is gone, however it went; standard library only.

Reads lines from standard input, whose other end only the kit holds: `+ PGID` for a process group
that is its charge from now on, `- PGID` for one that is over. At the end of the input it kills
those that are left.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Keep watch until the kit is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    charges: set[int] = set()
    for line in sys.stdin:
        mark, _, group = line.partition(" ")
        (charges.add if mark == "+" else charges.discard)(int(group))
    for group in charges:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main())
