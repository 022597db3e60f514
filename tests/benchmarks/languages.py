"""What dispatchers in other languages cost: one JSON line per figure, a table on standard error.

    python tests/benchmarks/languages.py [--trace FILE] [--jobs N] [--rounds N] [LANGUAGE ...]

Each language in turn, first come first served and EASY, beside the Python dispatcher over the same
wire, with the bare ZeroMQ echo of two processes between them, because that floor moves with the
machine. Without a trace they run on a generated workload of so many jobs. A language that is not
built is passed over, and told with the command that builds it.

*per request* is the whole run over its requests: server, wire and dispatcher. *dispatcher* is what
the dispatcher says that following and deciding took, in the mean; its decoding and encoding count
to the wire. The results of all are compared: whoever is fast and wrong is no figure.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.bench import Bench, echo_floor, generate, tell
from tests.foreign.languages import BY_NAME, LANGUAGES

POLICIES = ("fifo", "easy")


def decisions_took(out: Path) -> float:
    """Return the mean of what the dispatcher says of its own time, microseconds a request."""
    with (out / "timing.csv").open(newline="") as file:
        took = [float(row["dispatcher_us"]) for row in csv.DictReader(file)]
    return statistics.fmean(took)


def commands(names: list[str]) -> dict[str, dict[str, list[str]]]:
    """Return the flags of `parley run` for each dispatcher that can be started."""
    found = {"python": {policy: ["--policy", policy, "--external"] for policy in POLICIES}}
    for language in LANGUAGES:
        if names and language.name not in names:
            continue
        missing = language.missing()
        if missing is not None:
            print(f"passed over: {missing}", file=sys.stderr)
            continue
        found[language.name] = {policy: ["--", *language.command(policy)] for policy in POLICIES}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure dispatchers in other languages.")
    parser.add_argument("languages", nargs="*", default=[], help=", ".join(BY_NAME))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--nodes", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in options.languages:
        if name not in BY_NAME:
            parser.error(f"no language {name!r}; there are: {', '.join(BY_NAME)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONHASHSEED"] = "0"
        trace = options.trace or generate(Path(folder) / "generated.swf", options.jobs)
        bench = Bench(trace, options.nodes, Path(folder))
        measure(bench, Path(folder) / "run", commands(options.languages), options)


def measure(bench: Bench, out: Path, flags: dict, options: argparse.Namespace) -> None:
    """Run all dispatchers in turn, so often, and tell the medians."""
    figures: dict[tuple[str, str], list[dict[str, float]]] = {}
    results: dict[str, bytes] = {}
    for _ in range(options.rounds):
        for policy in POLICIES:
            for name, of in flags.items():
                floor = echo_floor()
                run = bench.run("--limit", options.jobs, *of[policy])
                run["floor"] = floor
                run["dispatcher"] = decisions_took(out)
                figures.setdefault((policy, name), []).append(run)
                jobs = (out / "jobs.csv").read_bytes()
                if results.setdefault(policy, jobs) != jobs:
                    sys.exit(f"{policy} in {name} decides otherwise than {next(iter(flags))}")
    for (policy, name), runs in figures.items():
        wall = statistics.median(run["wall"] for run in runs)
        each = statistics.median(run["wall"] / run["requests"] for run in runs) * 1e6
        over = statistics.median(run["wall"] / run["requests"] * 1e6 / run["floor"] for run in runs)
        took = statistics.median(run["dispatcher"] for run in runs)
        echoed = statistics.median(run["jobs"] / run["wall"] * run["floor"] / 1e6 for run in runs)
        beside = f"{echoed:.3f} while one echo comes back"
        tell(f"{policy} {name}", runs[0]["jobs"] / wall, "jobs/s", beside)
        tell(f"{policy} {name}, per request", each, "us", f"{over:.2f} times the echo floor")
        tell(f"{policy} {name}, dispatcher", took, "us")


if __name__ == "__main__":
    main()
