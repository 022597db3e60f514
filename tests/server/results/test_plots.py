"""Plots: each says what it shows, nothing is cut off, and the bytes are the same again."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from parley_server import run
from parley_server.errors import UsageError
from parley_server.results import plot_gantt, run_directory
from parley_server.results.plot_axes import duration, part_width
from parley_server.results.plot_cost import queue_at_requests
from parley_server.results.plot_time import calendar_of, medians_by_time, node_use
from parley_server.results.plots import PLOTS, documentation, draw, draw_all
from parley_server.results.run_directory import open_run, open_runs
from parley_server.results.sample import Sample, Window
from parley_server.results.style import pen, save
from tests.support import PROJECT, rows, write_swf

NAMES = [plot.name for plot in PLOTS]

# Each takes a second to draw: one of each make in the newcomer's suite, all of them in CI.
SOME = {"gantt", "wait-box"}
EVERY = [name if name in SOME else pytest.param(name, marks=pytest.mark.long) for name in NAMES]


@pytest.fixture(scope="module")
def samples(runs):
    return [Sample(found) for found in open_runs(runs)]


@pytest.fixture(scope="module")
def crowd(runs):
    """Return many runs with long and strange names."""
    labels = [
        f"policy $number_{number} of a long name, with 100 % of {number}" for number in range(9)
    ]
    return [Sample(open_run(runs[number % 3], label=label)) for number, label in enumerate(labels)]


def outside(made):
    """Return the texts that are not wholly on the page."""
    made.draw_without_rendering()
    page = made.bbox
    texts = [*made.texts, *(text for legend in made.legends for text in legend.get_texts())]
    for axes in made.axes:
        texts += [axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title, *axes.texts]
        if axes.get_visible():
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                texts += [
                    tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high
                ]
    found = []
    for text in texts:
        if not (text.get_visible() and text.get_text()):
            continue
        box = text.get_window_extent()
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1:
            found.append(text.get_text())
    return found


def labels_of(axes):
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [tick.get_text() for tick in ticks if tick.get_text()]


def has_units(made):
    """Whether every axis of numbers says what they are: in its label, or on its ticks."""
    for axes in made.axes:
        for axis in (axes.xaxis, axes.yaxis):
            ticks = [tick.get_text() for tick in axis.get_ticklabels() if tick.get_text()]
            numbers = any(text.replace(",", "").replace(".", "").isdigit() for text in ticks)
            shared = axes.get_shared_x_axes().get_siblings(axes)
            labels = [each.get_xlabel() for each in shared] if axis is axes.xaxis else []
            if numbers and not (axis.get_label().get_text() or any(labels)):
                return False
    return True


# ---------------------------------------------------------------------- laws


@pytest.mark.parametrize("name", NAMES)
def test_a_plot_says_what_it_shows_and_nothing_is_cut_off(name, samples):
    made = draw(name, samples)

    assert made.axes
    assert outside(made) == []
    shown = [axes for axes in made.axes if axes.get_visible()]
    assert any(axes.get_title(loc="left") for axes in shown)
    assert any(axes.get_xlabel() for axes in shown) or name == "metrics"
    assert all(axes.has_data() for axes in shown)
    assert has_units(made)
    told = [text.get_text() for legend in made.legends for text in legend.get_texts()]
    for axes in made.axes:
        told += [*labels_of(axes), axes.get_title(loc="left"), axes.get_xlabel()]
    expected = ["trace"] if name == "submissions" else ["fifo", "easy", "sjf"]
    assert all(any(label in text for text in told) for label in expected)


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_cut_off_of_many_runs_with_long_names(name, crowd):
    assert outside(draw(name, crowd)) == []


@pytest.mark.parametrize("name", EVERY)
def test_a_run_without_an_ended_job_is_drawn(name, tmp_path_factory):
    directory = tmp_path_factory.mktemp("empty")
    trace = write_swf(directory / "trace.swf", [(0, 5, 9, 10), (3, 5, 9, 10)])
    run(swf=trace, nodes=2, out=directory / "out")

    assert outside(draw(name, [open_run(directory / "out")] * 2)) == []


@pytest.mark.parametrize("name", EVERY)
def test_the_same_runs_give_the_same_bytes(name, runs, tmp_path):
    digests = set()
    for attempt in ("one", "two"):
        found = open_runs(runs[:2])
        paths = draw_all(found, tmp_path / attempt, names=[name], formats=["png", "svg"])
        digests.add(tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths))

    assert len(digests) == 1


def test_a_plot_leaves_the_settings_of_matplotlib_alone(samples):
    from matplotlib import rcParams

    before = dict(rcParams)
    draw("wait-cdf", samples)

    assert dict(rcParams) == before


def test_runs_are_told_apart_without_colour(samples, tmp_path):
    pens = [pen(number) for number in range(14)]
    assert len({(str(each.line), each.marker) for each in pens[:7]}) == 7
    assert len({(each.colour, each.hatch) for each in pens}) == 14

    made = draw("metrics", samples)
    hatches = {patch.get_hatch() for patch in made.axes[0].patches}
    assert len(hatches) == 3


def test_the_colours_of_jobs_are_about_as_light_as_each_other():
    def lightness(colour):
        red, green, blue = to_rgb(colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light = [lightness(colour) for colour in plot_gantt._JOB_COLOURS]
    assert min(light) > 0.6
    assert max(light) < 0.87


# ---------------------------------------------------------------------- what is drawn


@given(
    bars=st.lists(
        st.tuples(st.floats(0, 6), st.floats(0, 6), st.floats(0, 30), st.floats(0, 30)),
        max_size=8,
    )
)
def test_a_cell_is_covered_by_what_lies_in_it(bars):
    columns = plot_gantt._COLUMNS
    table = np.array([(*sorted(bar[:2]), *sorted(bar[2:])) for bar in bars]).reshape(-1, 4)

    found = plot_gantt._coverage(*table.T, 6)
    assert found.shape == (6, columns)
    for row in range(6):
        for column in (0, 1, 7, 29, 30):
            plain = sum(
                max(0, min(high, row + 1) - max(low, row))
                * max(0, min(last, column + 1) - max(first, column))
                for low, high, first, last in table
            )
            assert found[row, column] == pytest.approx(plain, abs=1e-6)


def test_a_gantt_has_a_bar_for_each_run_of_nodes(runs):
    made = draw("gantt", [open_run(runs[0])])

    (bars,) = made.axes[0].collections
    pieces = sum(
        len(row["allocation"].split())
        for row in rows(runs[0] / "jobs.csv")
        if row["allocation"] and row["execution_time"] != "0"
    )
    assert len(bars.get_paths()) == pieces


def test_jobs_that_share_nodes_are_drawn_beside_each_other(shared_nodes):
    sample = Sample(open_run(shared_nodes))
    made = draw("gantt", [sample])

    (bars,) = made.axes[0].collections
    boxes = [path.get_extents() for path in bars.get_paths()]
    area = sum(box.width * box.height for box in boxes)
    low, high = made.axes[0].get_xlim()
    share = area / (3 * (high - low))
    assert share == pytest.approx(sample.run.summary["utilisation"], rel=1e-6)
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            along = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert across < 1e-9 or along < 1e-9


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("coloured", [True, False])
def test_a_gantt_of_many_jobs_shows_how_much_is_held(runs, monkeypatch, coloured, kept):
    if not kept:
        monkeypatch.setattr(run_directory, "MOST_SPANS", 3)
    monkeypatch.setattr(plot_gantt, "MOST_BARS", 1)
    if not coloured:
        monkeypatch.setattr(plot_gantt, "_COLUMNS", 3)
    sample = Sample(open_run(runs[0]))
    made = draw("gantt", [sample])

    (image,) = made.axes[0].images
    picture = np.asarray(image.get_array())
    if coloured:
        assert picture.shape == (8, plot_gantt._COLUMNS, 3)
        busy = (picture.min(axis=2) < 0.999).mean()
    else:
        busy = picture.mean()
    share = sample.used().mean(sample.begin, sample.end) / 8
    assert busy == pytest.approx(share, abs=0.04 if coloured else 1e-3)


def test_a_cell_of_shared_nodes_is_held_by_what_its_jobs_hold(shared_nodes, monkeypatch):
    monkeypatch.setattr(plot_gantt, "MOST_BARS", 1)
    monkeypatch.setattr(plot_gantt, "_COLUMNS", 3)
    sample = Sample(open_run(shared_nodes))

    (image,) = draw("gantt", [sample]).axes[0].images
    share = sample.run.summary["utilisation"]
    assert np.asarray(image.get_array()).mean() == pytest.approx(share, abs=1e-3)


def test_the_timeline_has_the_area_of_the_utilisation(samples):
    made = draw("timeline", samples[:1])

    (stairs,) = made.axes[0].patches
    heights, edges, _ = stairs.get_data()
    mean = (heights * np.diff(edges)).sum() / (edges[-1] - edges[0])
    assert mean == pytest.approx(samples[0].run.summary["utilisation"], rel=1e-9)
    assert heights.max() <= 1


@pytest.mark.parametrize("which", ["whole", "shared"])
def test_the_use_of_nodes_is_their_share_of_the_utilisation(runs, shared_nodes, which):
    sample = Sample(open_run(runs[0] if which == "whole" else shared_nodes))

    shares = node_use(sample)
    assert len(shares) == sample.run.machine.node_count
    assert shares.mean() == pytest.approx(sample.run.summary["utilisation"], rel=1e-9)
    assert shares.max() <= 1
    if which == "whole":
        held = sum(
            float(row["execution_time"])
            for row in rows(runs[0] / "jobs.csv")
            if row["allocated_resources"].split("-")[0].split(" ")[0] == "0"
        )
        assert shares[0] == pytest.approx(held / (sample.end - sample.begin))


def test_a_cdf_reaches_all_jobs(samples):
    made = draw("wait-cdf", samples)

    for line, sample in zip(made.axes[0].lines, samples, strict=True):
        shares = line.get_ydata()
        assert (np.diff(shares) >= 0).all()
        assert shares[-1] == 1
        values = line.get_xdata()
        middle = values[np.searchsorted(shares, 0.5)]
        assert middle == pytest.approx(float(np.median(sample.jobs.wait)), abs=1.0)


@given(
    points=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 9)), min_size=1, max_size=20),
    width=st.integers(1, 120),
)
def test_a_median_by_time_is_that_of_its_part(points, width):
    instants, values = (np.array(column, dtype=float) for column in zip(*points, strict=True))

    at, medians = medians_by_time(instants, values, float(width))
    parts = {}
    for instant, value in points:
        parts.setdefault(instant // width * width, []).append(value)
    assert dict(zip(at, medians, strict=True)) == {
        part: float(np.median(found)) for part, found in parts.items()
    }


def test_requests_meet_the_queue_of_their_instant(runs):
    found = open_run(runs[1])

    queue = {row["instant"]: int(row["queue_length"]) for row in rows(runs[1] / "decisions.csv")}
    asked = [queue[row["instant"]] for row in rows(runs[1] / "timing.csv")]
    assert queue_at_requests(found).tolist() == asked


def test_the_calendar_is_that_of_the_trace(tmp_path):
    path = write_swf(tmp_path / "t.swf", [(0, 5, 1), (3600, 5, 1), (86_400, 5, 1)])
    header = "; UnixStartTime: 1027839845\n; TimeZoneString: Europe/Stockholm\n"
    path.write_text(header + path.read_text().partition("\n")[2])
    run(swf=path, nodes=2, out=tmp_path / "out")

    hours, weekdays, months, stated = calendar_of(
        np.array([0.0, 3600.0, 86_400.0]), open_run(tmp_path / "out")
    )
    # 28 July 2002, 9:04 in Stockholm, a Sunday.
    assert stated
    assert hours.tolist() == [9, 10, 9]
    assert weekdays.tolist() == [6, 6, 0]
    assert months.tolist() == [7, 7, 7]


def test_a_trace_that_does_not_say_when_it_began_begins_on_a_monday(runs):
    hours, weekdays, _, stated = calendar_of(np.array([0.0, 90_000.0]), open_run(runs[0]))

    assert not stated
    assert hours.tolist() == [0, 1]
    assert weekdays.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0"), (30, "30 s"), (600, "10 min"), (5400, "1.5 h"), (864_000, "10 d"), (0.5, "0.5 s")],
)
def test_a_length_of_time_is_told_as_people_do(seconds, told):
    assert duration(seconds) == told


@given(span=st.floats(1, 1e10), most=st.integers(10, 500))
def test_parts_of_a_span_are_no_more_than_wanted(span, most):
    width = part_width(span, most)

    assert width % 60 == 0
    assert span / width <= most or width == 365 * 86_400


# ---------------------------------------------------------------------- choosing


def test_a_plot_of_ones_own_goes_by_its_path(samples, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "def sizes(figure, samples):\n"
        "    axes = figure.add_subplot()\n"
        "    for sample in samples:\n"
        "        axes.hist(sample.jobs.size)\n"
        "def broken(figure, samples):\n"
        "    figure.nothing()\n"
    )

    (path,) = draw_all(samples, tmp_path, names=[f"{own}:sizes"], formats=["png"])
    assert path.name == "sizes.png"
    assert imread(path).std() > 0
    with pytest.raises(UsageError, match=r"no attribute 'nothing' \(mine.py:6\)"):
        draw(f"{own}:broken", samples)


def test_a_plot_that_does_not_exist_is_refused(samples):
    with pytest.raises(UsageError, match="did you mean 'gantt'"):
        draw("gant", samples)
    with pytest.raises(UsageError, match="takes 2 runs at least, not 1"):
        draw("differences", samples[:1])


@pytest.mark.parametrize(
    "name", ["accuracy-histogram", "per-processor-bounded-slowdown-box", "turnaround-by-user"]
)
def test_every_metric_has_plots(samples, name):
    assert outside(draw(name, samples)) == []


@pytest.mark.parametrize("name", ["weight-box", "wait-by-weight", "-cdf", "wait-by-"])
def test_a_metric_that_does_not_exist_has_none(samples, name):
    with pytest.raises(UsageError, match="there is no plot"):
        draw(name, samples)


def test_the_plots_are_in_the_documentation():
    page = (PROJECT / "server" / "RESULTS.md").read_text()

    _, _, rest = page.partition("<!-- generated: plots -->\n\n")
    generated, _, _ = rest.partition("\n\n<!-- end -->")
    assert generated == "\n".join(documentation())


def test_a_window_cuts_what_is_drawn(runs):
    whole = Sample(open_run(runs[0]))
    made = draw("timeline", [open_run(runs[0])], window=Window("20%", "drain"))

    _, edges, _ = made.axes[0].patches[0].get_data()
    span = whole.end - whole.begin
    unit = 3600 if "hours" in made.axes[-1].get_xlabel() else 60
    assert edges[0] * unit == pytest.approx(whole.begin + 0.2 * span)
    assert edges[-1] * unit == pytest.approx(float(whole.run.jobs.submit.max()))


def test_a_plot_that_cannot_be_written_is_told(samples, tmp_path):
    from parley_server.errors import OutputError

    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        save(draw("wait-box", samples), tmp_path / "file" / "a.png")


def test_large_machines_are_drawn(tmp_path):
    draw_of = random.Random(3)
    lines = [(n, draw_of.randint(1, 500), draw_of.randint(1, 4000), 900) for n in range(300)]
    run(swf=write_swf(tmp_path / "t.swf", lines), nodes=5000, out=tmp_path / "out")
    made = draw("gantt", [open_run(tmp_path / "out")])

    assert made.axes[0].get_ylim() == (5000, 0)
    assert outside(made) == []
