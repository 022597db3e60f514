"""Whole runs in which nodes fail, decisions take time, or other sockets and encodings serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_conformance.case import cases_in
from parley_conformance.judging import each, went_on
from parley_conformance.servers.probe import found
from parley_conformance.verdicts import Finding, not_applicable

if TYPE_CHECKING:
    from parley_conformance.dialogue import Record


from parley_conformance.servers.course import all_told
from parley_conformance.servers.courses import (
    REQUEST,
    claim,
    course_full,
    course_json,
    course_req,
    course_requeue,
    course_slow,
    first_difference,
)

# ---------------------------------------------------------------------- nodes and latency


def _node_events(body: dict[str, Any]) -> Any:
    return [
        [event.get("kind"), event.get("nodes")]
        for event in body.get("events") or ()
        if str(event.get("kind")).startswith("node.")
    ]


@claim(
    "NODE-CHANGED",
    "`node.down` and `node.up` name those nodes only whose state changes.",
    "R-NODE-2",
    scenes=course_full,
    right="Ascending ranges, disjoint.",
    profile="nodes",
)
def node_changed(record: Record) -> Finding | None:
    return first_difference(record, _node_events, "the changes are", REQUEST)


@claim(
    "NODE-ENDS-FIRST",
    "The ends of the jobs on failing nodes are told before the failure.",
    "R-NODE-1",
    scenes=course_full,
    right="`job.ended` with `failed`, by number, then `node.down`.",
    profile="nodes",
)
def node_ends_first(record: Record) -> Finding | None:
    return _ends_first(record, "failed")


@claim(
    "NODE-REQUEUED",
    "Where the policy says so, jobs on failing nodes are requeued.",
    "R-NODE-1",
    scenes=course_requeue,
    right="`job.ended` with `requeued`; the job is pending again.",
    profile="nodes",
)
def node_requeued(record: Record) -> Finding | None:
    return _ends_first(record, "requeued")


def _ends_first(record: Record, status: str) -> Finding | None:
    def told(body: dict[str, Any]) -> Any:
        return [
            [event.get("kind"), event.get("job"), event.get("status")]
            for event in body.get("events") or ()
            if event.get("kind") == "node.down" or event.get("status") in {status, "failed"}
        ]

    return first_difference(record, told, "the events are", REQUEST)


@claim(
    "NODE-EMPTY",
    "A node that comes back is empty.",
    "R-NODE-4",
    scenes=course_requeue,
    right="All of its capacity is free.",
    profile="nodes",
)
def node_empty(record: Record) -> Finding | None:
    def back(body: dict[str, Any]) -> Any:
        came = [
            node
            for event in body.get("events") or ()
            if event.get("kind") == "node.up"
            for first, last in event["nodes"]
            for node in range(first, last + 1)
        ]
        return [
            [node, amounts, service]
            for first, last, amounts, service in (body.get("state") or {}).get("nodes") or ()
            for node in range(first, last + 1)
            if node in came
        ]

    return first_difference(record, back, "the nodes are", REQUEST)


@claim(
    "LAT-AT",
    "Outcomes carry the instant at which decisions took effect, where they take time.",
    "R-LAT-3",
    "R-LAT-1",
    scenes=course_slow,
    right="`at_us` is `now_us` of the request and L.",
    profile="delta",
)
def lat_at(record: Record) -> Finding | None:
    def told(body: dict[str, Any]) -> Any:
        return [[one.get("id"), one.get("at_us")] for one in body.get("outcomes") or ()]

    return _slowly(record) or first_difference(record, told, "the outcomes are")


@claim(
    "LAT-WORLD",
    "The world runs on until decisions take effect, and what happens is told with the next "
    "request.",
    "R-LAT-2",
    "R-LAT-4",
    "R-LAT-5",
    scenes=course_slow,
    right="The next request comes at t + L if anything has happened since t, else later.",
    profile="delta",
)
def lat_world(record: Record) -> Finding | None:
    return (
        _slowly(record)
        or first_difference(record, lambda body: body.get("now_us"), "now_us is")
        or all_told(record)
    )


def _slowly(record: Record) -> Finding | None:
    welcome = record.first("welcome")
    policy = welcome.body.get("policy") or {} if welcome is not None else {}
    if policy.get("latency_model") != "fixed":
        return not_applicable(f"the latency model is {policy.get('latency_model')!r:.40}")
    return None


# ---------------------------------------------------------------------- other sockets and encodings


@claim(
    "JSON-SESSION",
    "A session whose hello is JSON text is held in JSON text.",
    "R-ENC-2",
    "R-ENC-4",
    scenes=course_json,
    right="Every message of the server begins with a brace.",
    profile="json",
)
def json_session(record: Record) -> Finding | None:
    return each(
        record.of_program(),
        lambda line: None if line.frames[-1][:1] == b"{" else "the message is not JSON text",
    ) or found(record)


@claim(
    "TRA-REQ",
    "A REQ socket is served like a DEALER.",
    "R-TRA-1",
    scenes=course_req,
    right="The envelope of each message is sent back as it came.",
)
def tra_req(record: Record) -> Finding | None:
    return found(record) or went_on(record)


@claim(
    "TRA-ONE-FRAME",
    "A message is one frame behind the envelope.",
    "R-TRA-7",
    right="All frames of the dispatcher's message up to the first empty one, then the message.",
)
def tra_one_frame(record: Record) -> Finding | None:
    return each(
        record.of_program(),
        lambda line: (
            None
            if line.envelope == (b"",) and len(line.frames) == 1
            else f"{len(line.envelope)} frames of envelope and {len(line.frames)} behind them came"
        ),
    ) or found(record)


CASES = cases_in(globals())
