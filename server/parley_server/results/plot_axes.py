"""What the plots share: axes that people read, boxes, and the names of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from parley_server.results.style import BLACK, GREY, pen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from parley_server.results.measures import Description
    from parley_server.results.metrics import JobMetric
    from parley_server.results.sample import Sample

TIME_TICKS = (0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 10 * 86_400, 100 * 86_400, 1000 * 86_400)
"""Ticks of an axis of times that grows by ratio."""

_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def time_unit(span: float) -> tuple[float, str]:
    """Return the unit, in seconds and by name, in which a span of time is told best."""
    for seconds, name in _UNITS:
        if span >= 2 * seconds:
            return seconds, name
    return 1.0, "seconds"


def counted(axis: Axis) -> None:
    """Let an axis tell large numbers short: 10 k, 3 M."""
    axis.set_major_formatter(EngFormatter(sep=""))


_MARKS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def duration(seconds: float, _place: int | None = None) -> str:
    """Return a length of time as a tick of an axis says it: 30 s, 5 min, 2 h, 10 d."""
    if seconds == 0:
        return "0"
    size = abs(seconds)
    for length, mark in _MARKS:
        if size >= length:
            return f"{seconds / length:,.3g} {mark}".replace("e+0", "e")
    return f"{seconds:.2g} s"


_WIDTHS = (
    *(60, 120, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600),
    *(day * 86_400 for day in (1, 2, 5, 7, 14, 28, 56, 112, 365)),
)


def part_width(span: float, most: int) -> float:
    """Return a length of time that people think in, whole minutes, for parts of a span.

    Args:
        span: Seconds.
        most: Parts that the span may have at most, but for a span of more than centuries.
    """
    return float(next((width for width in _WIDTHS if width * most >= span), _WIDTHS[-1]))


def timed(axis: Axis) -> None:
    """Let an axis of seconds tell lengths of time in the unit that suits each."""
    axis.set_major_formatter(FuncFormatter(duration))


def name_runs(made: Figure, samples: Sequence[Sample]) -> None:
    """Name the runs outside of the axes; a single one is named as well."""
    handles, labels = made.axes[0].get_legend_handles_labels()
    if not handles:
        handles = [Patch(color=pen(number).colour) for number in range(len(samples))]
        labels = [short(sample.run.label) for sample in samples]
    widest = max((len(label) for label in labels), default=1)
    columns = max(1, min(len(labels), 110 // (widest + 8)))
    made.legend(handles, labels, loc="outside lower center", ncols=columns)


def scale(axes: Axes, side: str, metric: JobMetric, ends: Sequence[float]) -> None:
    """Let an axis grow by ratio, with times as people say them, where values spread far."""
    known = [end for end in ends if np.isfinite(end)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    axis = axes.xaxis if side == "x" else axes.yaxis
    setter = axes.set_xscale if side == "x" else axes.set_yscale
    limit = axes.set_xlim if side == "x" else axes.set_ylim
    if metric.unit == "s":
        setter("symlog", linthresh=1.0, linscale=0.5)
        axis.set_major_locator(FixedLocator(TIME_TICKS))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(duration))
        limit(-0.1 if low >= 0 else low * 1.3, max(high * 1.3, 1.0))
    elif low > 0 and high > 20 * low:
        setter("log")
        ratio_ticks(axis, high / low)
        axis.set_major_formatter(FuncFormatter(plainly))
        limit(low / 1.1, high * 1.3)
    elif low == 0 and high > 0:
        setter("symlog", linthresh=10.0 ** np.floor(np.log10(high) - 2), linscale=0.5)
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(plainly))
        limit(-high * 1e-4, high * 1.3)


def plainly(value: float, _place: int | None = None) -> str:
    """Return a number as a tick of an axis says it: 1,000,000 and 0.001, not 1e+06."""
    return f"{value:,.0f}" if abs(value) >= 1 and value == round(value) else f"{value:,g}"


def ratio_ticks(axis: Axis, ratio: float) -> None:
    """Let an axis that grows by ratio have enough ticks, whatever its ends are apart."""
    many = ratio < 100
    axis.set_major_locator(LogLocator(10.0, subs=(1.0, 2.0, 5.0) if many else (1.0,)))
    axis.set_minor_locator(NullLocator())


def signed(axes: Axes, reach: float) -> None:
    """Let an axis of differences of times grow by ratio to both sides."""
    axes.set_xscale("symlog", linthresh=60.0, linscale=0.4)
    ticks = [tick for tick in (600, 6 * 3600, 10 * 86_400) if tick <= reach * 1.3]
    axes.xaxis.set_major_locator(FixedLocator([*(-tick for tick in reversed(ticks)), 0, *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(duration))
    axes.set_xlim(-reach * 1.3, reach * 1.3)


def short(label: str, most: int = 40) -> str:
    """Return a label that fits, without marks that matplotlib would take for formulas."""
    plain = "".join(mark if mark.isprintable() else "?" for mark in label).replace("$", r"\$")
    kept = plain if len(plain) <= most else f"{plain[: most // 2]}…{plain[-most // 2 + 1 :]}"
    # matplotlib leaves out what begins with an underscore.
    return f" {kept}" if kept.startswith("_") else kept


def told(metric: JobMetric) -> str:
    """Return the title of an axis; where ticks say `5 min`, without a unit."""
    return metric.title if metric.unit == "s" else metric.axis


def counts_by_ratio(axes: Axes) -> None:
    """Let the x axis of counts grow by ratio from 1 on, with a place for 0."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, -0.2), high)


def boxes(made: Figure, samples: Sequence[Sample], described: Sequence[Description]) -> Axes:
    """Draw a box for each run, one below the other, and name their marks.

    Args:
        made: An empty figure.
        samples: The runs.
        described: Of each of them what its box says.
    """
    made.set_size_inches(9, max(2.4, 1.4 + 0.55 * len(samples)))
    axes = made.add_subplot()
    shown: list[dict[str, Any]] = [
        {
            "med": found.median,
            "q1": found.q1,
            "q3": found.q3,
            "whislo": found.p5,
            "whishi": found.p95,
            "mean": found.mean,
            "fliers": [found.max],
            "label": short(sample.run.label),
        }
        for sample, found in zip(samples, described, strict=True)
        if found.count
    ]
    if not shown:
        axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center")
        return axes
    drawn = axes.bxp(
        shown,
        orientation="horizontal",
        showmeans=True,
        patch_artist=True,
        widths=0.6,
        medianprops={"color": BLACK, "linewidth": 1.8},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": BLACK},
        flierprops={"marker": "|", "markeredgecolor": GREY, "markersize": 9},
    )
    for number, box in enumerate(drawn["boxes"]):
        box.set(facecolor=pen(number).colour, alpha=0.45, hatch=pen(number).hatch)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    marks = {"median": drawn["medians"], "mean": drawn["means"], "most": drawn["fliers"]}
    made.legend(
        [lines[0] for lines in marks.values() if lines],
        [name for name, lines in marks.items() if lines],
        loc="outside lower right",
        ncols=3,
    )
    return axes
