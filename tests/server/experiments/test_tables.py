"""The table says what the cells say."""

from __future__ import annotations

import csv
import io
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley_server.errors import UsageError
from parley_server.experiments.tables import COST, SCHEDULE, table_of, title_of

numbers = st.one_of(st.none(), st.floats(-1e12, 1e12))


def record(policy="fifo", seed=0, status="complete", allocator="first-fit", **metrics):
    return {
        "name": f"{policy}{seed}",
        "workload": "w",
        "platform": "p",
        "policy": policy,
        "allocator": allocator,
        "seed": seed,
        "repetition": 1,
        "status": status,
        "metrics": metrics,
    }


def read(table):
    return list(csv.DictReader(io.StringIO(table.text("csv"))))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]), st.sampled_from(["complete", "failed"]), numbers
        ),
        max_size=20,
    )
)
def test_a_row_is_mean_and_deviation_of_its_complete_cells(cells):
    records = [
        record(policy, seed, status, **({"x": value} if status == "complete" else {}))
        for seed, (policy, status, value) in enumerate(cells)
    ]

    found = read(table_of(records, ["x"]))

    assert [row["policy"] for row in found] == list(dict.fromkeys(policy for policy, _, _ in cells))
    for row in found:
        own = [(status, value) for policy, status, value in cells if policy == row["policy"]]
        values = [value for status, value in own if status == "complete" and value is not None]
        assert int(row["cells"]) == len(own)
        assert int(row["complete"]) == sum(status == "complete" for status, _ in own)
        if values:
            assert float(row["x"]) == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-9)
        else:
            assert row["x"] == ""
        if len(values) > 1:
            deviation = statistics.stdev(values)
            assert float(row["x deviation"]) == pytest.approx(deviation, rel=1e-9, abs=1e-9)
        else:
            assert row["x deviation"] == ""


@given(st.permutations([0.1, 1e9, -1e9, 0.3, 7.0]))
def test_the_order_in_which_cells_ended_is_not_seen(values):
    records = [record(seed=seed, x=value) for seed, value in enumerate(values)]
    in_order = [record(seed=seed, x=value) for seed, value in enumerate(sorted(values))]

    assert table_of(records, ["x"]).text("csv") == table_of(in_order, ["x"]).text("csv")


def test_what_people_read_has_the_columns_that_tell_rows_apart():
    records = [
        record("fifo", x=1234.5678, y=0.5),
        record("fifo", 1, x=1235.5678, y=0.5),
        record("easy", x=10.0, y=0.0),
        record("easy", 1, "failed"),
    ]
    table = table_of(records, ["x", "y"])

    assert table.text("markdown") == (
        "| policy | complete | x | y |\n"
        "| --- | --- | ---: | ---: |\n"
        "| fifo | 2 of 2 | 1,235 ± 0.7071 | 0.5000 ± 0 |\n"
        "| easy | 1 of 2 | 10.00 | 0 |\n"
    )


def test_latex_is_given_no_mark_that_it_would_obey():
    records = [record("a_b&c%$#{}~^\\", x=1.0, **{"50%_µs": 2.0})]
    text = table_of(records, ["x", "50%_µs"]).text("latex")

    line = next(line for line in text.splitlines() if line.startswith("a"))
    assert line.startswith(
        r"a\_b\&c\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{} & 1.000 & 2.000"
    )
    assert r"50\%\_$\mu$s" in text
    assert text.count(r"\\") == 2
    assert r"\begin{tabular}{lrr}" in text


def test_a_metric_that_no_cell_has_is_named_with_the_one_that_was_meant():
    with pytest.raises(UsageError, match=r"'wait\.meen' \(did you mean 'wait\.mean'\?\)"):
        table_of([record(**{"wait.mean": 1.0})], ["wait.meen"])


def test_without_a_complete_cell_the_table_is_empty_and_no_error():
    table = table_of([record(status="waiting")], SCHEDULE)

    (row,) = read(table)
    assert row["complete"] == "0"
    assert all(row[name] == "" for name in SCHEDULE)
    assert table.best("wait.mean") is None


def test_every_column_of_the_tables_has_a_title_in_words():
    titles = [title_of(name) for name in (*SCHEDULE, *COST)]

    assert all(title[0].isupper() and "." not in title for title in titles)
    assert len(set(titles)) == len(titles)


def test_the_best_row_is_the_one_with_the_least_mean():
    records = [record("a", x=3.0), record("b", x=math.pi), record("c", x=2.5), record("d", x=None)]

    assert table_of(records, ["x"]).best("x").row.policy == "c"
