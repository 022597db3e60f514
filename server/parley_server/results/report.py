"""One page about one run or several that needs nothing but a browser."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import jinja2

from parley_server.results.classes import KINDS
from parley_server.results.comparison import CONFIDENCE, compare, incomparable
from parley_server.results.measures import (
    class_measures,
    job_measures,
    number_text,
    run_measures,
)
from parley_server.results.metrics import JOB_METRICS, RUN_METRICS, job_metric
from parley_server.results.plots import PLOTS, draw, plot_named
from parley_server.results.replacing import replacing
from parley_server.results.sample import WHOLE, Sample
from parley_server.results.style import write_figure
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from parley_server.results.comparison import Comparison, MetricComparison
    from parley_server.results.measures import Description
    from parley_server.results.metrics import JobMetric, RunMetric
    from parley_server.results.run_directory import RunDirectory
    from parley_server.results.sample import Window

_STATISTICS = ("mean", "median", "p95", "max")
_CLASS_KINDS = ("size", "work", "runtime", "user", "queue", "state")
_MOST_USERS = 15
_COMPARED_BY = "wait"


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    best: bool = False


def report(
    runs: Sequence[RunDirectory],
    *,
    window: Window = WHOLE,
    plots: Sequence[str] | None = None,
    metrics: Sequence[str] = (),
    title: str | None = None,
    seed: int = 0,
) -> str:
    """Return a page about some runs, as HTML; the same runs give the same page.

    Args:
        runs: At least one; others are compared with the first.
        window: What to cut off.
        plots: Which to show; None is all that the number of runs permits.
        metrics: Of a user's own besides the registry, `path/to/file.py:function`.
        title: What stands above it; else what was simulated.
        seed: Of the bootstrap.

    Raises:
        InputError: The files of a run cannot be read.
        UsageError: A plot or a metric is unknown, or nothing is left of a run.
    """
    samples = [Sample(run, window) for run in runs]
    names = plots
    if names is None:
        names = [plot.name for plot in PLOTS if len(runs) >= plot.least]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("parley_server.results"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jobs = [*JOB_METRICS, *(job_metric(name) for name in metrics)]
    return environment.get_template("report.html").render(
        title=title or " and ".join(dict.fromkeys(_name(run) for run in runs)),
        version=__version__,
        window=window,
        runs=[run.label for run in runs],
        warnings=list(_warnings(runs)),
        facts=list(_rows([_facts(run) for run in runs])),
        rules=list(_rows([_rules(run) for run in runs])),
        run_rows=_run_rows(samples),
        job_rows=list(_job_rows(samples, jobs, metrics)),
        comparisons=[_comparison(compare(samples[0], other, seed=seed)) for other in samples[1:]],
        confidence=f"{CONFIDENCE:.0%}",
        seed=seed,
        classes=list(_class_tables(samples)),
        plots=[_picture(name, samples) for name in names],
        definitions=_definitions(jobs),
    )


def write_report(text: str, path: Path) -> None:
    """Write a page, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------------- what was run


def _name(run: RunDirectory) -> str:
    return str(run.summary.get("scenario", {}).get("name") or run.label)


def _warnings(runs: Sequence[RunDirectory]) -> Iterator[str]:
    for run in runs:
        if run.partial:
            yield f"{run.label} was read in part only: figures are of what there is so far."
        end = run.summary.get("end", {})
        if not run.complete and end:
            message = f": {end['message']}" if end.get("message") else ""
            yield f"{run.label} broke off ({end.get('reason')}){message}"
        stated = run.summary.get("utilisation_by_resource", {})
        missing = sorted(stated.keys() - run.jobs.amounts.keys())
        if missing:
            yield (
                f"{run.label}: how much {', '.join(missing)} each job held is not in its rows; "
                "there is the mean of the whole run only"
            )
        yield from _doubts(run)
    for run in runs[1:]:
        for doubt in incomparable(runs[0], run):
            if "is not complete" not in doubt:
                yield f"{runs[0].label} and {run.label}: {doubt}"


