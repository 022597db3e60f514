"""What is on disk while a run goes on."""

from __future__ import annotations

import time

from parley_server import run
from tests.support import rows, write_swf


def test_rows_are_on_disk_within_a_second_however_few_they_are(tmp_path):
    trace = write_swf(tmp_path / "t.swf", [(10 * number, 5, 1) for number in range(6)])
    out = tmp_path / "out"
    seen = []

    def slow(view):
        seen.append((view.now_us, len(rows(out / "jobs.csv")), len(rows(out / "decisions.csv"))))
        if len(seen) == 8:
            time.sleep(1.1)
        for job in view.queue:
            view.start(job)

    run(swf=trace, nodes=2, policy=slow, out=out)

    # Asked at 0 twice, then at each end and each submission: at the eighth four jobs are over, at
    # the ninth five; the row of an instant waits for its instant to be over.
    assert seen[8][1] >= 3
    assert seen[8][2] >= 7
