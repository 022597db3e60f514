"""Plots over time: what is used and what waits, and when jobs come."""

from __future__ import annotations

import calendar
import zoneinfo
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
)

from parley_server.results.plot_axes import (
    TIME_TICKS,
    counted,
    duration,
    name_runs,
    part_width,
    short,
    time_unit,
)
from parley_server.results.style import pen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from parley_server.results.run_directory import RunDirectory
    from parley_server.results.sample import Sample
    from parley_server.results.steps import Steps

    Reals = NDArray[np.float64]

_BINS = 500
"""Points of a curve over time; each is the mean over its part."""


def draw_timeline(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw utilisation by resource, queue and running jobs over time."""
    kinds = _resources(samples)
    made.set_size_inches(10, 2.0 * (len(kinds) + 2) + 1)
    every = made.subplots(len(kinds) + 2, 1, sharex=True, squeeze=False)[:, 0]
    begin, end, unit, named = _span(samples)
    width = part_width(end - begin, _BINS)
    edges = begin + np.arange(np.ceil((end - begin) / width) + 1) * width
    # The last part ends where the run does: what follows would be counted as idle.
    edges = np.append(edges[:-1][edges[:-1] < end], end)
    for axes, kind in zip(every, kinds, strict=False):
        for number, sample in enumerate(samples):
            if kind in sample.run.jobs.amounts:
                capacity = sample.run.machine.capacity[kind]
                _curve(axes, number, sample, _shares(sample.used(kind), capacity), edges, unit)
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_ylabel(f"{kind} in use")
    for number, sample in enumerate(samples):
        _curve(every[-2], number, sample, sample.queue, edges, unit)
        _curve(every[-1], number, sample, sample.running, edges, unit)
    for axes, label in ((every[-2], "Jobs waiting"), (every[-1], "Jobs running")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        counted(axes.yaxis)
    every[-1].set_xlabel(f"Simulated time ({named})")
    every[0].set_title(f"Over time: means over parts of {duration(width)}")
    name_runs(made, samples)


def draw_median_wait(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw the median wait of the jobs submitted in each minute or more."""
    axes = made.add_subplot()
    begin, end, unit, named = _span(samples)
    width = part_width(end - begin, _BINS)
    most = 1.0
    for number, sample in enumerate(samples):
        at, medians = medians_by_time(sample.jobs.submit, sample.jobs.wait, width)
        if not len(at):
            continue
        most = max(most, float(medians.max()))
        style = pen(number)
        axes.plot(
            at / unit,
            medians,
            color=style.colour,
            linestyle=style.line,
            linewidth=1.1,
            label=short(sample.run.label),
        )
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    axes.yaxis.set_major_locator(FixedLocator(TIME_TICKS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(duration))
    axes.set_ylim(-0.1, most * 1.5)
    axes.set_ylabel("Median wait")
    axes.set_xlabel(f"Submitted at, simulated time ({named})")
    part = "each minute" if width == 60 else f"each part of {duration(width)}"
    axes.set_title(f"Median wait of the jobs submitted in {part}")
    name_runs(made, samples)


def medians_by_time(instants: Reals, values: Reals, width: float) -> tuple[Reals, Reals]:
    """Return the medians of values in parts of time, of those parts that have a value.

    Args:
        instants: When each value was, seconds, shape (values,).
        values: Shape (values,).
        width: Of a part, seconds; parts begin at multiples of it.

    Returns:
        Begins of the parts, seconds, ascending, and the medians, both of shape (parts,).
    """
    parts = np.floor(instants / width)
    order = np.lexsort((values, parts))
    parts, values = parts[order], values[order]
    found, first, counts = np.unique(parts, return_index=True, return_counts=True)
    if not len(found):
        return found, values
    low, high = values[first + (counts - 1) // 2], values[first + counts // 2]
    return found * width, (low + high) / 2


def node_use(sample: Sample) -> Reals:
    """Return which share of the window each node is held, shape (nodes,).

    Where jobs share nodes it is the share of the node's leading resource, by the rules of the run.

    Raises:
        InputError: The run's files cannot be read.
    """
    run = sample.run
    changes = np.zeros(run.machine.node_count + 1)
    settings = run.scenario.get("workload", {})
    whole = settings.get("request", "nodes") == "nodes"
    for begins, ends, spans in run.held_blocks():
        held = np.clip(ends, sample.begin, sample.end) - np.clip(begins, sample.begin, sample.end)
        amounts = held if whole else held * spans.chunks
        changes += np.bincount(spans.first, amounts, minlength=len(changes))
        changes -= np.bincount(spans.last + 1, amounts, minlength=len(changes))
    # What rounding leaves over is no use.
    shares = np.maximum(np.cumsum(changes)[:-1], 0.0) / max(sample.end - sample.begin, 1e-6)
    if whole:
        return shares
    kind = run.leading_resource
    each = float(settings.get("per_processor", {}).get(kind, 1))
    return shares * each / np.maximum(run.machine.per_node[kind], 1)


def draw_node_use(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw which share of the time each node is held; of many nodes the mean of some."""
    axes = made.add_subplot()
    for number, sample in enumerate(samples):
        shares = np.nan_to_num(node_use(sample))
        edges = np.unique(np.linspace(0, len(shares), min(len(shares), _BINS) + 1).astype(int))
        means = np.add.reduceat(shares, edges[:-1]) / np.diff(edges)
        style = pen(number)
        axes.stairs(
            means,
            edges,
            baseline=None,
            color=style.colour,
            linestyle=style.line,
            linewidth=max(1.0, 2.6 - 0.6 * number),
            label=short(sample.run.label),
        )
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Node")
    axes.set_ylabel("Share of the time that it is held")
    axes.set_title("How much each node is used")
    name_runs(made, samples)


def draw_submissions(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw how many jobs come by hour, weekday and month."""
    made.set_size_inches(10, 4)
    panels = made.subplots(1, 3, sharey=False, width_ratios=(24, 9, 14))
    known = True
    drawn: dict[bytes, int] = {}
    for number, sample in enumerate(samples):
        submits = sample.run.jobs.submit[sample.run.jobs.attempt == 1]
        # Runs of one workload have one curve.
        seen = drawn.setdefault(np.sort(submits).tobytes(), number)
        if seen != number or not len(submits):
            continue
        hours, weekdays, months, stated = calendar_of(submits, sample.run)
        known &= stated
        style = pen(number)
        for axes, values, count in zip(
            panels, (hours, weekdays, months - 1), (24, 7, 12), strict=True
        ):
            shares = np.bincount(values, minlength=count) / len(submits)
            axes.plot(
                range(count),
                shares,
                color=style.colour,
                linestyle=style.line,
                marker=style.marker,
                markersize=4,
                label=short(str(sample.run.summary.get("scenario", {}).get("name", ""))),
            )
    for axes, title in zip(panels, ("Hour of the day", "Day of the week", "Month"), strict=True):
        axes.set_xlabel(title)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[0].set_xticks(range(0, 24, 3))
    panels[1].set_xticks(range(7), [calendar.day_abbr[day][:2] for day in range(7)])
    panels[2].set_xticks(range(12), [calendar.month_abbr[month][0] for month in range(1, 13)])
    panels[0].set_ylabel("Share of the jobs submitted")
    when = "" if known else "; the trace does not say when it began: time 0 taken for a Monday, 0 h"
    panels[0].set_title(f"When jobs are submitted{when}")
    distinct = sorted(set(drawn.values()))
    name_runs(made, [samples[number] for number in distinct])


def calendar_of(
    instants: Reals, run: RunDirectory
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], bool]:
    """Return hour (0-23), weekday (0 is Monday) and month (1-12) of instants, in local time.

    Args:
        instants: Simulated, seconds, shape (n,).
        run: What they are of: it knows when time 0 was, and where.

    Returns:
        Three arrays of shape (n,), and whether the run says when time 0 was; else the first of
        January 1973 is taken for it, a Monday.
    """
    trace = run.summary.get("lines", {}).get("trace", {})
    begin = run.scenario.get("platform", {}).get("start_time", trace.get("UnixStartTime"))
    try:
        start = int(str(begin).split()[0])
    except (ValueError, IndexError):
        start = 0
    zone: tzinfo = UTC
    if start > 0:
        try:
            zone = zoneinfo.ZoneInfo(str(trace.get("TimeZoneString", "UTC")).strip())
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            zone = UTC
    hours, places = np.unique(
        np.floor((instants + (start if start > 0 else _MONDAY)) / 3600), return_inverse=True
    )
    told = [datetime.fromtimestamp(hour * 3600, zone) for hour in hours.tolist()]
    columns = np.array([(when.hour, when.weekday(), when.month) for when in told], np.int64)
    columns = columns.reshape(-1, 3)[places]
    return columns[:, 0], columns[:, 1], columns[:, 2], start > 0


_MONDAY = int(datetime(1973, 1, 1, tzinfo=UTC).timestamp())


def _resources(samples: Sequence[Sample]) -> list[str]:
    """Return the resources that some run tells of, the leading one first."""
    kinds = dict.fromkeys(
        kind
        for sample in samples
        for kind in sorted(
            sample.run.jobs.amounts, key=lambda kind: (kind != sample.run.leading_resource, kind)
        )
    )
    return list(kinds)


def _shares(steps: Steps, capacity: int) -> Steps:
    return type(steps)(steps.times, steps.values / max(capacity, 1))


def _span(samples: Sequence[Sample]) -> tuple[float, float, float, str]:
    """Return where time begins and ends for all, and the unit it is told in."""
    begins = [sample.begin for sample in samples if np.isfinite(sample.begin)]
    ends = [sample.end for sample in samples if np.isfinite(sample.end)]
    begin, end = min(begins, default=0.0), max(ends, default=1.0)
    end = max(end, begin + 1)
    return begin, end, *time_unit(end - begin)


def _curve(
    axes: Axes, number: int, sample: Sample, steps: Steps, edges: Reals, unit: float
) -> None:
    style = pen(number)
    axes.stairs(
        steps.means(edges),
        edges / unit,
        baseline=None,
        color=style.colour,
        linestyle=style.line,
        # Where curves coincide, those below are seen beside those above.
        linewidth=max(1.0, 2.6 - 0.6 * number),
        label=short(sample.run.label),
    )
