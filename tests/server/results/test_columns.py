"""Rows of results: Batsim's columns, and cells that read back as what happened."""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from parley_server.engine import InstantRecord, JobRecord, JobState
from parley_server.quantities import format_seconds, parse_seconds
from parley_server.results.columns import (
    DECISION_COLUMNS,
    FINAL_STATES,
    JOB_COLUMNS,
    TIMING_COLUMNS,
    chunk_ranges,
    instant_row,
    job_row,
    node_ranges,
    quoted,
)
from tests.support import SECOND, jobs_of

BATSIM = """
    job_id workload_name profile submission_time requested_number_of_resources requested_time
    success final_state starting_time execution_time finish_time waiting_time turnaround_time
    stretch allocated_resources consumed_energy metadata
"""

OURS = "attempt last user group queue partition walltime_source allocation expected_start"

TIMES = [
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
]

# ---------------------------------------------------------------------- records to write

instants = st.integers(0, 10**12) | st.integers(0, 10**5).map(lambda seconds: seconds * SECOND)


@st.composite
def span_lists(draw):
    """Return spans as the wire has them: ascending, disjoint, perhaps not merged."""
    at, spans = 0, []
    for _ in range(draw(st.integers(1, 5))):
        first = at + draw(st.integers(0, 4))
        last = first + draw(st.integers(0, 4))
        spans.append((first, last, draw(st.integers(1, 3))))
        at = last + 1
    return tuple(spans)


allocations = st.lists(span_lists(), min_size=1, max_size=3).map(tuple)

cells = st.text(
    st.characters(codec="utf-8") | st.sampled_from(',"\r\n \u2028'), min_size=1, max_size=6
)


def job_with(**changes):
    """Return a job of one chunk, changed."""
    (job,) = jobs_of([(0, 1, 10)])
    for name, value in changes.items():
        setattr(job, name, value)
    return job


def record_of(job=None, **changes):
    """Return the record of a job that completed, changed."""
    fields = {
        "job": job or job_with(),
        "state": JobState.COMPLETED,
        "start": 0,
        "end": 10 * SECOND,
        "allocation": (((0, 0, 1),),),
        "attempt": 1,
        "last": True,
        "expected_start": None,
    }
    return JobRecord(**{**fields, **changes})


def read_row(record, workload_name="w"):
    """Return the cells of a record's row by column, as any reader of CSV has them."""
    (row,) = csv.reader([job_row(record, quoted(workload_name))], strict=True)
    return dict(zip(JOB_COLUMNS, row, strict=True))


def nodes_of(text):
    """Return the nodes of `0-3 7`."""
    found = []
    for part in text.split():
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def spans_of(text):
    """Return the spans of `0-3*2 7*1`."""
    for part in text.split():
        nodes, _, chunks = part.partition("*")
        first, _, last = nodes.partition("-")
        yield (int(first), int(last or first), int(chunks))


# ---------------------------------------------------------------------- laws


@given(allocation=allocations)
def test_node_ranges_name_every_node_of_an_allocation_once(allocation):
    text = node_ranges(allocation)

    assert nodes_of(text) == sorted(
        {
            node
            for spans in allocation
            for first, last, _ in spans
            for node in range(first, last + 1)
        }
    )


@given(allocation=allocations)
def test_node_ranges_are_as_few_as_can_be(allocation):
    nodes = nodes_of(node_ranges(allocation))

    gaps = sum(after - before > 1 for before, after in pairwise(nodes))
    assert len(node_ranges(allocation).split()) == gaps + 1


@given(allocation=allocations)
def test_chunk_ranges_give_the_allocation_back(allocation):
    text = chunk_ranges(allocation)

    assert tuple(tuple(spans_of(group)) for group in text.split("+")) == allocation


@given(submit=instants, wait=instants, execution=instants)
def test_times_of_a_job_add_up(submit, wait, execution):
    start, end = submit + wait, submit + wait + execution

    row = read_row(record_of(job_with(submit=submit), start=start, end=end))

    assert parse_seconds(row["submission_time"]) == submit
    assert parse_seconds(row["starting_time"]) == start
    assert parse_seconds(row["execution_time"]) == execution
    assert parse_seconds(row["finish_time"]) == end
    assert parse_seconds(row["waiting_time"]) == wait
    assert parse_seconds(row["turnaround_time"]) == wait + execution


@given(submit=instants, wait=instants, execution=instants)
def test_stretch_is_turnaround_over_execution_to_a_millionth(submit, wait, execution):
    assume(execution)
    start = submit + wait

    row = read_row(record_of(job_with(submit=submit), start=start, end=start + execution))

    exact = Fraction(wait + execution, execution)
    assert abs(Fraction(parse_seconds(row["stretch"]), SECOND) - exact) <= Fraction(1, 2 * SECOND)
    assert format_seconds(parse_seconds(row["stretch"])) == row["stretch"]


@given(workload=cells, name=cells, owners=st.tuples(*[st.none() | cells] * 4))
@example(workload="w", name="j", owners=('"', None, None, None))
@example(workload="w", name="j", owners=(None, "a,b", None, None))
@example(workload="w", name="j", owners=(None, None, "a\nb", "a\rb"))
def test_any_text_reads_back(workload, name, owners):
    columns = ("user", "group", "queue", "partition")
    job = job_with(name=name, **dict(zip(columns, owners, strict=True)))

    row = read_row(record_of(job), workload)

    assert row["workload_name"] == workload
    assert row["job_id"] == name
    assert [row[column] for column in columns] == [owner or "" for owner in owners]


@given(text=cells.filter(str.isalnum))
def test_a_plain_word_is_not_quoted(text):
    assert quoted(text) == text


