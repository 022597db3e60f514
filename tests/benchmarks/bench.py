"""What a run costs: one JSON line per figure on standard output, a table on standard error.

    python tests/benchmarks/bench.py [--jobs N] [--trace FILE --nodes N] [FIGURE ...]

Figures: in-process, easy, wire, memory, startup (all, if none is named). Without a trace they run
on a generated workload of so many jobs. Each is a child process of its own, so that CPU and peak
memory are the operating system's figures of that process and its children alone; the wire is
timed in turn with a bare ZeroMQ echo of two processes, because that floor moves with the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq

PARLEY = [sys.executable, "-m", "parley_server.cli.main"]
ROUNDS = 3

_WAIT4_CHILD = """
import json, os, resource, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(json.dumps({
    "wall": time.perf_counter() - began,
    "cpu": usage.ru_utime + usage.ru_stime,
    "peak_mb": usage.ru_maxrss / 1024,
    "status": os.waitstatus_to_exitcode(status),
}))
"""


def measure(command: list[str]) -> dict[str, float]:
    """Run a command and return its wall and CPU seconds and its peak resident memory."""
    answer = subprocess.run(
        [sys.executable, "-c", _WAIT4_CHILD, *command], capture_output=True, text=True, check=True
    )
    figures = json.loads(answer.stdout)
    if figures.pop("status"):
        sys.exit(f"{' '.join(command)} failed: {answer.stderr}")
    return figures


def generate(path: Path, jobs: int) -> Path:
    """Write a workload that keeps 240 nodes about four fifths busy."""
    draw = random.Random(2)
    submit = 0
    with path.open("w") as file:
        for number in range(1, jobs + 1):
            submit += round(draw.expovariate(1 / 500))
            runtime = 1 + round(min(draw.lognormvariate(7, 2), 200_000))
            size = min(2 ** draw.randrange(6) + draw.randrange(2), 100)
            walltime = 60 * (1 + int(runtime * draw.uniform(1, 5)) // 60)
            user = draw.randrange(50)
            file.write(
                f"{number} {submit} -1 {runtime} {size} -1 -1 {size} {walltime} -1 1 {user} "
                "1 1 1 1 -1 -1\n"
            )
    return path


class Bench:
    """The workload and the folder that all figures share."""

    def __init__(self, trace: Path, nodes: int, folder: Path) -> None:
        self._trace, self._nodes, self._folder = trace, nodes, folder

    def run(self, *flags: object) -> dict[str, float]:
        """Run the workload with flags; return the figures and the summary's own."""
        out = self._folder / "run"
        figures = measure(
            [
                *PARLEY,
                *("run", "--swf", str(self._trace), "--nodes", str(self._nodes)),
                *("--select", "archive", "--on-overrun", "kill", "--quiet", "--force"),
                *("--out", str(out)),
                *map(str, flags),
            ]
        )
        summary = json.loads((out / "summary.json").read_text())
        figures["jobs"] = summary["jobs"]["submitted"]
        figures["requests"] = summary["measured"]["requests"]
        return figures

    def in_process(self) -> None:
        for policy in ("reject", "fifo"):
            runs = [self.run("--policy", policy) for _ in range(ROUNDS)]
            cpu = statistics.median(run["cpu"] for run in runs)
            tell(f"in-process {policy}", cpu, "s of CPU", f"{runs[0]['jobs']:,.0f} jobs")
            peak = statistics.median(run["peak_mb"] for run in runs)
            tell(f"in-process {policy}, peak", peak, "MB")

    def easy(self) -> None:
        """Backfilling, where a pass that walks a long queue would show."""
        run = self.run("--policy", "easy")
        tell("in-process easy", run["cpu"], "s of CPU", f"{run['jobs']:,.0f} jobs")
        tell("in-process easy, peak", run["peak_mb"], "MB")

    def wire(self) -> None:
        ratios, costs, walls = [], [], []
        for _ in range(ROUNDS):
            floor = echo_floor()
            run = self.run("--policy", "fifo", "--external")
            cost = run["wall"] / run["requests"] * 1e6
            ratios.append(cost / floor)
            costs.append(cost)
            walls.append(run["wall"])
        tell("wire fifo", statistics.median(walls), "s wall")
        tell("wire fifo, per request", statistics.median(costs), "us")
        tell("wire fifo over the echo floor", statistics.median(ratios), "times")

    def memory(self) -> None:
        jobs = int(self.run("--policy", "fifo")["jobs"])
        few, many = jobs // 4, jobs
        peaks = [self.run("--policy", "fifo", "--limit", limit)["peak_mb"] for limit in (few, many)]
        tell(f"peak at {few:,} jobs", peaks[0], "MB")
        tell(f"peak at {many:,} jobs", peaks[1], "MB", f"{peaks[1] - peaks[0]:+.1f} MB")

    def startup(self) -> None:
        for name, command in {
            "parley --help": [*PARLEY, "--help"],
            "import parley_client": [sys.executable, "-c", "import parley_client"],
        }.items():
            figures = [measure(command)["cpu"] for _ in range(5)]
            tell(name, statistics.median(figures), "s of CPU")


_ECHO = """
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(sys.argv[1])
socket.send_multipart([b"", b"ready"])
while (frames := socket.recv_multipart())[-1]:
    socket.send_multipart(frames)
"""


def echo_floor(rounds: int = 10_000) -> float:
    """Return the microseconds of a bare round trip of frames as large as ours."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        child = subprocess.Popen([sys.executable, "-c", _ECHO, f"tcp://127.0.0.1:{port}"])
        identity, *_ = socket.recv_multipart()
        began = time.perf_counter()
        for _ in range(rounds):
            socket.send_multipart([identity, b"", b"x" * 400])
            socket.recv_multipart()
        floor = (time.perf_counter() - began) / rounds * 1e6
        socket.send_multipart([identity, b"", b""])
        child.wait()
    tell("echo floor", floor, "us")
    return floor


def tell(name: str, value: float, unit: str, beside: str = "") -> None:
    print(json.dumps({"name": name, "value": round(value, 3), "unit": unit, "beside": beside}))
    print(f"{name:<34} {value:>10.2f} {unit:<10} {beside}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a run costs.")
    parser.add_argument("figures", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--nodes", type=int, default=240)
    options = parser.parse_args()
    known = ("in-process", "easy", "wire", "memory", "startup")
    for name in options.figures:
        if name not in known:
            parser.error(f"no figure {name!r}; there are: {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONHASHSEED"] = "0"
        trace = options.trace or generate(Path(folder) / "generated.swf", options.jobs)
        bench = Bench(trace, options.nodes, Path(folder))
        for name in options.figures or known:
            getattr(bench, name.replace("-", "_"))()


if __name__ == "__main__":
    main()
