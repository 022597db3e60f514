"""The bars of an experiment stand for its numbers, and nothing of them is cut off."""

from __future__ import annotations

import numpy as np
import pytest

from parley_server.results.plot_means import Panel, draw_means
from parley_server.results.style import save


def panel(title, places, dispatchers):
    means = np.arange(1.0, places * dispatchers + 1).reshape(places, dispatchers)
    return Panel(title, means, means / 4)


@pytest.mark.parametrize(("places", "dispatchers"), [(1, 1), (1, 8), (3, 2), (4, 9)])
def test_every_mean_is_a_bar_and_every_deviation_a_whisker_within_the_axes(places, dispatchers):
    panels = [panel(f"Wait, mean {number} (s)", places, dispatchers) for number in range(5)]
    names = [f"dispatcher-{number}" for number in range(dispatchers)]

    made = draw_means(panels, places=[f"w{n} on p" for n in range(places)], dispatchers=names)
    made.draw_without_rendering()

    assert [axes.get_title(loc="left") for axes in made.axes] == [one.title for one in panels]
    for axes, shown in zip(made.axes, panels, strict=True):
        heights = [bar.get_height() for container in axes.containers[::2] for bar in container]
        assert sorted(heights) == pytest.approx(sorted(shown.means.ravel()))
        low, high = axes.get_ylim()
        assert low == 0
        assert high >= (shown.means + shown.deviations).max()
    legend = made.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == names
    inside = made.bbox
    for artist in (legend, *made.axes):
        box = artist.get_tightbbox()
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= inside.x1 + 1
        assert box.y1 <= inside.y1 + 1


def test_what_is_not_known_is_no_bar_and_no_error(tmp_path):
    nothing = np.full((2, 2), np.nan)
    known = np.array([[1.0, np.nan], [2.0, 3.0]])

    made = draw_means(
        [Panel("None", nothing, nothing), Panel("Some", known, nothing)],
        places=["a", "b"],
        dispatchers=["x", "y"],
    )
    save(made, tmp_path / "m.png")
    save(made, tmp_path / "again.png")

    assert (tmp_path / "m.png").read_bytes() == (tmp_path / "again.png").read_bytes()
