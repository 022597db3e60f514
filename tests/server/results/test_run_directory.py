"""Runs read back as columns: what the rows say, in any block size; what is no run is told."""

from __future__ import annotations

import csv
import json
import math
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_server import run
from parley_server.errors import InputError
from parley_server.quantities import format_seconds, parse_seconds
from parley_server.results import cells as module
from parley_server.results.cells import read_cells
from parley_server.results.run_directory import open_run, open_runs
from tests.support import SECOND, rows, write_swf

# ---------------------------------------------------------------------- files to read

times = st.none() | st.integers(-(10**6), 10**12) | st.integers(0, 10**6).map(lambda n: n * SECOND)
texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from(',"\r\n'), max_size=8
)
spans = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=4
)
allocations = st.lists(spans, max_size=3)


def written(allocation):
    return "+".join(
        " ".join(
            f"{first}*{chunks}" if not more else f"{first}-{first + more}*{chunks}"
            for first, more, chunks in group
        )
        for group in allocation
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the directory of a small run of every kind of job: on time, too large, of length 0."""
    directory = tmp_path_factory.mktemp("runs")
    lines = [(n * 7, n % 5 * 9, 1 + n % 3, 30) for n in range(40)] + [(300, 5, 9, 10)]
    trace = write_swf(directory / "trace.swf", lines)
    run(swf=trace, nodes=4, policy="easy", out=directory / "out")
    return directory / "out"


@pytest.fixture
def copied(finished, tmp_path):
    """Return a copy of it to be damaged."""
    return shutil.copytree(finished, tmp_path / "copy")


# ---------------------------------------------------------------------- laws


@given(
    table=st.lists(st.tuples(times, texts, allocations), max_size=12),
    block=st.integers(1, 200),
)
@settings(max_examples=150)
def test_cells_are_what_a_reader_of_csv_makes_of_them(folder, table, block):
    path = folder / "cells.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("time", "text", "nodes"))
        for time, text, allocation in table:
            told = "" if time is None else format_seconds(time)
            writer.writerow((told, text, written(allocation)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        blocks = list(read_cells(path, ("time", "text", "nodes")))

    seconds = [value for cells in blocks for value in cells.seconds("time")]
    assert len(seconds) == len(table)
    for value, (time, _, _) in zip(seconds, table, strict=True):
        assert math.isnan(value) if time is None else value == time / SECOND
    found = [bytes(value).decode() for cells in blocks for value in cells.texts("text")]
    assert found == [text for _, text, _ in table]
    spans, before = [], 0
    for cells in blocks:
        found = cells.spans("nodes")
        columns = (found.row + before, found.first, found.last, found.chunks)
        spans += zip(*(column.tolist() for column in columns), strict=True)
        before += cells.rows
    assert spans == [
        (row, first, first + more, chunks)
        for row, (_, _, allocation) in enumerate(table)
        for group in allocation
        for first, more, chunks in group
    ]


@given(text=st.text("0123456789.-e+ x", min_size=1, max_size=21))
def test_what_is_no_time_is_refused_by_its_line(folder, text):
    path = folder / "one.csv"
    path.write_text(f"a,b\n1,{text}\n")
    digits = text.removeprefix("-").replace(".", "", 1)
    whole, _, decimals = text.partition(".")
    valid = digits.isdigit() and len(text) <= 18 and len(decimals) <= 6
    valid &= len(whole.removeprefix("-")) <= 12

    (cells,) = read_cells(path, ["b"])
    if valid:
        assert cells.seconds("b")[0] == float(text)
    else:
        with pytest.raises(InputError, match=r"one\.csv: line 2: b is no number"):
            cells.seconds("b")


# ---------------------------------------------------------------------- tables


@pytest.mark.parametrize("block", [50, 300, 1 << 20])
def test_columns_of_jobs_are_those_of_the_rows(finished, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    jobs = open_run(finished).jobs

    cells = {
        "submit": "submission_time",
        "start": "starting_time",
        "end": "finish_time",
        "wait": "waiting_time",
        "execution": "execution_time",
        "walltime": "requested_time",
    }
    expected = rows(finished / "jobs.csv")
    assert len(jobs) == len(expected) == 41
    for place, row in enumerate(expected):
        for name, column in cells.items():
            value = getattr(jobs, name)[place]
            assert math.isnan(value) if not row[column] else value == float(row[column])
        assert jobs.job_id[place].decode() == row["job_id"]
        assert jobs.size[place] == int(row["requested_number_of_resources"])
        assert jobs.state.names[jobs.state.codes[place]] == row["final_state"]
        assert jobs.user.names[jobs.user.codes[place]] == row["user"]
        held = 0 if not row["starting_time"] else int(row["requested_number_of_resources"])
        assert jobs.amounts["core"][place] == held


def test_what_jobs_hold_makes_the_utilisation_of_the_summary(finished):
    found = open_run(finished)

    jobs = found.jobs
    work = np.nansum(jobs.amounts["core"] * jobs.execution)
    share = work / (found.machine.capacity["core"] * found.summary["makespan"])
    assert share == pytest.approx(found.summary["utilisation"], rel=1e-12)


def test_instants_and_requests_are_those_of_their_files(finished):
    found = open_run(finished)

    instants, timing = rows(finished / "decisions.csv"), rows(finished / "timing.csv")
    assert found.instants.queue_length.tolist() == [int(row["queue_length"]) for row in instants]
    expected = [parse_seconds(row["instant"]) / SECOND for row in instants]
    assert found.instants.instant.tolist() == expected
    assert len(found.requests.instant) == len(timing)
    assert found.requests.dispatcher.sum() == pytest.approx(
        sum(int(row["dispatcher_us"]) for row in timing) / 1e6
    )


def test_runs_are_called_by_what_tells_their_paths_apart(finished, tmp_path):
    one = shutil.copytree(finished, tmp_path / "fifo" / "out")
    two = shutil.copytree(finished, tmp_path / "easy" / "out")

    assert [run.label for run in open_runs([one, two])] == ["fifo/out", "easy/out"]
    assert [run.label for run in open_runs([one, two / "jobs.csv"], labels=["A"])] == [
        "A",
        "easy/out",
    ]
    assert len({run.label for run in open_runs([one, one])}) == 2


# ---------------------------------------------------------------------- what is no run


def damage(directory, name, change):
    path = directory / name
    path.write_bytes(change(path.read_bytes()))


def swap(old, new):
    return lambda content: content.replace(old, new, 1)


def last_row_off(content):
    return content[: content[:-1].rfind(b"\n") + 1]


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("jobs.csv", lambda _: b"", "is empty"),
        ("jobs.csv", lambda content: content[:-9], "line 42: ends in the middle of a row"),
        ("jobs.csv", last_row_off, "holds 40 jobs, but 41 were submitted"),
        ("jobs.csv", lambda content: content[:30], "has no column 'submission_time'"),
        ("jobs.csv", swap(b",attempt,", b",try,"), "no column 'attem"),
        (
            "jobs.csv",
            swap(b"delay", b"de,lay"),
            "line 2: has another",
        ),
        (
            "jobs.csv",
            swap(b"delay,0,", b"delay,x,"),
            "no number: 'x'",
        ),
        ("jobs.csv", swap(b"*1,", b"*1;,"), "allocation is no alloc"),
        ("jobs.csv", swap(b",0*1,", b",77*1,"), "node 77 of a mach"),
        ("scenario.toml", swap(b"groups", b"group"), "no groups of nod"),
        ("scenario.toml", lambda content: content[:40], "scenario.toml"),
        ("summary.json", lambda content: content[:100], "not JSON"),
        ("summary.json", lambda _: b"[]", "says nothing of 'scenario'"),
        ("summary.json", lambda _: b"{}", "says nothing of 'scenario'"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(copied, name, change, told):
    damage(copied, name, change)

    with pytest.raises(InputError, match=told) as caught:
        _ = open_run(copied).jobs

    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_that_goes_on_is_read_only_if_that_is_wanted(copied):
    (copied / "summary.json").unlink()
    damage(copied, "jobs.csv", lambda content: content[:-9])

    with pytest.raises(InputError, match="still going on, or was killed"):
        open_run(copied)
    assert len(open_run(copied, partial=True).jobs) == 40


def test_a_directory_without_a_run_is_no_run(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        open_run(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        open_run(tmp_path / "absent")


def test_a_run_without_jobs_is_empty(copied):
    damage(copied, "jobs.csv", lambda content: content[: content.index(b"\n") + 1])
    summary = json.loads((copied / "summary.json").read_text())
    summary["jobs"]["submitted"] = 0
    (copied / "summary.json").write_text(json.dumps(summary))

    assert len(open_run(copied).jobs) == 0
