"""How the cost of a decision grows with the queue and with the machine.

    python tests/benchmarks/growth.py [--to FOLDER] [--decisions N]

A machine of N nodes, all but two busy, and Q jobs that wait for more than is free. Then small jobs
come and end, one a second: each coming and each end is a decision point, at which EASY may backfill
and FIFO may not. What is told is the time of the dispatcher and of the engine for one of these,
microseconds of processor time, the mean of so many, least of three goes. One of the two sizes
varies, the other stays at a thousand.

One JSON line per figure on standard output, a table on standard error, and, with `--to`, a plot.
The slope is that of the least squares through the logarithms.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from parley_client.dispatcher import Dispatcher
from parley_server.engine import ChunkGroup, Job, ListSource, NodeGroup, Shape
from parley_server.host.session import Offer, Session
from tests.benchmarks.bench import tell

SIZES = (10, 100, 1_000, 10_000, 100_000)
USUAL = 1_000
GOES = 3
_SECOND = 1_000_000
_LONG = 10**9 * _SECOND


class Nowhere:
    """A sink that forgets."""

    def collect(self, simulation) -> None:
        simulation.take_records()
        simulation.take_instants()

    def timed(self, *_, **__) -> None:
        pass

    def tick(self, clock_ns: int) -> None:
        pass


def workload(nodes: int, queue: int, small: int) -> list[Job]:
    """Return the jobs: one that fills the machine, those that wait, and the small ones."""
    whole = Shape((), exclusive=True)

    def job(number: int, submit: int, runtime: int, chunks: int) -> Job:
        request = (ChunkGroup(chunks, whole),)
        return Job(number, str(number), submit, runtime, runtime, request)

    jobs = [job(0, 0, _LONG, nodes - 2)]
    # Of many sizes and lengths, as a real queue is.
    jobs += [
        job(1 + index, _SECOND, (1 + index % 977) * 3600 * _SECOND, 3 + index % (nodes - 2))
        for index in range(queue)
    ]
    jobs += [
        job(1 + queue + index, (2 + index) * _SECOND, _SECOND // 2, 1) for index in range(small)
    ]
    return jobs


def per_decision(policy: str, nodes: int, queue: int, decisions: int) -> float:
    """Return the microseconds of processor time of one decision point."""
    offer = Offer(
        "growth",
        "",
        dict.fromkeys(("request", "select", "on_overrun", "estimate", "estimate_missing"), ""),
        [NodeGroup("n", nodes, {"core": 1})],
        lambda: ListSource(workload(nodes, queue, decisions)),
    )
    session, dispatcher = Session(offer, Nowhere()), Dispatcher(policy, ask="always")
    dispatcher.begin(session.open(dispatcher.hello()))
    asked = 0
    began = 0.0
    while asked < decisions:
        message = session.advance()
        if message["now_us"] > _SECOND:
            asked += 1
            began = began or time.process_time()
        session.reply(dispatcher.decide(message))
    return (time.process_time() - began) / decisions * 1e6


def slope(points: list[tuple[int, float]]) -> float:
    """Return the exponent of the power law that fits best."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    x = sum(size for size, _ in logs) / len(logs)
    y = sum(cost for _, cost in logs) / len(logs)
    covariance = sum((size - x) * (cost - y) for size, cost in logs)
    return covariance / sum((size - x) ** 2 for size, _ in logs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how the cost of a decision grows.")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--decisions", type=int, default=2_000)
    options = parser.parse_args()
    curves: dict[str, list[tuple[int, float]]] = {}
    for policy in ("fifo", "easy"):
        for what in ("queue", "nodes"):
            points = curves[f"{policy}, {what}"] = []
            for size in SIZES[what == "nodes" :]:
                nodes, queue = (USUAL, size) if what == "queue" else (size, USUAL)
                cost = min(
                    per_decision(policy, nodes, queue, options.decisions) for _ in range(GOES)
                )
                points.append((size, cost))
                tell(f"{policy}, {what} of {size:,}", cost, "us")
            tell(f"{policy}, growth with {what}", slope(points), "log/log")
    if options.to is not None:
        draw(curves, options.to)


def draw(curves: dict[str, list[tuple[int, float]]], folder: Path) -> None:
    """Write the plot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for (name, points), line in zip(curves.items(), ("-", "--", "-.", ":"), strict=True):
        sizes, costs = zip(*points, strict=True)
        axes.plot(sizes, costs, line, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="jobs that wait, or nodes", ylabel="us a decision")
    axes.set_ylim(bottom=1)
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "growth.svg")


if __name__ == "__main__":
    main()
