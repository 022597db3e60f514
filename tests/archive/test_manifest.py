"""What `parley workload info` counts in every archive trace is what the traces' list says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley_server.toolbox import information
from parley_server.workload.formats import WorkloadFile
from tests.support import parley, shared

pytestmark = pytest.mark.shared

TRACES = (
    "CEA-Curie-2011-2.1-cln",
    "HPC2N-2002-2.2-cln",
    "KTH-SP2-1996-2.1-cln",
    "LANL-CM5-1994-4.1-cln",
    "LLNL-Atlas-2006-2.1-cln",
    "LPC-EGEE-2004-1.2-cln",
    "METACENTRUM-2009-2",
    "NASA-iPSC-1993-3.1-cln",
    "RICC-2010-2",
    "SDSC-SP2-1998-4.2-cln",
    "MetaCentrum-wagap-2013",
    "lublin_256",
)

COLUMNS = {
    "distinct submit times": "distinct_submit_times",
    "biggest request": "biggest_request",
    "run < 0": "runtime_negative",
    "run = 0": "runtime_zero",
    "no requested procs (-1)": "no_requested_processors",
    "no/zero procs at all": "no_processors",
    "no requested time": "no_requested_time",
    "requested time < run": "requested_time_below_runtime",
    "lines out of submit order": "out_of_order",
    "lines not 18 fields": "lines_of_other_width",
}
"""Our word for each column of the list."""

MEMORY = "mem requested / used only / none"


def listed(path: Path) -> dict[str, dict[str, str]]:
    """Return all columns of all the list's tables, by the file's name."""
    found: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or not cells:
            names = []
        elif not names:
            names = cells
        elif not cells[0].startswith("-"):
            found.setdefault(cells[0], {}).update(zip(names[1:], cells[1:], strict=True))
    return found


def test_every_trace_of_the_list_is_tested():
    listing = listed(shared("traces", "MANIFEST.md"))

    assert {f"{name}.swf.gz" for name in TRACES} == listing.keys()


@pytest.mark.parametrize("name", TRACES)
def test_what_is_counted_is_what_the_list_says(name):
    expected = listed(shared("traces", "MANIFEST.md"))[f"{name}.swf.gz"]

    found = information(WorkloadFile(shared("traces", f"{name}.swf.gz")))

    met, header = found["met"], found["header"]
    counted = {**found, **met}
    assert found["jobs"] == int(expected["jobs"].replace(",", ""))
    assert round(found["span_days"], 1) == float(expected["span (d)"])
    assert {column: counted[word] for column, word in COLUMNS.items()} == {
        column: int(expected[column]) for column in COLUMNS
    }
    memory = (met["memory_requested"], met["memory_used_only"], met["memory_none"])
    assert " / ".join(map(str, memory)) == expected[MEMORY]
    assert met["malformed"] == 0
    sizes = tuple(header.get(key, "-") for key in ("MaxNodes", "MaxProcs"))
    assert " / ".join(" ".join(size.split()) for size in sizes) == " ".join(
        expected["MaxNodes / MaxProcs (header)"].split()
    )


def test_the_command_says_the_same():
    trace = shared("traces", "lublin_256.swf.gz")

    answer = parley("workload", "info", trace, "--json")

    assert json.loads(answer.stdout) == information(WorkloadFile(trace))
