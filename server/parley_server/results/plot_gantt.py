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
    low: NDArray[Any]
    high: NDArray[Any]
    begin: Reals
    end: Reals
    chunks: Places

    def __len__(self) -> int:
        return len(self.job)


def _bars(sample: Sample) -> Iterator[_Bars]:
    """Yield the bars within the window in parts: machines of many nodes have tens of millions."""
    for begins, ends, spans in sample.run.held_blocks():
        seen = (begins < sample.end) & (ends > sample.begin) & (ends > begins)
        yield _Bars(
            spans.row[seen],
            spans.first[seen],
            spans.last[seen] + 1,
            begins[seen],
            ends[seen],
            spans.chunks[seen],
        )


class _Outlook:
    """What is to be known of bars before they are drawn.

    Attributes:
        count: How many there are.
        first: All of them, if they are few.
        typical: How long a node is typically held, seconds: about the median over node time.
    """

    def __init__(self, sample: Sample) -> None:
        self.count, sharing = 0, _sharing(sample)
        kept: list[_Bars] = []
        edges = np.geomspace(1e-6, 1e12, 2000)
        areas = np.zeros(len(edges) - 1)
        for bars in _bars(sample):
            self.count += len(bars) if sharing is None else int((bars.high - bars.low).sum())
            if self.count <= MOST_BARS:
                kept.append(bars)
            lengths = bars.end - bars.begin
            areas += np.histogram(lengths, edges, weights=lengths * (bars.high - bars.low))[0]
        reached = np.cumsum(areas)
        self.typical = float(edges[np.searchsorted(reached, reached[-1] / 2)])
        self.first = kept if self.count <= MOST_BARS else []


@dataclass(frozen=True, slots=True)
class _Sharing:
    """How jobs share nodes: what a chunk holds of the leading resource of each node.

    Attributes:
        cores: How much each node has of it, shape (nodes,).
        each: Which share of each node a chunk is, shape (nodes,).
    """

    cores: Whole
    each: Reals


def _sharing(sample: Sample) -> _Sharing | None:
    """Return how jobs share nodes; None if a node is held by one job only."""
    run = sample.run
    settings = run.scenario.get("workload", {})
    if settings.get("request", "nodes") == "nodes":
        return None
    cores = run.machine.per_node[run.leading_resource]
    chunk = float(settings.get("per_processor", {}).get(run.leading_resource, 1))
    return _Sharing(cores, chunk / np.maximum(cores, 1))


def _lanes(parts: Sequence[_Bars], sharing: _Sharing) -> Iterator[_Bars]:
    """Give each job on a shared node the lowest of its cores that are free, for the eye.

    Which cores a job has is nobody's decision; a bar is a run of them, as a part of its node.
    """
    free = [np.zeros(max(int(count), 1)) for count in sharing.cores]
    rows: list[tuple[int, float, float, float, float]] = []
    bars = [
        bar
        for part in parts
        for bar in zip(
            *(column.tolist() for column in (part.begin, part.job, part.low, part.high)),
            *(column.tolist() for column in (part.end, part.chunks)),
            strict=True,
        )
    ]
    for start, number, low, high, stop, chunks in sorted(bars):
        for node in range(low, high):
            count = len(free[node])
            wanted = max(1, round(chunks * sharing.each[node] * count))
            taken = np.flatnonzero(free[node] <= start)[:wanted]
            free[node][taken] = stop
            for run in np.split(taken, np.flatnonzero(np.diff(taken) > 1) + 1):
                if len(run):
                    first, last = node + run[0] / count, node + (run[-1] + 1) / count
                    rows.append((number, float(first), float(last), start, stop))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    job, top, bottom, begin, end = columns
    yield _Bars(job.astype(np.int64), top, bottom, begin, end, np.ones(len(rows), np.int64))


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
            sharing = _sharing(sample)
            for bars in outlook.first if sharing is None else _lanes(outlook.first, sharing):
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
        if any(_sharing(sample) is not None for sample in shown):
            told += "; which core of its node a job is drawn on means nothing"
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
    sharing = _sharing(sample)
    for bars in _bars(sample):
        low = (bars.low * (rows / nodes)).astype(np.float64)
        high = (bars.high * (rows / nodes)).astype(np.float64)
        first = np.clip((bars.begin - begin) * scale, 0, _COLUMNS)
        last = np.clip((bars.end - begin) * scale, 0, _COLUMNS)
        # Runs of nodes hardly ever go over from one kind of nodes to another.
        weights = None if sharing is None else bars.chunks * sharing.each[bars.low]
        held += _coverage(low, high, first, last, rows, weights)
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


def _coverage(
    low: Reals,
    high: Reals,
    first: Reals,
    last: Reals,
    rows: int,
    weights: Reals | None = None,
) -> Reals:
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
        weights: Which part of what it covers each rectangle holds, likewise; None is all.
    """
    table = np.zeros((rows + 2) * (_COLUMNS + 2))
    for row, row_weight in _changes(low, high):
        for column, column_weight in _changes(first, last):
            table += np.bincount(
                row * (_COLUMNS + 2) + column,
                row_weight * column_weight * (1.0 if weights is None else weights),
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
