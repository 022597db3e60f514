"""What a run costs: one JSON line per figure on standard output, a table on standard error.

    python tests/benchmarks/bench.py [--jobs N] [--trace FILE] [--machine FLAGS] [--against accasim]
        [--record FOLDER] [FIGURE ...]

Figures: in-process, instructions, wire, asking, sessions, memory, startup, codec (all, if none is
named). Without a trace they run on a generated workload of so many jobs; `--machine` takes the
flags of `parley run` that describe the nodes. Each run is a child process of its own, so that CPU
and peak memory are the operating system's figures of that process alone. What is compared is timed
in turn, in one go, and told as the median of the ratios: the wire against a bare ZeroMQ echo of two
processes with frames of the same sizes, `--against accasim` against AccaSim in an environment of
its own.

`--record` writes the lines, with the machine, the versions and the date, into a file of its own;
later comparisons need them.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import zmq

sys.path.insert(0, str(Path(__file__).parents[2]))

from parley_protocol.codec import (
    FROM_SERVER,
    decode,
    encode,
    read_client_message,
    read_server_message,
)
from parley_protocol.examples import EXAMPLES
from tests.benchmarks.accasim import AccaSim, cores_of

PARLEY = [sys.executable, "-m", "parley_server.cli.main"]
ROUNDS = 5

_WAIT4_CHILD = """
import json, os, resource, subprocess, sys, threading, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
pss = 0
def look():
    global pss
    while True:
        time.sleep(0.5)
        try:
            with open(f"/proc/{child.pid}/smaps_rollup") as lines:
                pss = max(pss, *(int(l.split()[1]) for l in lines if l.startswith("Pss:")))
        except (OSError, TypeError, ValueError):
            return
