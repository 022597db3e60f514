"""Plots of what becomes of jobs: how a metric is spread, by run and by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import PercentFormatter

from parley_server.results.classes import classes
from parley_server.results.comparison import paired
from parley_server.results.measures import describe, histogram
from parley_server.results.metrics import RUN_METRICS, job_metric
from parley_server.results.plot_axes import (
    boxes,
    counted,
    duration,
    name_runs,
    scale,
    short,
    signed,
    told,
)
from parley_server.results.style import BLACK, pen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from parley_server.results.sample import Sample

    Reals = NDArray[np.float64]

_CURVE_POINTS = 2000
_MOST_CLASSES = 16


def draw_boxes(made: Figure, samples: Sequence[Sample], name: str) -> None:
    """Draw the spread of a metric, a box for each run."""
    metric = job_metric(name)
    described = [describe(metric.values(sample.jobs)) for sample in samples]
    axes = boxes(made, samples, described)
    scale(axes, "x", metric, [value for found in described for value in (found.p5, found.max)])
    axes.set_xlabel(told(metric))
    axes.set_title(f"{metric.title}: box, middle half; whiskers, 5 to 95 %")


def draw_cdf(made: Figure, samples: Sequence[Sample], name: str) -> None:
    """Draw which share of the jobs has no more than a value."""
    metric, axes = job_metric(name), made.add_subplot()
    ends: list[float] = []
    for number, sample in enumerate(samples):
        values = np.sort(metric.values(sample.jobs))
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        ends += [values[0], values[-1]]
        ranks = np.unique(np.linspace(0, len(values) - 1, _CURVE_POINTS).astype(np.int64))
        shares = (ranks + 1) / len(values)
        style = pen(number)
        axes.step(
            np.concatenate((values[ranks[:1]], values[ranks])),
            np.concatenate(([0.0], shares)),
            where="post",
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            markevery=max(1, len(ranks) // 8),
            markersize=4,
            label=short(sample.run.label),
        )
    scale(axes, "x", metric, ends)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("Share of jobs")
    axes.set_xlabel(told(metric))
    axes.set_title(f"{metric.title}: share of jobs with no more")
    name_runs(made, samples)


def draw_histogram(made: Figure, samples: Sequence[Sample], name: str) -> None:
    """Draw how many jobs have which value."""
    metric, axes = job_metric(name), made.add_subplot()
    ends: list[float] = []
    edges: Reals | None = None
    everything = np.concatenate([metric.values(sample.jobs) for sample in samples])
    if np.isfinite(everything).any():
        edges = histogram(everything, bins=40, logarithmic=True).edges
        ends = [float(edges[0]), float(edges[-1])]
    for number, sample in enumerate(samples):
        if edges is None:
            continue
        values = metric.values(sample.jobs)
        counts, _ = np.histogram(values[np.isfinite(values)], edges)
        style = pen(number)
        axes.stairs(
            counts,
            edges,
            color=style.colour,
            linestyle=style.line,
            fill=len(samples) == 1,
            alpha=0.6 if len(samples) == 1 else 1.0,
            linewidth=1.6,
            label=short(sample.run.label),
        )
    scale(axes, "x", metric, ends)
    counted(axes.yaxis)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("Jobs")
    axes.set_xlabel(told(metric))
    axes.set_title(f"{metric.title}: jobs in bins of equal ratio")
    name_runs(made, samples)


def draw_by_class(made: Figure, samples: Sequence[Sample], name: str, kind: str) -> None:
    """Draw the median of a metric and the middle half of the jobs, by class."""
    metric, axes = job_metric(name), made.add_subplot()
    names: list[str] = []
    found = []
    for sample in samples:
        parts = classes(sample.jobs, kind, most=_MOST_CLASSES).parts(metric.values(sample.jobs))
        found.append({label: describe(part) for label, part in parts})
    names = list(dict.fromkeys(label for each in found for label in each))
    if kind in _KIND_TITLES:
        names.sort(key=_class_order)
    places = {label: place for place, label in enumerate(names)}
    width = 0.7 / len(samples)
    ends: list[float] = []
    for number, each in enumerate(found):
        style = pen(number)
        shown = [(label, this) for label, this in each.items() if this.count and label in places]
        if not shown:
            continue
        at = np.array([places[label] for label, _ in shown]) + width * (
            number - (len(samples) - 1) / 2
        )
        medians = np.array([this.median for _, this in shown])
        spread = np.array([[this.median - this.q1, this.q3 - this.median] for _, this in shown])
        ends += [this.q1 for _, this in shown] + [this.q3 for _, this in shown]
        axes.errorbar(
            at,
            medians,
            yerr=spread.T,
            fmt=style.marker,
            color=style.colour,
            markersize=5,
            elinewidth=1.6,
            capsize=3,
            label=short(samples[number].run.label),
        )
    scale(axes, "y", metric, ends)
    counts = [sum(each[label].count for each in found[:1] if label in each) for label in names]
    axes.set_xticks(
        range(len(names)),
        [f"{label}\n{count:,}" for label, count in zip(names, counts, strict=True)],
        # Each has as much of the width as the others: the longest must fit there.
        rotation=30 if max(map(len, names), default=0) * len(names) > 90 else 0,
        fontsize=8,
    )
    axes.grid(visible=False, axis="x")
    axes.set_xlabel(f"{_KIND_TITLES.get(kind, kind.capitalize())}; below, the number of jobs")
    axes.set_ylabel(told(metric))
    axes.set_title(f"{metric.title}: median and middle half of the jobs")
    name_runs(made, samples)


_BARS = ("wait", "bounded_slowdown", "turnaround")
_RUN_BARS = ("utilisation", "loss_of_capacity", "queue_mean")


def draw_bars(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw the means of jobs' metrics and metrics of runs as bars."""
    made.set_size_inches(11, max(4.2, 2.2 + 0.5 * len(samples)))
    panels: list[tuple[str, str, list[float]]] = []
    for name in _BARS:
        metric = job_metric(name)
        values = [describe(metric.values(sample.jobs)).mean for sample in samples]
        panels.append((f"{metric.title}, mean", metric.unit, values))
    for run_metric in RUN_METRICS:
        if run_metric.name in _RUN_BARS:
            values = [run_metric.value(sample) for sample in samples]
            panels.append((run_metric.title, run_metric.unit, values))
    labels = [short(sample.run.label, 24) for sample in samples]
    for place, (title, unit, values) in enumerate(panels):
        axes = made.add_subplot(2, 3, place + 1)
        bars = axes.barh(range(len(samples)), np.nan_to_num(values), height=0.7)
        for number, (bar, value) in enumerate(zip(bars, values, strict=True)):
            style = pen(number)
            bar.set(facecolor=style.colour, alpha=0.6, hatch=style.hatch, edgecolor=BLACK)
            axes.annotate(
                _number(value, unit),
                (np.nan_to_num(value), number),
                textcoords="offset points",
                xytext=(3, 0),
                va="center",
                fontsize=8,
            )
        axes.set_yticks(range(len(samples)), labels if place % 3 == 0 else [""] * len(samples))
        axes.set_ylim(len(samples) - 0.3, -0.7)
        axes.grid(visible=False)
        axes.margins(x=0.3)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(f"({unit})" if unit not in {"", "s"} else "", fontsize=8)


