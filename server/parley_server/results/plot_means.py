"""Means over repetitions and seeds, as bars with their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch

from parley_server.results.plot_axes import short
from parley_server.results.style import BLACK, drawing, figure, pen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

_COLUMNS = 3
_WIDTH = 0.84


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric.

    Attributes:
        title: What it is called, with its unit.
        means: Shape (places, dispatchers); NaN where there is none.
        deviations: Likewise; NaN where one value alone is the mean.
    """

    title: str
    means: Reals
    deviations: Reals


def draw_means(
    panels: Sequence[Panel], *, places: Sequence[str], dispatchers: Sequence[str]
) -> Figure:
    """Return a figure with a panel for each metric, and in it a bar for each dispatcher.

    Args:
        panels: The metrics.
        places: Workloads and machines: bars stand in a group for each.
        dispatchers: What the bars of a group are, from left to right.
    """
    rows = -(-len(panels) // _COLUMNS)
    with drawing():
        made = figure(width=11, height=1.2 + 2.9 * rows)
        for number, panel in enumerate(panels):
            axes = made.add_subplot(rows, _COLUMNS, number + 1)
            _draw_panel(axes, panel, places)
        handles = []
        for number, name in enumerate(dispatchers):
            style = pen(number)
            handles.append(
                Patch(
                    facecolor=style.colour,
                    alpha=0.6,
                    hatch=style.hatch,
                    edgecolor=BLACK,
                    label=short(name, 28),
                )
            )
        made.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    return made


def _draw_panel(axes: Axes, panel: Panel, places: Sequence[str]) -> None:
    count = panel.means.shape[1]
    width = _WIDTH / count
    positions = np.arange(len(places))
    for number in range(count):
        style = pen(number)
        offset = (number - (count - 1) / 2) * width
        means, deviations = panel.means[:, number], panel.deviations[:, number]
        axes.bar(
            positions + offset,
            np.nan_to_num(means),
            width * 0.92,
            facecolor=style.colour,
            alpha=0.6,
            hatch=style.hatch,
            edgecolor=BLACK,
            linewidth=0.6,
        )
        known = np.isfinite(means) & np.isfinite(deviations)
        axes.errorbar(
            (positions + offset)[known],
            means[known],
            yerr=deviations[known],
            fmt="none",
            ecolor=BLACK,
            elinewidth=0.9,
            capsize=2.5,
        )
    axes.set_ylim(bottom=min(0.0, float(np.nanmin(panel.means, initial=0.0))))
    axes.margins(y=0.12)
    axes.grid(visible=False, axis="x")
    if len(places) > 1:
        axes.set_xticks(positions, [short(place, 18) for place in places], fontsize=8)
    else:
        axes.set_xticks([])
        axes.set_xlabel(short(places[0], 40), fontsize=8)
    axes.set_title(panel.title, fontsize=9)
