"""Every policy against figures that an independent program computed on the archive's traces."""

from __future__ import annotations

import pytest

from tests.benchmarks.published import ARCHIVE, BEGINNING, LUBLIN, TRACES, agrees, simulate
from tests.support import shared

pytestmark = pytest.mark.shared


_SLOW = "restart=inf"
"""A sweep that never begins again looks at every job each time."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=[pytest.mark.long] if _SLOW in row.name else [])
        for row in BEGINNING
    ],
)
def test_the_beginning_of_a_synthetic_trace_has_the_reference_s_figures(row):
    summary = simulate(row, shared("traces"))

    assert summary["jobs"]["submitted"] == row.limit
    assert agrees(row, summary), summary["wait"]


@pytest.mark.long
@pytest.mark.parametrize("row", [*ARCHIVE, *LUBLIN], ids=lambda row: row.name)
def test_a_whole_trace_has_the_reference_s_figures(row):
    summary = simulate(row, shared("traces"))

    assert summary["jobs"]["submitted"] == TRACES[row.trace][2]
    assert agrees(row, summary), summary["wait"]
