"""The benchmark of hostile frames, as short as it can be."""

from __future__ import annotations

import subprocess
import sys

from tests.support import PROJECT

FUZZ = PROJECT / "tests" / "benchmarks" / "fuzz.py"


def test_hostile_frames_disturb_no_honest_session_and_leave_nothing_behind():
    process = subprocess.run(
        [sys.executable, str(FUZZ), "--frames", "2000"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    assert process.stdout.count("yes  ") == 6
