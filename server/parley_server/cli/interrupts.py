"""Ctrl-C at a moment when nothing is half done."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


class Interrupts:
    """The first SIGINT or SIGTERM is noted and taken up between two steps; the second at once."""

    def __init__(self) -> None:
        self._noted = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def poll(self) -> None:
        """Raise KeyboardInterrupt if one was noted."""
        if self._noted:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True
