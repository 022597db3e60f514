"""What reading costs: speed and memory over a trace and a tile of it.

    python tests/benchmarks/workloads.py [--trace FILE] [--jobs N] [FIGURE ...]

Figures: read, stream, tile, memory (all, if none is named). Without a trace they run on a generated
workload. Each is a child process of its own; CPU is user and system time. `memory` compares
`parley workload info` and a run with the rejecter over 100,000 jobs and over N (5,000,000): it
writes some gigabytes into a temporary folder and takes some minutes.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench import PARLEY, ROUNDS, generate, measure, tell

FEW = 100_000

_READ = """
import sys
from pathlib import Path
from parley_server.workload import SwfSource
source = SwfSource(Path(sys.argv[1]))
while source.next() is not None:
    pass
if source.report.kept != int(sys.argv[2]):
    sys.exit(f"{source.report.kept} jobs")
"""


class Bench:
    """The trace, and the folder for what is made of it."""

    def __init__(self, trace: Path, jobs: int, folder: Path) -> None:
        self._trace, self._jobs, self._folder = trace, jobs, folder
        self._tiles: dict[int, Path] = {}

    def _tile(self, jobs: int) -> Path:
        if jobs not in self._tiles:
            out = self._folder / f"tile-{jobs}.swf"
            measure([*PARLEY, "workload", "tile", str(self._trace), str(out), "--jobs", str(jobs)])
            self._tiles[jobs] = out
        return self._tiles[jobs]

    def read(self) -> None:
        """The trace into jobs, from the start of the interpreter to its end."""
        with gzip.open(self._trace) as file:
            jobs = sum(1 for line in file if line.strip() and not line.startswith(b";"))
        command = [sys.executable, "-c", _READ, str(self._trace), str(jobs)]
        cpu = statistics.median(measure(command)["cpu"] for _ in range(ROUNDS))
        tell(f"read {jobs:,} jobs, gzip", cpu, "s of CPU", f"{jobs / cpu:,.0f} jobs/s")

    def stream(self) -> None:
        """The tile into jobs."""
        command = [sys.executable, "-c", _READ, str(self._tile(self._jobs)), str(self._jobs)]
        figures = measure(command)
        speed = self._jobs / figures["cpu"]
        tell(f"stream a tile of {self._jobs:,}", speed, "jobs/s", f"{figures['cpu']:.1f} s of CPU")
        tell("stream, peak", figures["peak_mb"], "MB")

    def tile(self) -> None:
        """The tile written, to nowhere."""
        command = [*PARLEY, "workload", "tile", str(self._trace), "/dev/null", "--to", "swf"]
        figures = measure([*command, "--jobs", str(self._jobs)])
        speed = self._jobs / figures["cpu"]
        tell(f"write a tile of {self._jobs:,}", speed, "jobs/s", f"{figures['cpu']:.1f} s of CPU")
        tell("write, peak", figures["peak_mb"], "MB")

    def memory(self) -> None:
        """Peaks over few jobs and over many."""
        out = self._folder / "run"
        commands = {
            "info": lambda tile: [*PARLEY, "workload", "info", str(tile), "--json"],
            "reject": lambda tile: [
                *PARLEY,
                *("run", "--swf", str(tile), "--nodes", "240", "--policy", "reject"),
                *("--quiet", "--force", "--out", str(out)),
            ],
        }
        for name, command in commands.items():
            few, many = (measure(command(self._tile(jobs))) for jobs in (FEW, self._jobs))
            shutil.rmtree(out, ignore_errors=True)
            tell(f"{name}, peak at {FEW:,} jobs", few["peak_mb"], "MB")
            more = f"{many['peak_mb'] - few['peak_mb']:+.1f} MB, {many['cpu']:.1f} s of CPU"
            tell(f"{name}, peak at {self._jobs:,} jobs", many["peak_mb"], "MB", more)


def main() -> None:
    """Measure what is named."""
    parser = argparse.ArgumentParser(description="Measure what reading workloads costs.")
    parser.add_argument("figures", nargs="*", default=[])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    options = parser.parse_args()
    known = ("read", "stream", "tile", "memory")
    for name in options.figures:
        if name not in known:
            parser.error(f"no figure {name!r}; there are: {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        trace = options.trace
        if trace is None:
            plain = generate(Path(folder) / "generated.swf", 200_000)
            trace = plain.with_suffix(".swf.gz")
            with plain.open("rb") as source, gzip.open(trace, "wb") as target:
                shutil.copyfileobj(source, target)
        bench = Bench(trace, options.jobs, Path(folder))
        for name in options.figures or known:
            getattr(bench, name)()


if __name__ == "__main__":
    main()