def _doubts(run: RunDirectory) -> Iterator[str]:
    """Tell where rows and summary do not say the same of what was held."""
    kind = run.leading_resource
    stated = run.summary.get("utilisation_by_resource", {}).get(kind)
    if stated is None or kind not in run.jobs.amounts or run.partial or not run.complete:
        return
    sample = Sample(run)
    found = sample.used(kind).mean(sample.begin, sample.end) / run.machine.capacity[kind]
    if not math.isclose(found, stated, rel_tol=1e-6, abs_tol=1e-9):
        yield (
            f"{run.label}: its jobs held other amounts of {kind} than the rules of the run tell "
            f"(utilisation {stated:.4f}, by the rows {found:.4f}); figures by {kind} are rough"
        )


def _facts(run: RunDirectory) -> dict[str, str]:
    """Return what was run, by name."""
    summary = run.summary
    dispatcher, lines = summary.get("dispatcher", {}), summary.get("lines", {})
    trace, platform = lines.get("trace", {}), summary.get("platform", {})
    inputs = summary.get("inputs", [])
    jobs = {name: count for name, count in summary.get("jobs", {}).items() if count}
    command = dispatcher.get("command")
    parameters = dispatcher.get("parameters") or {}
    versions = " ".join(f"{name} {what}" for name, what in summary.get("parley", {}).items())
    dropped = summary.get("dropped", {})
    decided = (
        " ".join(map(str, command))
        if command
        else f"{dispatcher.get('policy', '')}, {dispatcher.get('allocator', '')}"
    )
    capacity = ", ".join(f"{count:,} {kind}" for kind, count in run.machine.capacity.items())
    return {
        "scenario": _name(run),
        "decided by": decided + "".join(f", {key} = {value}" for key, value in parameters.items()),
        "machine": f"{run.machine.node_count:,} nodes, {capacity}",
        "note": str(platform.get("note", "")),
        "workload": ", ".join(str(entry["path"]).rpartition("/")[2] for entry in inputs),
        "SHA-256": ", ".join(str(entry["sha256"]) for entry in inputs),
        "trace": ", ".join(f"{key} {value}" for key, value in trace.items() if key != "filters"),
        "cleaned of": "; ".join(trace.get("filters", [])),
        "lines read": f"{lines['read']:,}" if "read" in lines else "",
        "lines dropped": "; ".join(f"{count:,} {rule}" for rule, count in dropped.items())
        or "none",
        "jobs": "; ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in jobs.items()),
        "end": str(summary.get("end", {}).get("reason", "still going on")),
        "scenario digest": str(summary.get("scenario", {}).get("digest", "")),
        "versions": versions,
    }


def _rules(run: RunDirectory) -> dict[str, str]:
    return {name: _told(value) for name, value in run.summary.get("rules", {}).items()}


def _told(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key} = {item}" for key, item in value.items())
        case list():
            return ", ".join(map(_told, value)) or "none"
        case _:
            return str(value)