threading.Thread(target=look, daemon=True).start()
_, status, usage = os.wait4(child.pid, 0)
print(json.dumps({
    "pss_mb": pss / 1024,
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

    def __init__(
        self,
        trace: Path,
        machine: list[str] | int,
        folder: Path,
        *,
        rounds: int = ROUNDS,
        against: bool = False,
    ) -> None:
        self._trace, self._folder = trace, folder
        self._machine = ["--nodes", str(machine)] if isinstance(machine, int) else machine
        self._rounds, self._against = rounds, against
        self._limit = None
        if "--limit" in self._machine:
            self._limit = self._machine[self._machine.index("--limit") + 1]

    def run(self, *flags: object) -> dict[str, float]:
        """Run the workload with flags; return the figures and the summary's own."""
        out = self._folder / "run"
        figures = measure(
            [
                *PARLEY,
                *("run", "--swf", str(self._trace), *self._machine),
                *("--select", "archive", "--quiet", "--force", "--out", str(out)),
                *map(str, flags),
            ]
        )
        summary = json.loads((out / "summary.json").read_text())
        figures["jobs"] = summary["jobs"]["submitted"]
        figures["requests"] = summary["measured"]["requests"]
        return figures

    def in_process(self) -> None:
        """Whole processes, everything written; in turn with AccaSim, if that is wished for."""
        other = None
        if self._against:
            flags = self._machine
            nodes = int(flags[flags.index("--nodes") + 1])
            other = AccaSim(self._folder, self._trace, nodes=nodes, cores=cores_of(flags))
        for policy in ("reject", "fifo", "easy"):
            runs, others = [], []
            for _ in range(self._rounds):
                runs.append(self.run("--policy", policy))
                if other is not None:
                    others.append(measure(other.command(policy)))
            cpu = statistics.median(run["cpu"] for run in runs)
            tell(f"in-process {policy}", cpu, "s of CPU", f"{runs[0]['jobs']:,.0f} jobs")
            tell(f"in-process {policy}, peak", runs[0]["peak_mb"], "MB")
            if others:
                theirs = statistics.median(run["cpu"] for run in others)
                ratio = statistics.median(
                    their["cpu"] / our["cpu"] for their, our in zip(others, runs, strict=True)
                )
                tell(f"AccaSim {policy}", theirs, "s of CPU", "without any output")
                tell(f"in-process {policy}, against AccaSim", ratio, "times faster")

    def instructions(self) -> None:
        """Count what a job adds to a run in process: the same each time, however busy the machine.

        The runs are short; a figure is of the trace's first jobs.
        """
        if shutil.which("valgrind") is None:
            print("passed over: instructions, for want of valgrind", file=sys.stderr)
            return
        few, many = 500, 2500
        for policy in ("reject", "fifo", "easy"):
            added = self._counted(policy, many) - self._counted(policy, few)
            tell(f"instructions a job, {policy}", added / (many - few), "", "counted by callgrind")

    def _counted(self, policy: str, jobs: int) -> int:
        """Return how many instructions a run of the trace's first jobs takes."""
        counts = self._folder / "callgrind"
        run = [*PARLEY, "run", "--swf", str(self._trace), *self._machine, "--policy", policy]
        subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}"),
                *(*run, "--limit", str(jobs), "--select", "archive", "--quiet", "--force"),
                *("--out", str(self._folder / "run")),
            ],
            capture_output=True,
            check=True,
        )
        with counts.open() as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))

    def wire(self) -> None:
        """A request over the wire, against the bare echo of frames of the same sizes."""
        for policy in ("fifo", "easy"):
            sizes = self._frame_sizes(policy)
            for transport in ("tcp", "ipc"):
                self._wire(policy, transport, sizes)

    def _wire(self, policy: str, transport: str, sizes: tuple[int, int]) -> None:
        endpoint = self._endpoint(transport)
        ratios, costs, above, speeds, per_echo = [], [], [], [], []
        for _ in range(self._rounds):
            # Before and after: on a shared machine it may change from one minute to the next.
            floors = [echo_floor(sizes=sizes, endpoint=endpoint)]
            ((jobs, requests, wall),) = self._served(policy, endpoint, 1)
            floors.append(echo_floor(sizes=sizes, endpoint=endpoint))
            floor = statistics.fmean(floors)
            cost = wall / requests * 1e6
            ratios.append(cost / floor)
            costs.append(cost)
            above.append(cost - floor)
            speeds.append(jobs / wall)
            per_echo.append(jobs / wall * floor / 1e6)
        name = f"wire {policy}, {transport}"
        tell(f"{name}, per request", statistics.median(costs), "us")
        tell(f"{name}, over the echo floor", statistics.median(ratios), "times")
        tell(f"{name}, above the echo floor", statistics.median(above), "us")
        tell(name, statistics.median(speeds), "jobs/s")
        tell(f"{name}, per echo", statistics.median(per_echo), "jobs while one echo comes back")

    def _endpoint(self, transport: str) -> str:
        return f"ipc://{self._folder}/wire" if transport == "ipc" else "tcp://127.0.0.1:*"

    def _frame_sizes(self, policy: str) -> tuple[int, int]:
        """Return the mean bytes of a request and of a reply, of a short run."""
        transcript = self._folder / "transcript.jsonl"
        flags = ("--external", "--limit", 2000, "--transcript", transcript, "--force")
        self.run("--policy", policy, *flags)
        sizes: dict[str, list[int]] = {"decision.request": [], "decision.reply": []}
        with transcript.open() as lines:
            for line in lines:
                said = json.loads(line)
                kind = said.get("view", {}).get("type")
                if kind in sizes and "bytes" in said:
                    sizes[kind].append(len(said["bytes"]) // 2)
        transcript.unlink()
        request, reply = (round(statistics.fmean(each)) for each in sizes.values())
        return request, reply

    def asking(self) -> None:
        """The share of requests that are answered by nothing."""
        for ask in ("actionable", "always"):
            self.run("--", sys.executable, "-c", _ASKED, ask)
            with (self._folder / "run" / "decisions.csv").open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["requests"] != "0"]
            empty = sum(row["decisions"] == "0" for row in rows)
            tell(f"easy, ask {ask}: answered by nothing", 100 * empty / len(rows), "%")

    def sessions(self) -> None:
        """Eight sessions at once, against one alone: jobs a second in all."""
        speeds: dict[int, list[float]] = {1: [], 8: []}
        for _ in range(self._rounds):
            for count, of in speeds.items():
                served = self._served("easy", self._endpoint("tcp"), count)
                # They begin together: the slowest is how long it took.
                of.append(sum(jobs for jobs, *_ in served) / max(wall for *_, wall in served))
        for count, of in speeds.items():
            tell(f"{count} easy sessions at once", statistics.median(of), "jobs/s in all")
        ratio = statistics.median(many / one for one, many in zip(*speeds.values(), strict=True))
        tell("8 sessions against 1", ratio, "times")

    def _served(self, policy: str, endpoint: str, count: int) -> list[tuple[int, int, float]]:
        """Serve so many sessions at once; return jobs, requests and wall seconds of each."""
        scenario = self._folder / "scenario.toml"
        if not scenario.exists():
            self.run("--policy", "reject", "--limit", 1)
            text = (self._folder / "run" / "scenario.toml").read_text()
            limit = f"limit = {self._limit}\n" if self._limit else ""
            scenario.write_text(text.replace("limit = 1\n", limit))
        out = self._folder / "served"
        flags = ["--bind", endpoint, "--out", str(out), "--force", "--sessions", str(count)]
        server = subprocess.Popen(
            [*PARLEY, "serve", str(scenario), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        at = server.stdout.readline().split()[-1]
        command = [*PARLEY, "dispatch", "--connect", at, "--policy", policy]
        clients = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]
        server.stdout.read()
        for process in (*clients, server):
            if process.wait():
                sys.exit(f"{' '.join(process.args)} failed")
        summaries = [
            json.loads((out / str(number) / "summary.json").read_text())
            for number in range(1, count + 1)
        ]
        return [
            (
                summary["jobs"]["submitted"],
                summary["measured"]["requests"],
                summary["measured"]["wall_seconds"],
            )
            for summary in summaries
        ]

    def memory(self) -> None:
        """Peaks over tiles of the trace; few jobs and many."""
        peaks = []
        for jobs in (200_000, 1_000_000):
            tile = self._folder / "tile.swf"
            measure([*PARLEY, "workload", "tile", str(self._trace), str(tile), "--jobs", str(jobs)])
            figures = measure(
                [
                    *(*PARLEY, "run", "--swf", str(tile), *self._machine, "--policy", "fifo"),
                    *("--quiet", "--force", "--out", str(self._folder / "tiled")),
                ]
            )
            tile.unlink()
            peaks.append(figures["peak_mb"])
            tell(f"peak RSS at {jobs:,} jobs", figures["peak_mb"], "MB")
            tell(f"peak PSS at {jobs:,} jobs", figures["pss_mb"], "MB")
        tell("a million jobs against 200,000", peaks[1] / peaks[0], "times the memory")

    def codec(self) -> None:
        """What a message costs to write, to read and to check, alone."""
        for name, read in {
            "decision.request-shared": lambda frame: read_server_message(
                decode(frame, FROM_SERVER)
            ),
            "decision.reply": lambda frame: read_client_message(decode(frame)),
        }.items():
            message = EXAMPLES[name]
            frame = encode(message)
            size = f"{len(frame)} bytes"
            tell(f"codec, write {name}", _each(partial(encode, message)), "us", size)
            tell(f"codec, read {name}", _each(partial(decode, frame)), "us")
            tell(f"codec, read and validate {name}", _each(partial(read, frame)), "us")

    def startup(self) -> None:
        for name, command in {
            "parley --help": [*PARLEY, "--help"],
            "import parley_client": [sys.executable, "-c", "import parley_client"],
        }.items():
            figures = [measure(command)["cpu"] for _ in range(5)]
            tell(name, statistics.median(figures), "s of CPU")


_ASKED = """
import sys
from parley_client import serve
serve("easy", ask=sys.argv[1])
"""

_ECHO = """
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(sys.argv[1])
answer = b"x" * int(sys.argv[2])
socket.send_multipart([b"", b"ready"])
while socket.recv_multipart()[-1]:
    socket.send_multipart([b"", answer])
"""


def _each(call: Callable[[], object], times: int = 5_000) -> float:
    """Return the microseconds that a call takes, the least of five goes."""
    return min(timeit.repeat(call, number=times, repeat=5)) / times * 1e6


def echo_floor(
    rounds: int = 10_000,
    *,
    sizes: tuple[int, int] = (400, 400),
    endpoint: str = "tcp://127.0.0.1:*",
) -> float:
    """Return the microseconds of a bare round trip of two frames of so many bytes."""
    question, answer = sizes
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind(endpoint)
        at = socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        child = subprocess.Popen([sys.executable, "-c", _ECHO, at, str(answer)])
        identity, *_ = socket.recv_multipart()
        began = time.perf_counter()
        for _ in range(rounds):
            socket.send_multipart([identity, b"", b"x" * question])
            socket.recv_multipart()
        floor = (time.perf_counter() - began) / rounds * 1e6
        socket.send_multipart([identity, b"", b""])
        child.wait()
    tell(f"echo floor, {endpoint.partition(':')[0]}", floor, "us", f"{question} and {answer} bytes")
    return floor


_told: list[dict[str, object]] = []


def tell(name: str, value: float, unit: str, beside: str = "") -> None:
    """Print a figure, and keep it for `record`."""
    figure = {"name": name, "value": round(value, 3), "unit": unit, "beside": beside}
    _told.append(figure)
    print(json.dumps(figure), flush=True)
    print(f"{name:<42} {value:>10.2f} {unit:<14} {beside}", file=sys.stderr, flush=True)


def record(folder: Path, trace: str, machine: str, rounds: int) -> None:
    """Write what was told so far, with where, when and on what it was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    where = {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "trace": trace,
        "machine": machine,
        "rounds": rounds,
    }
    lines = [json.dumps(line) for line in (where, *_told)]
    names = {str(line["name"]).split()[0].rstrip(",") for line in _told}
    what = "in-process" if "in-process" in names else "wire" if "wire" in names else "others"
    path = folder / f"{where['date']}-{Path(trace).name.split('.')[0]}-{what}.jsonl"
    path.write_text("\n".join([*lines, ""]))


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


_PACKAGES = ("parley-sim", "pyzmq", "msgpack", "pydantic")

FIGURES = (
    *("in-process", "instructions", "wire", "asking", "sessions", "memory", "startup", "codec"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a run costs.")
    parser.add_argument("figures", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--limit", type=int, help="of the trace, so many jobs")
    parser.add_argument("--machine", default="--nodes 240", help="flags of parley run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--against", choices=["accasim"])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    for name in options.figures:
        if name not in FIGURES:
            parser.error(f"no figure {name!r}; there are: {', '.join(FIGURES)}")
    machine = options.machine.split()
    if options.limit is not None:
        machine += ["--limit", str(options.limit)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONHASHSEED"] = "0"
        trace = options.trace or generate(Path(folder) / "generated.swf", options.jobs)
        bench = Bench(
            trace,
            machine,
            Path(folder),
            rounds=options.rounds,
            against=options.against is not None,
        )
        for name in options.figures or FIGURES:
            getattr(bench, name.replace("-", "_"))()
    if options.record is not None:
        record(options.record, trace.name, " ".join(machine), options.rounds)


if __name__ == "__main__":
    main()
