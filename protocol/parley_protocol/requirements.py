"""Which requirements of the specification name which message; a test holds it to the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIREMENTS_BY_MESSAGE: Mapping[str, tuple[str, ...]] = {
    "hello": (
        "R-TRA-14",
        "R-ENC-3",
        "R-ENC-4",
        "R-HELLO-1",
        "R-HELLO-2",
        "R-HELLO-3",
        "R-HELLO-4",
        "R-HELLO-6",
        "R-HELLO-9",
        "R-ENV-2",
        "R-ENV-5",
        "R-RES-1",
        "R-RES-2",
        "R-RES-3",
        "R-RES-6",
        "R-RES-13",
        "R-LIM-7",
        "R-VER-1",
    ),
    "ready": ("R-LIFE-8", "R-SEQ-1", "R-RES-7"),
    "decision.reply": (
        "R-SEQ-1",
        "R-SEQ-4",
        "R-SEQ-5",
        "R-SEQ-6",
        "R-LATE-1",
        "R-LATE-2",
        "R-LIM-5",
        "R-TRN-5",
    ),
    "state.request": ("R-SEQ-2", "R-STATE-7"),
    "progress": ("R-SEQ-2", "R-DEAD-2", "R-DEAD-4"),
    "ping": ("R-SEQ-2", "R-MSG-1"),
    "bye": ("R-LIFE-11", "R-SEQ-2"),
    "welcome": (
        "R-HELLO-7",
        "R-ENV-2",
        "R-ENV-4",
        "R-RES-1",
        "R-RES-4",
        "R-RES-5",
        "R-LIM-2",
        "R-VER-1",
    ),
    "decision.request": ("R-LIFE-9", "R-TIME-3", "R-DEC-2"),
    "state.snapshot": ("R-STATE-7",),
    "progress.ack": ("R-DEAD-1", "R-DEAD-2"),
    "session.end": (
        "R-LIFE-6",
        "R-LIFE-10",
        "R-LIFE-11",
        "R-LIFE-13",
        "R-DEC-2",
        "R-STOP-1",
        "R-LATE-2",
    ),
    "pong": ("R-MSG-1",),
    "error": (
        "R-TRA-13",
        "R-ENC-6",
        "R-LIFE-2",
        "R-LIFE-5",
        "R-LIFE-6",
        "R-ERR-1",
        "R-ERR-2",
        "R-ERR-3",
        "R-ERR-5",
        "R-ERR-6",
    ),
}
"""By the ids of the requirements; `python -m tests.requirements messages` prints it anew."""
