"""EASY where the queue is long: the same schedule as walking it, at a cost that can be paid."""

from __future__ import annotations

import gzip

import pytest

from parley_server import run
from tests import textbook
from tests.support import rows, shared

pytestmark = [pytest.mark.shared, pytest.mark.long]

RICC = "RICC-2010-2.swf.gz"


def archived(path, limit: int) -> list[tuple[int, int, int, int]]:
    """Return (submit, size, runtime, estimate) of the first jobs of a trace, as it selects."""
    jobs = []
    with gzip.open(path, "rt") as file:
        for line in file:
            fields = line.split()
            if line.startswith(";") or not fields:
                continue
            submit, runtime = int(fields[1]), int(fields[3])
            allocated, requested, estimate = int(fields[4]), int(fields[7]), int(fields[8])
            size = requested if requested > 0 else allocated
            if runtime < 0 or size <= 0 or fields[10] in {"2", "3", "4"}:
                continue
            jobs.append((submit, size, runtime, estimate if estimate > 0 else runtime))
            if len(jobs) == limit:
                break
    return jobs


def test_the_first_fifty_thousand_jobs_of_ricc_start_as_in_a_plain_scan(tmp_path):
    result = run(
        swf=shared("traces", RICC),
        nodes=8192,
        select="archive",
        on_overrun="kill",
        limit=50_000,
        policy="easy",
        out=tmp_path / "run",
    )

    ours = {int(row["job_id"]): int(row["starting_time"]) for row in rows(result.files.jobs)}
    starts = textbook.easy_at_length(archived(shared("traces", RICC), 50_000), 8192)
    assert len(ours) == 50_000
    assert [ours[number] for number in sorted(ours)] == [starts[j] for j in range(50_000)]
