"""Plots of the dispatcher's work: the queues it meets, and what its decisions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import EngFormatter

from parley_server.results.measures import describe
from parley_server.results.plot_axes import boxes, counts_by_ratio, name_runs, ratio_ticks, short
from parley_server.results.style import pen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from parley_server.results.run_directory import RunDirectory
    from parley_server.results.sample import Sample

    Reals = NDArray[np.float64]

_FEWEST = 5
"""Requests that a point stands for at least."""


def draw_queue_sizes(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw how long the queue is when the dispatcher is asked, a box for each run."""
    described = []
    for sample in samples:
        instants = sample.run.instants
        asked = (instants.requests > 0) & _inside(instants.instant, sample)
        described.append(describe(instants.queue_length[asked].astype(np.float64)))
    axes = boxes(made, samples, described)
    counts_by_ratio(axes)
    axes.set_xlabel("Jobs waiting when the dispatcher is asked")
    axes.set_title("Queue length: box, middle half; whiskers, 5 to 95 %")


def queue_at_requests(run: RunDirectory) -> NDArray[np.int32]:
    """Return how many jobs waited at the instant of each request, shape (requests,).

    Of several requests at one instant each has the queue that the first found.

    Raises:
        InputError: The run's files cannot be read.
    """
    instants = run.instants
    if not len(instants.instant):
        return np.zeros(len(run.requests.instant), np.int32)
    places = np.searchsorted(instants.instant, run.requests.instant)
    return instants.queue_length[np.minimum(places, len(instants.instant) - 1)]


def times_by_queue(run: RunDirectory) -> tuple[Reals, Reals, Reals]:
    """Return the dispatcher's time for classes of queue lengths, 0, 1, 2, 3-4, 5-8, ...

    Args:
        run: The run.

    Returns:
        Mean queue length of each class, mean time and 95th percentile of the time, seconds, all of
        shape (classes with at least five requests,).

    Raises:
        InputError: The run's files cannot be read.
    """
    queue, times = queue_at_requests(run), run.requests.dispatcher
    # The first request is greeted with everything that is only done once.
    queue, times = queue[1:], times[1:]
    groups = np.where(queue > 0, np.ceil(np.log2(np.maximum(queue, 1))) + 1, 0).astype(np.int64)
    rows = [
        (queue[groups == group].mean(), found.mean, found.p95)
        for group in np.unique(groups)
        if (found := describe(times[groups == group])).count >= _FEWEST
    ]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def draw_decision_times(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw the dispatcher's time for a reply against the queue it finds."""
    axes = made.add_subplot()
    longest = 1.0
    for number, sample in enumerate(samples):
        queue, mean, most = times_by_queue(sample.run)
        if not len(queue):
            continue
        longest = max(longest, float(queue.max()))
        style = pen(number)
        axes.plot(
            queue,
            mean,
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            markersize=5,
            label=short(sample.run.label),
        )
        # The same mark, hollow: in grey thin lines of several runs look alike.
        axes.plot(
            queue,
            most,
            color=style.colour,
            linestyle=":",
            linewidth=0.8,
            marker=style.marker,
            markersize=3.5,
            markerfacecolor="none",
        )
    counts_by_ratio(axes)
    axes.set_xlim(-0.2, longest * 1.3)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ratio_ticks(axes.yaxis, high / low)
    axes.yaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.set_xlabel("Jobs waiting when the dispatcher is asked")
    axes.set_ylabel("Time for a reply (wall clock)")
    axes.set_title("Dispatcher's time for a reply: mean; hollow, 95 % are faster")
    name_runs(made, samples)


_PARTS = (("server", "#0072B2", ""), ("dispatcher", "#E69F00", "////"), ("wire", "#999999", ".."))


def draw_decision_cost(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw the mean time of a request, split into server, dispatcher and wire."""
    made.set_size_inches(9, max(2.6, 1.6 + 0.5 * len(samples)))
    axes = made.add_subplot()
    labels = [short(sample.run.label) for sample in samples]
    reached = np.zeros(len(samples))
    for part, colour, hatch in _PARTS:
        spent = [getattr(sample.run.requests, part) for sample in samples]
        means = np.array([float(times.mean()) if len(times) else 0.0 for times in spent])
        axes.barh(
            range(len(samples)),
            means,
            left=reached,
            height=0.6,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            alpha=0.85,
            label=part,
        )
        reached += means
    for place, total in enumerate(reached):
        axes.annotate(
            EngFormatter(unit="s", places=0)(total),
            (total, place),
            textcoords="offset points",
            xytext=(4, 0),
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(samples)), labels)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.15)
    axes.set_ylim(len(samples) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.set_xlabel("Mean time per decision point (wall clock)")
    axes.set_title("What a decision point costs")
    made.legend(loc="outside lower right", ncols=3)


def _inside(instants: Reals, sample: Sample) -> NDArray[np.bool_]:
    if sample.window.whole:
        return np.ones(len(instants), bool)
    return (instants >= sample.begin) & (instants < sample.end)
