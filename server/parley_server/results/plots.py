"""The plots by name, and how one is drawn.

    figure = draw("wait-cdf", open_runs([Path("fifo"), Path("easy")]))
    save(figure, Path("wait-cdf.png"))

Every plot takes any number of runs and puts them beside one another. One of a user's own goes by
the path of its function, which gets a matplotlib `Figure` and the `Sample` of each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley_server.errors import UsageError, did_you_mean
from parley_server.own_code import load_function, raised_by, split_reference
from parley_server.results.classes import KINDS
from parley_server.results.metrics import JOB_METRICS
from parley_server.results.plot_cost import (
    draw_decision_cost,
    draw_decision_times,
    draw_queue_sizes,
)
from parley_server.results.plot_gantt import draw_gantt
from parley_server.results.plot_jobs import (
    draw_bars,
    draw_boxes,
    draw_by_class,
    draw_cdf,
    draw_differences,
    draw_histogram,
)
from parley_server.results.plot_time import (
    draw_median_wait,
    draw_node_use,
    draw_submissions,
    draw_timeline,
)
from parley_server.results.sample import Sample, Window
from parley_server.results.style import drawing, figure, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from parley_server.results.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot.

    Attributes:
        name: As it is called on the command line and in file names.
        shows: What is seen, in a sentence.
        kind: `decision`, how good the schedule is; `performance`, what it cost to compute;
            `workload`, what was submitted.
        draw: Draws samples into a figure.
        least: How many runs it needs.
    """

    name: str
    shows: str
    kind: str
    draw: Callable[[Figure, Sequence[Sample]], None]
    least: int = 1


def _of(function: Callable[..., None], metric: str) -> Callable[[Figure, Sequence[Sample]], None]:
    return lambda made, samples: function(made, samples, metric)


def _by(metric: str, kind: str) -> Callable[[Figure, Sequence[Sample]], None]:
    return lambda made, samples: draw_by_class(made, samples, metric, kind)


PLOTS: tuple[Plot, ...] = (
    Plot(
        "gantt",
        "which job holds which nodes when; where machine or time are too large for single jobs, "
        "how much of each cell is held",
        "decision",
        draw_gantt,
    ),
    Plot(
        "timeline",
        "utilisation of each resource, waiting and running jobs over time",
        "decision",
        draw_timeline,
    ),
    Plot(
        "median-wait",
        "median wait of the jobs submitted in each minute, or in as many minutes as a long run "
        "needs",
        "decision",
        draw_median_wait,
    ),
    Plot(
        "node-use",
        "which share of the time each node, or run of nodes, is held",
        "decision",
        draw_node_use,
    ),
    Plot("wait-box", "how waits are spread, by run", "decision", _of(draw_boxes, "wait")),
    Plot(
        "slowdown-box", "how slowdowns are spread, by run", "decision", _of(draw_boxes, "slowdown")
    ),
    Plot(
        "bounded-slowdown-box",
        "how bounded slowdowns are spread, by run",
        "decision",
        _of(draw_boxes, "bounded_slowdown"),
    ),
    Plot("wait-cdf", "share of jobs that waited no longer", "decision", _of(draw_cdf, "wait")),
    Plot(
        "slowdown-cdf",
        "share of jobs with no greater slowdown",
        "decision",
        _of(draw_cdf, "slowdown"),
    ),
    Plot(
        "turnaround-cdf",
        "share of jobs with no longer turnaround",
        "decision",
        _of(draw_cdf, "turnaround"),
    ),
    Plot(
        "wait-histogram", "how many jobs waited how long", "decision", _of(draw_histogram, "wait")
    ),
    Plot(
        "wait-by-size",
        "median wait and middle half of the jobs, by number of processors",
        "decision",
        _by("wait", "size"),
    ),
    Plot(
        "slowdown-by-work",
        "median slowdown and middle half of the jobs, by core hours",
        "decision",
        _by("slowdown", "work"),
    ),
    Plot("metrics", "the metrics of the runs as bars", "decision", draw_bars),
    Plot(
        "differences",
        "how much longer each job waits than in the first run",
        "decision",
        draw_differences,
        least=2,
    ),
    Plot(
        "queue-sizes",
        "how many jobs wait when the dispatcher is asked",
        "decision",
        draw_queue_sizes,
    ),
    Plot(
        "decision-time",
        "the dispatcher's time for a decision against the queue it finds",
        "performance",
        draw_decision_times,
    ),
    Plot(
        "decision-cost",
        "mean time of a decision point, split into dispatcher, server and wire",
        "performance",
        draw_decision_cost,
    ),
    Plot(
        "submissions",
        "jobs submitted by hour of the day, day of the week and month",
        "workload",
        draw_submissions,
    ),
)


