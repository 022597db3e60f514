"""Which job holds which nodes when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgb, to_rgba_array
from matplotlib.ticker import MaxNLocator, PercentFormatter

from parley_server.results.plot_axes import short, time_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from parley_server.results.sample import Sample

    Reals = NDArray[np.float64]
    Whole = NDArray[np.int64]
    Places = NDArray[np.integer[Any]]

MOST_BARS = 4000
"""Runs of nodes that are drawn one by one; with more, cells are."""

_ROWS, _COLUMNS = 300, 900
_MOST_RUNS = 6

# Light enough for a border to be seen, apart in hue, and near in luminance: no job looks more
# important than another.
_JOB_COLOURS = (
    *("#7fb3d9", "#f0b27a", "#7dceb0", "#dfa6c4", "#e8d174", "#a9d6ef", "#b9b4dd", "#c9c9c9"),
    *("#e79b8d", "#b7d37a"),
)


@dataclass(frozen=True, slots=True)
class _Bars:
    """Nodes held by jobs: one bar for each run of nodes of an attempt, all of shape (bars,)."""

    job: Places
    low: Places
    high: Places
    begin: Reals
    end: Reals

    def __len__(self) -> int:
        return len(self.job)


def _bars(sample: Sample) -> Iterator[_Bars]:
    """Yield the bars within the window in parts: machines of many nodes have tens of millions."""
    for begins, ends, spans in sample.run.held_blocks():
        seen = (begins < sample.end) & (ends > sample.begin) & (ends > begins)
        yield _Bars(
            spans.row[seen], spans.first[seen], spans.last[seen] + 1, begins[seen], ends[seen]
        )


class _Outlook:
    """What is to be known of bars before they are drawn.

    Attributes:
        count: How many there are.
        first: All of them, if they are few.
        typical: How long a node is typically held, seconds: about the median over node time.
    """

    def __init__(self, sample: Sample) -> None:
        self.count = 0
        kept: list[_Bars] = []
        edges = np.geomspace(1e-6, 1e12, 2000)
        areas = np.zeros(len(edges) - 1)
        for bars in _bars(sample):
            self.count += len(bars)
            if self.count <= MOST_BARS:
                kept.append(bars)
            lengths = bars.end - bars.begin
            areas += np.histogram(lengths, edges, weights=lengths * (bars.high - bars.low))[0]
        reached = np.cumsum(areas)
        self.typical = float(edges[np.searchsorted(reached, reached[-1] / 2)])
        self.first = kept if self.count <= MOST_BARS else []


def draw_gantt(made: Figure, samples: Sequence[Sample]) -> None:
    """Draw nodes over time, a panel for each run; of more than six, the first six."""
    shown = samples[:_MOST_RUNS]
    made.set_size_inches(10, 1.2 + 3.4 * len(shown))
    panels = made.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    begins = [sample.begin for sample in shown if np.isfinite(sample.begin)]
    ends = [sample.end for sample in shown if np.isfinite(sample.end)]
    begin, end = min(begins, default=0.0), max(ends, default=1.0)
    end = max(end, begin + 1)
    unit, named = time_unit(end - begin)
    # One way of drawing for all, so that they can be compared.
    every = [_Outlook(sample) for sample in shown]
    single = all(outlook.count <= MOST_BARS for outlook in every)
    coloured = all(
        not outlook.count or outlook.typical > 3 * (end - begin) / _COLUMNS for outlook in every
    )
    for axes, sample, outlook in zip(panels, shown, every, strict=True):
        nodes = sample.run.machine.node_count
        if single:
            for bars in outlook.first:
                _draw_bars(axes, bars, unit)
        else:
            _draw_cells(axes, sample, (begin, end), unit, coloured=coloured)
        axes.set_xlim(begin / unit, end / unit)
        axes.set_ylim(nodes, 0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        axes.grid(visible=single, axis="x")
        axes.set_ylabel("Node")
        axes.set_title(short(sample.run.label, 70))
    panels[-1].set_xlabel(f"Simulated time ({named})")
    if not single and not coloured:
        bar = made.colorbar(panels[0].images[0], ax=list(panels), aspect=40, pad=0.01)
        bar.set_label("Share of the cell that is held")
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    height = max(sample.run.machine.node_count for sample in shown) / _ROWS
    told = "A row is one node" if height <= 1 else f"A row is {height:.3g} nodes"
    if single:
        told = "A colour is a job; colours repeat"
    elif coloured:
        told += "; a cell has the colour of the job in its middle, paler where less of it is held"
    more = f"; {len(samples) - len(shown)} more runs are not shown" if samples[_MOST_RUNS:] else ""
    made.supxlabel(f"{told}{more}", fontsize=8)


def _draw_bars(axes: Axes, bars: _Bars, unit: float) -> None:
    corners = np.stack(
        (
            np.stack((bars.begin / unit, bars.low), axis=1),
            np.stack((bars.begin / unit, bars.high), axis=1),
            np.stack((bars.end / unit, bars.high), axis=1),
            np.stack((bars.end / unit, bars.low), axis=1),
        ),
        axis=1,
    )
    colours = to_rgba_array(_JOB_COLOURS)[bars.job % len(_JOB_COLOURS)]
    axes.add_collection(
        PolyCollection(
            list(corners),
            facecolors=colours,
            edgecolors="#404040",
            linewidths=0.4 if len(bars) < 800 else 0.15,
        )
    )


def _draw_cells(
    axes: Axes, sample: Sample, window: tuple[float, float], unit: float, *, coloured: bool
) -> None:
    begin, end = window
    nodes = sample.run.machine.node_count
    rows = min(nodes, _ROWS)
    held = np.zeros((rows, _COLUMNS))
    palette = np.array([to_rgb(colour) for colour in _JOB_COLOURS])
    picture = np.ones((rows, _COLUMNS, 3))
    scale = _COLUMNS / (end - begin)
    for bars in _bars(sample):
        low = (bars.low * (rows / nodes)).astype(np.float64)
        high = (bars.high * (rows / nodes)).astype(np.float64)
        first = np.clip((bars.begin - begin) * scale, 0, _COLUMNS)
        last = np.clip((bars.end - begin) * scale, 0, _COLUMNS)
        held += _coverage(low, high, first, last, rows)
        if coloured:
            _paint(picture, palette[bars.job % len(palette)], (low, high, first, last))
    held = np.clip(held, 0, 1)
    extent = (begin / unit, end / unit, nodes, 0)
    if not coloured:
        shades = LinearSegmentedColormap.from_list("held", ["white", "#0072B2", "#00263d"])
        axes.imshow(
            held, aspect="auto", extent=extent, cmap=shades, vmin=0, vmax=1, interpolation="nearest"
        )
        return
    empty = picture.min(axis=2) == 1
    picture[empty & (held > 0)] = palette[7]
    pale = held[:, :, None]
    axes.imshow(1 - pale + pale * picture, aspect="auto", extent=extent, interpolation="nearest")


def _paint(picture: Reals, colours: Reals, edges: tuple[Reals, Reals, Reals, Reals]) -> None:
    """Give cells the colour of the bar that holds their middle: no more bars than cells do."""
    top, bottom, left, right = (np.ceil(edge - 0.5).astype(np.int64) for edge in edges)
    for bar in np.flatnonzero((bottom > top) & (right > left)):
        picture[top[bar] : bottom[bar], left[bar] : right[bar]] = colours[bar]


def _coverage(low: Reals, high: Reals, first: Reals, last: Reals, rows: int) -> Reals:
    """Return which share of each cell rectangles cover, shape (rows, columns).

    A rectangle covers a cell by the product of how much it covers of its row and of its column.
    Each of these, taken along an axis, changes at most at four places, so that sixteen entries in a
    table of differences say all of a rectangle, however large it is.

    Args:
        low: Upper edge in rows, shape (rectangles,).
        high: Lower edge in rows, likewise.
        first: Left edge in columns, likewise.
        last: Right edge in columns, likewise.
        rows: How many there are.
    """
    table = np.zeros((rows + 2) * (_COLUMNS + 2))
    for row, row_weight in _changes(low, high):
        for column, column_weight in _changes(first, last):
            table += np.bincount(
                row * (_COLUMNS + 2) + column,
                row_weight * column_weight,
                minlength=len(table),
            )
    summed = table.reshape(rows + 2, _COLUMNS + 2).cumsum(axis=0).cumsum(axis=1)
    covered: Reals = summed[:rows, :_COLUMNS]
    return covered


def _changes(begin: Reals, end: Reals) -> list[tuple[Whole, Reals]]:
    """Return where, and by how much, the cover of cells changes along an axis."""
    first, last = np.floor(begin), np.floor(end)
    return [
        (first.astype(np.int64), 1 - (begin - first)),
        (first.astype(np.int64) + 1, begin - first),
        (last.astype(np.int64), -(1 - (end - last))),
        (last.astype(np.int64) + 1, -(end - last)),
    ]