def draw_differences(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw by how much jobs wait longer or shorter than in the first run."""
    axes, reach = made.add_subplot(), 1.0
    for number, sample in enumerate(samples[1:], 1):
        differences = np.sort(paired(samples[0], sample, "wait").differences)
        if not len(differences):
            continue
        reach = max(reach, float(np.abs(differences).max()))
        ranks = np.unique(np.linspace(0, len(differences) - 1, _CURVE_POINTS).astype(np.int64))
        style = pen(number)
        axes.step(
            differences[ranks],
            (ranks + 1) / len(differences),
            where="post",
            color=style.colour,
            linestyle=style.line,
            label=short(sample.run.label),
        )
    axes.axvline(0, color=BLACK, linewidth=0.8)
    signed(axes, reach)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("Share of jobs")
    axes.set_xlabel(f"Wait, against {short(samples[0].run.label)}: shorter | longer")
    axes.set_title("What each job gained or lost: share of jobs with no more")
    name_runs(made, samples[1:])


_KIND_TITLES = {"size": "Processors", "work": "Work", "runtime": "Time on the nodes"}


def _class_order(label: str) -> tuple[bool, float, str]:
    """Sort classes by their numbers: those below an edge first, those above it last."""
    digits = label.removeprefix("< ").removeprefix("≥ ").replace(",", "").partition("-")[0]
    try:
        number = float(digits.split()[0])
    except (ValueError, IndexError):
        return True, 0.0, label
    return False, number - 0.5 * label.startswith("<"), label


def _number(value: float, unit: str) -> str:
    if not np.isfinite(value):
        return "-"
    if unit == "s":
        return duration(value)
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
