"""Tables of metrics and comparisons on a terminal, or as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from parley_server.errors import one_line
from parley_server.results.comparison import comparison_table
from parley_server.results.measures import (
    class_measures,
    job_measures,
    number_text,
    plain,
    run_measures,
)
from parley_server.results.metrics import JOB_METRICS, RUN_METRICS, job_metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parley_server.results.comparison import Comparison
    from parley_server.results.sample import Sample

_SHOWN = ("mean", "median", "p95", "max")


def show_documentation() -> None:
    """Print what each metric is, in words."""
    for title, metrics in (("Of each job", JOB_METRICS), ("Of the run", RUN_METRICS)):
        print(title)
        for metric in metrics:
            unit = f" ({metric.unit})" if metric.unit else ""
            print(f"  {metric.name}{unit}: {metric.definition}")
            if metric.source:
                print(f"      source: {metric.source}")
            caveat = getattr(metric, "caveat", "")
            if caveat:
                print(f"      but: {caveat}")
        print()


def show_metrics(samples: Sequence[Sample], names: Sequence[str] | None, *, as_json: bool) -> None:
    """Print every metric of some runs, or those of jobs that are named."""
    described = [job_measures(sample, names) for sample in samples]
    of_runs = [run_measures(sample) for sample in samples] if names is None else []
    if as_json:
        tables = [
            {"run": sample.run.label, "window": str(sample.window), "jobs": plain(jobs)}
            for sample, jobs in zip(samples, described, strict=True)
        ]
        for table, values in zip(tables, of_runs, strict=False):
            table["metrics"] = plain(values)
        print(json.dumps(tables, indent=2))
        return
    rows = [["", "", *(sample.run.label for sample in samples)]]
    if of_runs:
        rows += [
            [metric.name, metric.unit, *(number_text(table[metric.name]) for table in of_runs)]
            for metric in RUN_METRICS
        ]
    for name in described[0]:
        unit = job_metric(name).unit if names is None else ""
        rows += [
            [
                f"{name}, {statistic}",
                unit,
                *(number_text(getattr(table[name], statistic)) for table in described),
            ]
            for statistic in _SHOWN
            if any(table[name].count for table in described)
        ]
    _print_table(rows, left=2)


def show_classes(
    samples: Sequence[Sample],
    kind: str,
    names: Sequence[str],
    *,
    most: int,
    as_json: bool,
) -> None:
    """Print metrics of the classes of jobs."""
    found = [
        {name: class_measures(sample, kind, name, most=most) for name in names}
        for sample in samples
    ]
    if as_json:
        tables = [
            {"run": sample.run.label, "by": kind, "classes": plain(table)}
            for sample, table in zip(samples, found, strict=True)
        ]
        print(json.dumps(tables, indent=2))
        return
    for sample, table in zip(samples, found, strict=True):
        print(one_line(sample.run.label))
        rows = [[kind, "jobs", *(f"{name}, {what}" for name in names for what in _SHOWN)]]
        for label in next(iter(table.values())):
            described = [table[name][label] for name in names]
            values = [getattr(each, what) for each in described for what in _SHOWN]
            count = max(each.count + each.undefined for each in described)
            rows.append([label, f"{count:,}", *map(number_text, values)])
        _print_table(rows, left=1)


def show_comparisons(found: Sequence[Comparison], *, as_json: bool) -> None:
    """Print comparisons; what speaks against them goes to standard error."""
    for comparison in found:
        for warning in comparison.warnings:
            told = f"parley: {comparison.first} and {comparison.second}: {warning}"
            print(one_line(told), file=sys.stderr)
    if as_json:
        print(json.dumps([comparison_table(comparison) for comparison in found], indent=2))
        return
    for comparison in found:
        print(one_line(f"{comparison.second}, against {comparison.first}"))
        rows = [
            ["", "jobs", "first", "second", "difference", "95 % interval", "median"],
            *(
                [
                    each.metric,
                    f"{each.jobs:,}",
                    number_text(each.first),
                    number_text(each.second),
                    number_text(each.difference.value),
                    f"{number_text(each.difference.low)} to {number_text(each.difference.high)}",
                    number_text(each.median),
                ]
                for each in comparison.metrics
            ),
        ]
        rows[0] += ["less", "same", "more", "left out"]
        for row, each in zip(rows[1:], comparison.metrics, strict=True):
            row += [f"{count:,}" for count in (each.lower, each.equal, each.higher, each.left_out)]
        _print_table(rows, left=1)
        for each in comparison.metrics[:1]:
            _print_changes("gained", each.metric, map(asdict, each.gained))
            _print_changes("lost", each.metric, map(asdict, each.lost))


def _print_changes(what: str, metric: str, changes: Iterable[dict[str, Any]]) -> None:
    told = [
        f"job {change['job']} {number_text(change['first'])} -> {number_text(change['second'])}"
        for change in changes
    ]
    if told:
        print(one_line(f"{what} most by {metric}: {'; '.join(told)}"))


def _print_table(rows: Sequence[Sequence[str]], *, left: int) -> None:
    """Print rows in columns; the first few begin at the left, the others end at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print(one_line("  ".join(cells).rstrip()))
