"""The table of the front page is that of the figures that were kept."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.table import BEGIN, END, README, RESULTS, latest, renewed, table


def test_the_front_page_shows_the_figures_that_were_kept():
    page = README.read_text()

    assert renewed(page, table()) == page


def test_the_last_figures_of_a_kind_are_taken(tmp_path):
    for date in ("2025-01-31", "2025-02-01"):
        lines = [{"date": date}, {"name": "a", "value": 1}, {"name": "a", "value": 2}]
        (tmp_path / f"{date}-T-wire.jsonl").write_text("\n".join(map(json.dumps, lines)))

    where, figures = latest(tmp_path, "wire")

    assert where["date"] == "2025-02-01"
    assert figures["a"]["value"] == 2
    with pytest.raises(FileNotFoundError, match="in-process"):
        latest(tmp_path, "in-process")


def test_a_page_without_marks_is_not_written_over():
    with pytest.raises(ValueError, match="end of figures"):
        renewed(f"text\n{BEGIN}rows\n", "other rows\n")
    assert renewed(f"text\n{BEGIN}rows\n{END}more\n", "new\n") == f"text\n{BEGIN}new\n{END}more\n"


def test_every_file_of_figures_says_where_it_was_measured():
    for path in RESULTS.glob("*.jsonl"):
        where = json.loads(path.read_text().splitlines()[0])
        assert {"date", "processor", "system", "python", "versions", "trace"} <= where.keys()
