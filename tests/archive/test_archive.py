"""Real traces: figures from an independent computation, and schedules of another simulator.

The figures are those of a strict first-come-first-served reference on N one-processor nodes,
with lines of status 2, 3 and 4 left out and runtimes cut at the estimate. The schedules are
AccaSim 1.1.3's, job by job and node by node.
"""

from __future__ import annotations

import csv
import gzip
import sys

import pytest

from parley_server import run
from tests.support import parley, rows, shared

pytestmark = pytest.mark.shared

KTH = "KTH-SP2-1996-2.1-cln.swf.gz"
HPC2N = "HPC2N-2002-2.2-cln.swf.gz"

FIGURES = [
    pytest.param(KTH, 100, 28_475, 353943.093, 6825.6663, 28_779_758, id="KTH"),
    pytest.param(
        HPC2N, 240, 202_871, 15842.880, 207.3432, 109_256_855, id="HPC2N", marks=pytest.mark.long
    ),
]


@pytest.mark.parametrize(("trace", "nodes", "jobs", "wait", "slowdown", "makespan"), FIGURES)
def test_first_come_first_served_gives_the_figures_of_the_reference(
    tmp_path, trace, nodes, jobs, wait, slowdown, makespan
):
    result = run(
        swf=shared("traces", trace),
        nodes=nodes,
        select="archive",
        on_overrun="kill",
        policy="fifo",
        out=tmp_path / "run",
    )

    summary = result.summary
    assert summary["jobs"]["submitted"] == jobs
    assert round(summary["wait"]["mean"], 3) == wait
    assert round(summary["bounded_slowdown"]["mean"], 4) == slowdown
    assert summary["makespan"] == makespan


def archive_run(out, trace, nodes, *more) -> None:
    flags = ("--nodes", nodes, "--select", "archive", "--on-overrun", "kill", "--quiet")
    answer = parley(
        *("run", "--swf", shared("traces", trace), "--out", out, *flags, *more), timeout=300
    )
    assert answer.returncode == 0, answer.stderr


COMMAND = (sys.executable, "-m", "parley_server.cli.main", "dispatch", "--connect", "{endpoint}")


@pytest.mark.long
@pytest.mark.parametrize(("trace", "nodes"), [(KTH, 100), (HPC2N, 240)], ids=["KTH", "HPC2N"])
def test_over_the_wire_the_files_are_the_same_to_the_last_byte(tmp_path, trace, nodes):
    archive_run(tmp_path / "inside", trace, nodes)
    archive_run(tmp_path / "external", trace, nodes, "--external")
    if trace == KTH:
        archive_run(tmp_path / "command", trace, nodes, "--", *COMMAND, "--policy", "fifo")

    for other in ("external", "command") if trace == KTH else ("external",):
        for name in ("jobs.csv", "decisions.csv"):
            inside, outside = tmp_path / "inside" / name, tmp_path / other / name
            assert inside.read_bytes() == outside.read_bytes()


def expand(allocation: str) -> list[int]:
    """Return a node for each chunk, counted from 1, of `0-3*2 7*1`."""
    nodes = []
    for part in allocation.split():
        span, _, chunks = part.partition("*")
        first, _, last = span.partition("-")
        for node in range(int(first), int(last or first) + 1):
            nodes += [node + 1] * int(chunks)
    return nodes


HPC2N_GOLDEN = ("HPC2N-nomem-5000.swf.gz", 120, 4, 2, 1027839845)
KTH_GOLDEN = ("KTH-8000-nozero.swf.gz", 100, 1, 1, 843480031)

GOLDEN = [
    pytest.param("hpc2n-5000-fifo-ff", "fifo", "first-fit", *HPC2N_GOLDEN),
    pytest.param("hpc2n-5000-sjf-ff", "sjf", "first-fit", *HPC2N_GOLDEN),
    pytest.param("hpc2n-5000-ljf-ff", "ljf", "first-fit", *HPC2N_GOLDEN),
    pytest.param("hpc2n-5000-fifo-bf", "fifo", "best-fit", *HPC2N_GOLDEN),
    pytest.param("kth-8000-fifo-ff", "fifo", "first-fit", *KTH_GOLDEN),
    pytest.param("kth-8000-sjf-ff", "sjf", "first-fit", *KTH_GOLDEN),
    pytest.param("kth-8000-ljf-ff", "ljf", "first-fit", *KTH_GOLDEN),
]


@pytest.mark.parametrize(
    ("golden", "policy", "allocator", "trace", "nodes", "cores", "per", "origin"), GOLDEN
)
def test_the_schedule_is_accasims_job_by_job_and_node_by_node(
    tmp_path, golden, policy, allocator, trace, nodes, cores, per, origin
):
    result = run(
        swf=shared("golden", trace),
        nodes=nodes,
        per_node={"core": cores},
        request="processors",
        per_processor={"core": per},
        policy=policy,
        allocator=allocator,
        out=tmp_path / "run",
    )

    ours = {
        row["job_id"]: (
            int(row["starting_time"]) + origin,
            int(row["finish_time"]) + origin,
            expand(row["allocation"]),
        )
        for row in rows(result.files.jobs)
    }
    with gzip.open(shared("golden", f"{golden}.csv.gz"), "rt") as file:
        theirs = {
            row["job_id"]: (
                int(row["start"]),
                int(row["end"]),
                sorted(map(int, row["nodes"].split())),
            )
            for row in csv.DictReader(file)
        }
    assert ours == theirs
