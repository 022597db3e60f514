"""What the commands on workloads share: files named by users, progress, tables of results."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import UsageError, one_line
from parley_server.quantities import parse_columns
from parley_server.workload.files import is_standard
from parley_server.workload.formats import WorkloadFile
from parley_server.workload.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from parley_server.toolbox import ToolReport
    from parley_server.workload.information import Information

_EVERY = 10_000
_MOST_SHOWN = 20


def opened(
    path: Path,
    kind: str,
    columns: Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
) -> WorkloadFile:
    """Return the workload that a command names.

    Raises:
        UsageError: Its columns make no sense.
    """
    mapping = Columns(parse_columns(columns) or {}, attributes or [])
    mapping.require_sensible()
    # A reader of one's own may need no file.
    named = None if is_standard(path) and WorkloadFile(None, kind).own else path
    return WorkloadFile(named, kind, mapping)


def factor_of(text: str) -> Fraction:
    """Return a load factor.

    Raises:
        UsageError: It is none.
    """
    try:
        factor = Fraction(text) if len(text) < 30 and "e" not in text.lower() else Fraction(0)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if factor <= 0:
        raise UsageError(f"{text!r} is no load factor; write a positive number such as 1.2")
    return factor


@contextmanager
def watched(*, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Give what is to be called with the number of jobs done; it shows them on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    began = time.monotonic()
    console = Console(file=sys.stderr)
    with Live(Text(""), console=console, auto_refresh=False, transient=True) as live:
        shown = began

        def watch(jobs: int) -> None:
            nonlocal shown
            if jobs % _EVERY:
                return
            now = time.monotonic()
            if now - shown > 0.1:
                shown = now
                speed = jobs / (now - began)
                live.update(Text(f"{jobs:,} jobs; {speed:,.0f} jobs/s"), refresh=True)

        yield watch


def show_report(report: ToolReport) -> None:
    """Tell on standard error what was written and what was not."""
    told = [f"{report.written:,} jobs written to {report.name}"]
    told += [f"{count:,} dropped: {rule}" for rule, count in report.dropped.items()]
    told += [f"{count:,} changed: {what}" for what, count in report.changed.items()]
    told += [
        f"{count:,} jobs lost what the format cannot say: {what}"
        for what, count in report.lost.items()
    ]
    if report.first_malformed is not None:
        told.append(f"first malformed: {report.first_malformed}")
    for line in told:
        print(one_line(line), file=sys.stderr)


def show_information(found: Information, *, as_json: bool) -> None:
    """Print what a workload holds."""
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for label, value in _rows(found):
        print(one_line(f"{label:<34}{value}"))


def _rows(found: Information) -> Iterator[tuple[str, str]]:
    yield "workload", f"{found['name']} ({found['format']})"
    for key in ("Computer", "Installation", "Acknowledge", "MaxNodes", "MaxProcs"):
        if key in found["header"]:
            yield f"  {key}", found["header"][key]
    yield "jobs", f"{found['jobs']:,}"
    yield "lines, of which comments", f"{found['lines']:,}, {found['comments']:,}"
    yield "span", f"{_number(found['span_days'])} days, from {_number(found['first_submit'])} s on"
    yield "distinct submit times", _number(found["distinct_submit_times"])
    for key in ("users", "groups", "applications", "queues", "partitions"):
        yield key, _number(found[key])  # type: ignore[literal-required]
    sizes = found["sizes"]
    if sizes is not None:
        order = ("min", "quarter", "median", "three_quarters", "max")
        yield "sizes: least, quartiles, most", ", ".join(f"{sizes[key]:,}" for key in order)  # type: ignore[literal-required]
        yield (
            "sizes: mean, serial, 2^n",
            (f"{sizes['mean']:.2f}, {sizes['serial']:.1%}, {sizes['powers_of_two']:.1%}"),
        )
    yield (
        "runtime: mean, most",
        f"{_number(found['runtime_mean'])}, {_number(found['runtime_max'])} s",
    )
    yield "between submissions, mean", f"{_number(found['interarrival_mean'])} s"
    yield "wait in the trace, mean", f"{_number(found['wait_mean'])} s"
    yield "runtime / requested time, mean", _number(found["runtime_accuracy"])
    if "load" in found:
        yield "machine", found.get("machine", "")
        yield "load offered to it", _number(found["load"])
    yield "status", ", ".join(f"{key}: {count:,}" for key, count in found["statuses"].items())
    for key, count in found["met"].items():
        yield f"  {key.replace('_', ' ')}", f"{count:,}"
    yield from _counts("ignored", found["ignored"])
    yield from _counts("dropped", found["dropped"])
    if "first_malformed" in found:
        yield "first malformed", found["first_malformed"]
    for flurry in found.get("flurries", [])[:_MOST_SHOWN]:
        yield "flurry", f"{flurry['rule']} ({flurry['jobs']} jobs, {flurry['alike']:.0%} alike)"


def _counts(label: str, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for key, count in counts.items():
        yield f"{label}: {key}", f"{count:,}"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
