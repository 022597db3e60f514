"""The columns of a run's files, and how an engine's record becomes a row.

`jobs.csv` begins with Batsim's columns in Batsim's order, so that its tools read it; ours follow.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from parley_server.engine import JobState
from parley_server.quantities import MICROSECONDS as _SECOND
from parley_server.quantities import format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.engine import Allocation, InstantRecord, JobRecord

JOB_COLUMNS = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
    "attempt",
    "last",
    "user",
    "group",
    "queue",
    "partition",
    "walltime_source",
    "allocation",
    "expected_start",
)

DECISION_COLUMNS = (
    "instant",
    "queue_length",
    "running",
    "events",
    "requests",
    "decisions",
    "rejected",
)

TIMING_COLUMNS = ("request", "instant", "dispatcher_us", "server_us", "wire_us", "memory_bytes")

FINAL_STATES: Mapping[JobState, str] = {
    JobState.LOADED: "NOT_SUBMITTED",
    JobState.PENDING: "SUBMITTED",
    JobState.RUNNING: "RUNNING",
    JobState.COMPLETED: "COMPLETED_SUCCESSFULLY",
    JobState.FAILED: "COMPLETED_FAILED",
    JobState.TIMED_OUT: "COMPLETED_WALLTIME_REACHED",
    JobState.KILLED: "COMPLETED_KILLED",
    JobState.REQUEUED: "REQUEUED",
    JobState.REJECTED: "REJECTED",
}
"""Batsim's words for where a job stands."""

# By the word: to hash a member of an enumeration is a call.
_SAID: Mapping[str, str] = {
    state.word: f"{int(state is JobState.COMPLETED)},{said}" for state, said in FINAL_STATES.items()
}


_FIRST_ATTEMPT: Mapping[bool, str] = {True: "1,1", False: "1,0"}
"""What is said of a first attempt, the last or not."""

_chunks_of = itemgetter(2)
"""Returns the chunks of a span, from C: this is asked of every span of a run."""


def quoted(text: str) -> str:
    """Return a field as CSV has it: quoted only where it must be."""
    if not text.isalnum() and any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def node_ranges(allocation: Allocation) -> str:
    """Return the nodes of an allocation as Batsim writes them: `0-3 7`."""
    if len(allocation) == 1 and len(allocation[0]) == 1:
        first, last, _ = allocation[0][0]
        return str(first) if first == last else f"{first}-{last}"
    ranges: list[list[int]] = []
    for first, last, _ in sorted(span for spans in allocation for span in spans):
        if ranges and first <= ranges[-1][1] + 1:
            if last > ranges[-1][1]:
                ranges[-1][1] = last
        else:
            ranges.append([first, last])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def chunk_ranges(allocation: Allocation) -> str:
    """Return an allocation with its chunk counts, `0-3*2 7*1`; groups are parted by `+`."""
    if len(allocation) == 1 and len(allocation[0]) == 1:
        first, last, chunks = allocation[0][0]
        return f"{first}*{chunks}" if first == last else f"{first}-{last}*{chunks}"
    return "+".join(
        " ".join(
            f"{first}*{chunks}" if first == last else f"{first}-{last}*{chunks}"
            for first, last, chunks in spans
        )
        for spans in allocation
    )


def _places(allocation: Allocation) -> tuple[str, str]:
    """Return `node_ranges` and `chunk_ranges` of an allocation, quickly where all is plain."""
    if len(allocation) == 1:
        spans = allocation[0]
        if len(spans) == 1:
            first, last, chunks = spans[0]
            nodes = str(first) if first == last else f"{first}-{last}"
            return nodes, f"{nodes}*{chunks}"
        chunks = spans[0][2]
        if list(map(_chunks_of, spans)).count(chunks) == len(spans):
            # Merged already: neighbours would be one span.
            ranges = [
                str(first) if first == last else f"{first}-{last}" for first, last, _ in spans
            ]
            return " ".join(ranges), f"*{chunks} ".join(ranges) + f"*{chunks}"
    return node_ranges(allocation), chunk_ranges(allocation)


def job_row(record: JobRecord, workload_name: str) -> str:
    """Return the row of one attempt of a job; *workload_name* is quoted already."""
    job, state, start, end, allocation, attempt, last, expected_start = record
    request = job.request
    chunks = request[0].chunks if len(request) == 1 else sum(group.chunks for group in request)
    submit, limit = job.submit, job.walltime
    submitted = format_seconds(submit) if submit % _SECOND else submit // _SECOND
    if limit is None:
        walltime: int | str = ""
    else:
        walltime = format_seconds(limit) if limit % _SECOND else limit // _SECOND
    if allocation is None or start is None:
        times, nodes, placed = ",,,,,", "", ""
    else:
        times = _times(submit, start, end)
        nodes, placed = _places(allocation)
    expected = "" if expected_start is None else format_seconds(expected_start)
    which = _FIRST_ATTEMPT[last] if attempt == 1 else f"{attempt},{int(last)}"
    owner = _owner(job.user, job.group, job.queue, job.partition)
    name = job.name if job.name.isalnum() else quoted(job.name)
    return (
        f"{name},{workload_name},delay,{submitted},{chunks},"
        f"{walltime},{_SAID[state.word]},{times},{nodes},,,"
        f"{which},{owner},{job.walltime_source},{placed},{expected}"
    )


@lru_cache(maxsize=4096)
def _owner(*parts: str | None) -> str:
    """Return the columns of whom a job belongs to and where it waits; there are few of these."""
    return ",".join(quoted(part or "") for part in parts)


def instant_row(record: InstantRecord) -> str:
    """Return the row of one instant."""
    instant = record.instant
    at = format_seconds(instant) if instant % _SECOND else instant // _SECOND
    counts = _counts(record.events, record.requests, record.decisions, record.rejected)
    return f"{at},{record.queue_length},{record.running},{counts}"


@lru_cache(maxsize=4096)
def _counts(*counts: int) -> str:
    """Return counts of one instant: most are 0 or 1, and writing a number is dear."""
    return ",".join(map(str, counts))


def _times(submit: int, start: int, end: int | None) -> str:
    """Return the six columns from starting_time to stretch."""
    if end is not None and not (submit % _SECOND or start % _SECOND or end % _SECOND):
        return _whole_times(submit // _SECOND, start // _SECOND, end // _SECOND)
    wait = format_seconds(start - submit)
    if end is None:
        return f"{format_seconds(start)},,,{wait},,"
    execution, turnaround = end - start, end - submit
    stretch = _ratio(turnaround, execution) if execution else ""
    return (
        f"{format_seconds(start)},{format_seconds(execution)},{format_seconds(end)},{wait},"
        f"{format_seconds(turnaround)},{stretch}"
    )


def _whole_times(submit: int, start: int, end: int) -> str:
    """Return the same six columns, as nearly all traces have it: for whole seconds."""
    execution, turnaround = end - start, end - submit
    if start == submit and execution:
        return f"{start},{execution},{end},0,{turnaround},1"
    stretch = _ratio(turnaround, execution) if execution else ""
    return f"{start},{execution},{end},{start - submit},{turnaround},{stretch}"


def _ratio(numerator: int, denominator: int) -> str:
    """Return a ratio with at most six decimals, rounded in whole numbers."""
    return format_seconds((numerator * 2_000_000 + denominator) // (2 * denominator))
