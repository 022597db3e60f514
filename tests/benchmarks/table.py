"""The README's table of what a run costs, made from the figures that `bench.py --record` kept.

    python tests/benchmarks/table.py

writes it anew, from the latest of each kind in `tests/benchmarks/results/`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
README = PROJECT / "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"

_POLICIES = ("reject", "fifo", "easy")


def latest(results: Path, kind: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return where and when the last figures of a kind were measured, and these by name.

    Raises:
        FileNotFoundError: There are none.
    """
    paths = sorted(results.glob(f"*-{kind}.jsonl"))
    if not paths:
        raise FileNotFoundError(f"{results}: no figures of kind {kind!r}; bench.py --record")
    where, *figures = map(json.loads, paths[-1].read_text().splitlines())
    floors = [figure["value"] for figure in figures if figure["name"].startswith("echo floor")]
    where["floors"] = (min(floors), max(floors)) if floors else None
    return where, {figure["name"]: figure for figure in figures}


def table(results: Path = RESULTS) -> str:
    """Return the lines between the marks."""
    run, alone = latest(results, "in-process")
    wired, wire = latest(results, "wire")
    rows = ["| in process | CPU | peak | AccaSim 1.1.3, without output |", "|---|---|---|---|"]
    rows += [
        f"| `{policy}`, {alone[f'in-process {policy}']['beside']} "
        f"| {_said(alone, f'in-process {policy}', 's', 1)} "
        f"| {_said(alone, f'in-process {policy}, peak', 'MB', 0)} "
        f"| {_said(alone, f'AccaSim {policy}', 's', 1)}: "
        f"{_said(alone, f'in-process {policy}, against AccaSim', 'times ours', 1)} |"
        for policy in _POLICIES
    ]
    rows += ["", "| over the wire, Python dispatcher | a request | of the bare echo | jobs/s |"]
    rows += ["|---|---|---|---|"]
    rows += [
        f"| `{policy}`, {transport} | {_said(wire, f'{name}, per request', 'us', 0)} "
        f"| {_said(wire, f'{name}, over the echo floor', 'times', 2)} "
        f"| {_said(wire, name, '', 0)} |"
        for policy in _POLICIES[1:]
        for transport in ("tcp", "ipc")
        for name in [f"wire {policy}, {transport}"]
    ]
    rows += ["", _measured(run, "in process"), _measured(wired, "over the wire")]
    return "\n".join([*rows, ""])


def _said(figures: Mapping[str, Mapping[str, Any]], name: str, unit: str, digits: int) -> str:
    return f"{figures[name]['value']:,.{digits}f} {unit}".rstrip()


def _measured(where: Mapping[str, Any], what: str) -> str:
    rounds = "one round" if where["rounds"] == 1 else f"medians of {where['rounds']} rounds"
    if where["floors"]:
        least, most = where["floors"]
        rounds += f"; meanwhile the bare echo took {least:.0f} to {most:.0f} us"
    return (
        f"* {what.capitalize()}: {where['date']}, {where['processors']} processors "
        f"({where['processor']}), Python {where['python']}, `{where['trace']}`, "
        f"`{where['machine']}`, "
        f"{rounds}."
    )


def renewed(readme: str, lines: str) -> str:
    """Return a page with other lines between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN.strip()} with an {END.strip()} behind it")
    return f"{before}{BEGIN}{lines}{END}{after}"


def main() -> None:
    try:
        README.write_text(renewed(README.read_text(), table()))
    except (FileNotFoundError, ValueError, KeyError) as error:
        sys.exit(f"table.py: {error}")


if __name__ == "__main__":
    main()