@given(counts=st.tuples(*[st.integers(0, 10**6)] * 6), instant=instants)
def test_a_row_of_an_instant_holds_its_counts_in_order(counts, instant):
    record = InstantRecord(instant)
    for column, count in zip(DECISION_COLUMNS[1:], counts, strict=True):
        setattr(record, column, count)

    row = instant_row(record).split(",")

    assert len(row) == len(DECISION_COLUMNS)
    assert parse_seconds(row[0]) == instant
    assert tuple(map(int, row[1:])) == counts


# ---------------------------------------------------------------------- columns


def test_columns_begin_with_batsim_s_in_their_order_and_ours_follow():
    assert [*JOB_COLUMNS] == BATSIM.split() + OURS.split()


def test_columns_of_the_other_files():
    assert ",".join(DECISION_COLUMNS) == (
        "instant,queue_length,running,events,requests,decisions,rejected"
    )
    assert ",".join(TIMING_COLUMNS) == (
        "request,instant,dispatcher_us,server_us,wire_us,memory_bytes"
    )


@pytest.mark.parametrize("columns", [JOB_COLUMNS, DECISION_COLUMNS, TIMING_COLUMNS])
def test_no_column_stands_twice(columns):
    assert len(set(columns)) == len(columns)


# ---------------------------------------------------------------------- rows


def test_a_whole_row():
    (job,) = jobs_of([(5, 6, 30, 60)])
    allocation = (((0, 3, 1), (7, 7, 2)),)
    record = record_of(
        job, start=15 * SECOND, end=45 * SECOND, allocation=allocation, expected_start=14_500_000
    )

    assert job_row(record, "w") == (
        "j0,w,delay,5,6,60,1,COMPLETED_SUCCESSFULLY,15,30,45,10,40,1.333333,0-3 7,,,"
        "1,1,,,,,trace,0-3*1 7*2,14.5"
    )


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.REJECTED])
def test_a_job_never_started_has_empty_cells(state):
    end = 7 * SECOND if state is JobState.REJECTED else None

    row = read_row(record_of(state=state, start=None, end=end, allocation=None))

    assert [row[column] for column in [*TIMES, "allocated_resources", "allocation"]] == [""] * 8
    assert (row["success"], row["final_state"]) == ("0", FINAL_STATES[state])


def test_a_job_still_running_has_a_start_and_no_end():
    row = read_row(record_of(job_with(submit=SECOND), state=JobState.RUNNING, start=3 * SECOND, end=None))  # fmt: skip  # noqa: E501

    assert [row[column] for column in TIMES] == ["3", "", "", "2", "", ""]
    assert row["allocated_resources"] == "0"
    assert row["final_state"] == "RUNNING"


def test_a_job_of_no_length_has_no_stretch():
    row = read_row(record_of(start=4 * SECOND, end=4 * SECOND))

    assert (row["execution_time"], row["turnaround_time"], row["stretch"]) == ("0", "4", "")


@pytest.mark.parametrize(
    ("wait", "execution", "stretch"),
    [
        (0, 5, "1"),
        (5, 5, "2"),
        (1, 2, "1.5"),
        (1, 3, "1.333333"),
        (2, 3, "1.666667"),
        (10, 1, "11"),
    ],
)
def test_stretch_by_hand(wait, execution, stretch):
    start = wait * SECOND

    row = read_row(record_of(start=start, end=start + execution * SECOND))

    assert row["stretch"] == stretch


@pytest.mark.parametrize("state", JobState)
def test_only_a_completed_job_is_a_success(state):
    row = read_row(record_of(state=state))

    assert row["success"] == str(int(state is JobState.COMPLETED))
    assert row["final_state"] == FINAL_STATES[state]


def test_final_states_are_batsim_s_words():
    assert {FINAL_STATES[state] for state in JobState} == {
        *("NOT_SUBMITTED", "SUBMITTED", "RUNNING", "REJECTED"),
        *("COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"),
        *("COMPLETED_WALLTIME_REACHED", "COMPLETED_KILLED"),
        "REQUEUED",  # the end of an attempt, for which Batsim has no word
    }


def test_a_job_without_limit_has_an_empty_requested_time():
    row = read_row(record_of(job_with(walltime=None, walltime_source="none")))

    assert (row["requested_time"], row["walltime_source"]) == ("", "none")


def test_attempts_are_told_apart():
    first, second = record_of(attempt=1, last=False), record_of(attempt=2, last=True)

    assert [
        (read_row(record)["attempt"], read_row(record)["last"]) for record in (first, second)
    ] == [
        ("1", "0"),
        ("2", "1"),
    ]


@pytest.mark.parametrize(
    ("allocation", "nodes", "chunks"),
    [
        ((((7, 7, 1),),), "7", "7*1"),
        ((((0, 3, 2),),), "0-3", "0-3*2"),
        ((((0, 3, 2), (7, 7, 1)),), "0-3 7", "0-3*2 7*1"),
        ((((0, 3, 2), (4, 5, 1)),), "0-5", "0-3*2 4-5*1"),
        ((((2, 3, 1),), ((0, 1, 1), (3, 4, 1))), "0-4", "2-3*1+0-1*1 3-4*1"),
        ((((0, 9, 1),), ((2, 3, 1),)), "0-9", "0-9*1+2-3*1"),
    ],
)
def test_allocations_by_hand(allocation, nodes, chunks):
    assert node_ranges(allocation) == nodes
    assert chunk_ranges(allocation) == chunks


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a b", "a b"),
        ("a,b", '"a,b"'),
        ('a"b', '"a""b"'),
        ("a\nb", '"a\nb"'),
        ("a\rb", '"a\rb"'),
    ],
)
def test_fields_are_quoted_only_where_they_must_be(text, cell):
    assert quoted(text) == cell