def plot_named(name: str) -> Plot:
    """Return the plot that a name, or the path of a user's own function, stands for.

    Raises:
        UsageError: There is none.
    """
    for plot in PLOTS:
        if plot.name == name:
            return plot
    if split_reference(name) is not None:
        return _own(name)
    composed = _composed(name)
    if composed is not None:
        return composed
    known = [plot.name for plot in PLOTS]
    raise UsageError(
        f"there is no plot {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}; "
        "METRIC-box, METRIC-cdf, METRIC-histogram and METRIC-by-CLASS; or path/to/file.py:function"
    )


_OF_METRICS = {"-box": draw_boxes, "-cdf": draw_cdf, "-histogram": draw_histogram}


def _composed(name: str) -> Plot | None:
    """Return the plot of any metric of jobs that a name is made of, such as `accuracy-cdf`."""
    metrics = {metric.name.replace("_", "-"): metric for metric in JOB_METRICS}
    for ending, function in _OF_METRICS.items():
        metric = metrics.get(name.removesuffix(ending)) if name.endswith(ending) else None
        if metric is not None:
            return Plot(name, metric.definition, "decision", _of(function, metric.name))
    what, by, kind = name.partition("-by-")
    if by and what in metrics and kind in KINDS:
        shows = f"{metrics[what].title.lower()} by {KINDS[kind]}"
        return Plot(name, shows, "decision", _by(metrics[what].name, kind))
    return None


def documentation() -> Iterator[str]:
    """Yield the lines of the table, in Markdown, that tells what each plot shows."""
    yield "| plot | kind | shows |"
    yield "|---|---|---|"
    for plot in PLOTS:
        least = f" ({plot.least} runs or more)" if plot.least > 1 else ""
        yield f"| `{plot.name}` | {plot.kind} | {plot.shows}{least} |"


def _own(reference: str) -> Plot:
    function = load_function(reference, kind="plot")

    def draw_own(made: Figure, samples: Sequence[Sample]) -> None:
        try:
            function(made, samples)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            raise UsageError(f"{reference}: {raised_by(error)}") from None

    return Plot(reference.rpartition(":")[2].replace("_", "-"), reference, "own", draw_own)


def draw(
    name: str, runs: Sequence[RunDirectory | Sample], *, window: Window | None = None
) -> Figure:
    """Return a figure of some runs.

    Args:
        name: One of `PLOTS`, or `path/to/file.py:function`.
        runs: At least one; samples are taken as they are.
        window: What to cut off of runs.

    Raises:
        InputError: The files of a run cannot be read.
        UsageError: There is no such plot, or it needs more runs.
    """
    plot = plot_named(name)
    if len(runs) < plot.least:
        raise UsageError(f"plot {name!r} takes {plot.least} runs at least, not {len(runs)}")
    samples = [run if isinstance(run, Sample) else Sample(run, window) for run in runs]
    with drawing():
        made = figure()
        plot.draw(made, samples)
    return made


def draw_all(
    runs: Sequence[RunDirectory | Sample],
    directory: Path,
    *,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    window: Window | None = None,
) -> list[Path]:
    """Draw plots into files, and return which.

    Args:
        runs: At least one.
        directory: Where they go; `NAME.png` and so on.
        names: Which; None is all that the number of runs permits.
        kind: Of these only `decision`, `performance` or `workload` ones.
        formats: `png`, `svg`, `pdf`.
        window: What to cut off of runs.

    Raises:
        InputError: The files of a run cannot be read.
        OutputError: A plot cannot be written.
        UsageError: There is no such plot, or it needs more runs.
    """
    # Each file is read once for all plots.
    samples = [run if isinstance(run, Sample) else Sample(run, window) for run in runs]
    if names is None:
        names = [plot.name for plot in PLOTS if len(runs) >= plot.least]
    kinds = {plot.kind for plot in PLOTS}
    if kind is not None and kind not in kinds:
        raise UsageError(
            f"there is no kind of plots {kind!r}{did_you_mean(kind, kinds)}; known: "
            f"{', '.join(sorted(kinds))}"
        )
    if kind is not None:
        names = [name for name in names if plot_named(name).kind == kind]
    written = []
    for name in names:
        made = draw(name, samples)
        for ending in formats:
            path = directory / f"{plot_named(name).name}.{ending}"
            save(made, path)
            written.append(path)
    return written