def _rows(tables: Sequence[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Turn facts of each run into rows; those that nobody has are left out."""
    names = dict.fromkeys(name for table in tables for name in table)
    for name in names:
        values = [table.get(name, "") for table in tables]
        if any(values):
            yield {"name": name, "values": values, "unlike": len(set(values)) > 1}


# ---------------------------------------------------------------------- numbers


def _cells(values: Sequence[float], *, lower_is_better: bool | None) -> list[_Cell]:
    known = [value for value in values if math.isfinite(value)]
    best = None
    if lower_is_better is not None and len(set(known)) > 1:
        best = min(known) if lower_is_better else max(known)
    return [_Cell(number_text(value), value == best) for value in values]


def _run_rows(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    measured = [run_measures(sample) for sample in samples]
    return [
        {
            "name": metric.title,
            "unit": metric.unit,
            "definition": metric.definition,
            "cells": _cells(
                [table[metric.name] for table in measured],
                lower_is_better=metric.lower_is_better,
            ),
        }
        for metric in RUN_METRICS
    ]


def _job_rows(
    samples: Sequence[Sample], metrics: Sequence[JobMetric], own: Sequence[str]
) -> Iterator[dict[str, Any]]:
    names = [metric.name for metric in JOB_METRICS] + list(own)
    described = [list(job_measures(sample, names).values()) for sample in samples]
    for place, metric in enumerate(metrics):
        each = [table[place] for table in described]
        if not any(found.count for found in each):
            continue
        for statistic in _STATISTICS:
            yield {
                "name": metric.title if statistic == "mean" else "",
                "unit": metric.unit,
                "definition": metric.definition,
                "statistic": statistic,
                "cells": _cells(
                    [getattr(found, statistic) for found in each],
                    lower_is_better=metric.lower_is_better,
                ),
            }
        if any(found.undefined for found in each):
            cells = [_Cell(f"{found.undefined:,}") for found in each]
            yield {
                "name": "",
                "unit": "",
                "definition": "",
                "statistic": "undefined",
                "cells": cells,
            }


def _class_tables(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    for kind in _CLASS_KINDS:
        waits = [class_measures(sample, kind, "wait", most=_MOST_USERS) for sample in samples]
        slowdowns = [
            class_measures(sample, kind, "bounded_slowdown", most=_MOST_USERS) for sample in samples
        ]
        names = list(dict.fromkeys(name for table in waits for name in table))
        if len(names) < 2 and kind != "state":
            continue
        rows = [
            {
                "name": name,
                "cells": [
                    text
                    for wait, slowdown in zip(waits, slowdowns, strict=True)
                    for text in _class_cells(wait.get(name), slowdown.get(name))
                ],
            }
            for name in names
        ]
        yield {"title": KINDS[kind], "rows": rows}


def _class_cells(wait: Description | None, slowdown: Description | None) -> list[str]:
    if wait is None or slowdown is None:
        return ["0", "-", "-", "-"]
    return [
        f"{wait.count:,}",
        number_text(wait.mean),
        number_text(wait.median),
        number_text(slowdown.mean),
    ]


def _definitions(jobs: Sequence[JobMetric]) -> list[dict[str, str]]:
    every: list[RunMetric | JobMetric] = [*RUN_METRICS, *jobs]
    return [
        {
            "title": metric.title,
            "unit": metric.unit,
            "definition": metric.definition,
            "source": metric.source,
            "caveat": getattr(metric, "caveat", ""),
        }
        for metric in every
    ]


# ---------------------------------------------------------------------- comparison and plots


def _comparison(found: Comparison) -> dict[str, Any]:
    by = next((each for each in found.metrics if each.metric == _COMPARED_BY), None)
    gained = [] if by is None else [_change(change) for change in by.gained]
    lost = [] if by is None else [_change(change) for change in by.lost]
    return {
        "first": found.first,
        "second": found.second,
        "warnings": found.warnings,
        "rows": [
            {"name": job_metric(each.metric).axis, "cells": _compared(each)}
            for each in found.metrics
        ],
        "by": job_metric(_COMPARED_BY).axis.lower(),
        "gained": gained,
        "lost": lost,
        "extremes": list(zip_longest(gained, lost, fillvalue=["", "", ""])),
    }


def _change(change: Any) -> list[str]:
    return [change.job, number_text(change.first), number_text(change.second)]


def _compared(found: MetricComparison) -> list[str]:
    interval = found.difference
    counts = [f"{count:,}" for count in (found.lower, found.equal, found.higher)]
    return [
        f"{found.jobs:,}",
        number_text(found.first),
        number_text(found.second),
        number_text(interval.value),
        f"{number_text(interval.low)} to {number_text(interval.high)}",
        number_text(found.median),
        *counts,
    ]


def _picture(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    plot, made = plot_named(name), draw(name, samples)
    picture = io.BytesIO()
    write_figure(made, picture, "svg")
    width, height = made.get_size_inches()
    return {
        "name": plot.name,
        "shows": plot.shows,
        "image": base64.b64encode(picture.getvalue()).decode(),
        "width": round(width * 96),
        "height": round(height * 96),
    }
