"""The committed schemas: generated from the models, valid, and of one mind with the decoder."""

from __future__ import annotations

import copy
import json
import shutil
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from parley_protocol import (
    MAX_INTEGER,
    PROTOCOL_VERSION,
    ProtocolError,
    read_client_message,
    read_server_message,
)
from parley_protocol.messages import (
    CLIENT_MESSAGES,
    DECISION_KINDS,
    EVENT_KINDS,
    SERVER_MESSAGES,
)
from parley_server.schemas import all_schemas
from tests.support import PROJECT, parley

SCHEMAS = PROJECT / "schemas"
NAMES = sorted(all_schemas())
MESSAGES = sorted({**CLIENT_MESSAGES, **SERVER_MESSAGES})

# ---------------------------------------------------------------------- good examples

FROM_CLIENT = {"v": 1, "session": "s-1", "epoch": 1, "re": 7}
FROM_SERVER = {"v": 1, "session": "s-1", "epoch": 1, "seq": 7}

ALLOCATION = [[[0, 3, 2], [7, 7, 1]], []]

JOB = {
    "job": 4,
    "name": "1207",
    "submit_us": 90_000_000,
    "walltime_us": 3_600_000_000,
    "request": [{"chunks": 9, "per_chunk": {"core": 2, "gpu": 1}, "exclusive": False}],
    "user": "7",
    "group": "3",
    "queue": "short",
    "partition": "0",
    "attributes": {"project": "mc", "weights": [1, 2.5, None, {"deep": True}]},
}

PLAIN_JOB = {field: JOB[field] for field in ("job", "name", "submit_us", "request")}

STATE = {
    "pending": [PLAIN_JOB],
    "running": [{"job": PLAIN_JOB, "start_us": 5, "allocation": [[[0, 0, 1]]]}],
    "nodes": [[0, 6, {"core": 4}, "up"], [7, 7, {"core": 0}, "down"]],
    "timers": [{"timer": 1, "at_us": 100}],
}

EVENTS = [
    {"kind": "session.start", "at_us": 0},
    {"kind": "job.submitted", "at_us": 1, "job": JOB},
    {"kind": "job.started", "at_us": 2, "job": 3, "allocation": ALLOCATION},
    {"kind": "job.ended", "at_us": 3, "job": 3, "status": "timed_out"},
    {"kind": "timer.fired", "at_us": 4, "timer": 1},
    {"kind": "workload.exhausted", "at_us": 5},
    {"kind": "power.changed", "at_us": 6, "watts": 7},
]

DECISIONS = [
    {"id": 0, "kind": "start", "job": 4, "allocation": ALLOCATION},
    {"id": 1, "kind": "reject", "job": 5, "reason": "too large"},
    {"id": 2, "kind": "kill", "job": 6},
    {"id": 3, "kind": "wake", "timer": 1, "at_us": 100},
    {"id": 4, "kind": "annotate", "job": 7, "expected_start_us": 9, "reason": "full"},
    {"id": 5, "kind": "resize", "job": 8},
]

OUTCOMES = [
    {"id": 0, "status": "applied", "allocation": [[[0, 0, 1]]]},
    {"id": 1, "status": "rejected", "code": "job.unknown", "message": "no job 5"},
]

PROGRAM = {"name": "parley", "version": "0.1", "language": "python"}

BODIES = {
    "hello": {
        "versions": ["1.0"],
        "client": PROGRAM,
        "capabilities": {"state": "snapshot"},
        "ask": "always",
        "wants": ["job.ended"],
        "scenario": "kth",
    },
    "ready": {},
    "decision.reply": {"decisions": DECISIONS, "state_version": 3, "compute_us": 12},
    "ping": {},
    "bye": {"reason": "enough"},
    "welcome": {
        "version": "1.0",
        "server": PROGRAM,
        "granted": {"state": "events"},
        "ask": "actionable",
        "wants": sorted(EVENT_KINDS),
        "seed": 0,
        "limits": {"message_bytes": 1, "depth": 32, "decisions": 10},
        "policy": {
            "on_reject": "report",
            "on_timeout": "fail",
            "on_disconnect": "fail",
            "latency_model": "zero",
        },
        "scenario": {
            "name": "kth",
            "digest": "00ff",
            "rules": {
                "request": "nodes",
                "select": "all",
                "on_overrun": "run",
                "estimate": "trace",
                "estimate_missing": "runtime",
            },
        },
        "platform": {
            "node_count": 8,
            "groups": [{"name": "nodes", "first": 0, "last": 7, "capacity": {"core": 4}}],
        },
    },
    "decision.request": {
        "now_us": 6,
        "attempt": 1,
        "events": EVENTS,
        "outcomes": OUTCOMES,
        "state_version": 3,
        "state": STATE,
        "deadline_ms": 60_000,
    },
    "session.end": {
        "reason": "completed",
        "now_us": 9,
        "outcomes": OUTCOMES,
        "stats": {
            "submitted": 5,
            "completed": 1,
            "failed": 1,
            "timed_out": 1,
            "killed": 1,
            "rejected": 1,
        },
    },
    "pong": {},
    "error": {
        "code": "message.unknown",
        "message": "no",
        "fatal": False,
        "path": "type",
        "supported": ["hello"],
    },
}


def example_of(kind):
    """Return a good message with every field in it."""
    envelope = FROM_CLIENT if kind in CLIENT_MESSAGES else FROM_SERVER
    if kind == "hello":
        envelope = {"v": 1}
    return copy.deepcopy({**envelope, "type": kind, "body": BODIES[kind]})


# ---------------------------------------------------------------------- variants of an example

ABSENT = object()

SIZES = {
    "long enough": "x" * 65_536,
    "too long": "x" * 65_537,
    "long in bytes only": "\u20ac" * 65_536,
}

VARIANTS = [
    *[ABSENT, None, True, False, "12", "", "\0", *SIZES.values()],
    *[0, 1, 2, -1, 2.0, 1.0, 2.5, -0.0, -1.0, 1e300],
    *[MAX_INTEGER, MAX_INTEGER + 1, -MAX_INTEGER, -MAX_INTEGER - 1],
    *[float(MAX_INTEGER), float(MAX_INTEGER + 1)],
    *[[], {}, [None], ["1.0"], [[]], {"kind": "start"}, {"k": 1}, {"x" * 65_537: 1}],
    *["up", "zero", "start", "job.ended", "always", "unknown"],
]


def places_in(value, here=()):
    """Yield the path of everything in a value, itself left out."""
    match value:
        case dict():
            steps = list(value.items())
        case list():
            steps = list(enumerate(value))
        case _:
            steps = []
    for step, item in steps:
        yield (*here, step)
        yield from places_in(item, (*here, step))


def tables_in(value, here=()):
    """Yield the path of every map and array in a value, itself among them."""
    yield here
    for place in places_in(value, here):
        item = value
        for step in place:
            item = item[step]
        if isinstance(item, dict | list):
            yield place


def changed(message, place, variant):
    """Return the message with another value at a place; None if the place is gone."""
    result = copy.deepcopy(message)
    table = result
    try:
        for step in place[:-1]:
            table = table[step]
        if variant is ABSENT:
            del table[place[-1]]
        else:
            table[place[-1]] = copy.deepcopy(variant)
    except (LookupError, TypeError):
        return None
    return result


def extended(message, place):
    """Return the message with one more field, or element, in one of its tables."""
    result = copy.deepcopy(message)
    table = result
    for step in place:
        table = table[step]
    if isinstance(table, dict):
        table["of a later version"] = 1
    else:
        table.append(copy.deepcopy(table[-1]) if table else 1)
    return result


@cache
def validator_of(kind):
    """Return the validator of a committed schema."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}.schema.json").read_text()))


def decoder_takes(kind, message):
    """Whether the decoder takes a message as one of its kind."""
    read = read_client_message if kind in CLIENT_MESSAGES else read_server_message
    try:
        return read(message)["type"] == kind
    except ProtocolError:
        return False


def verdicts(kind, message):
    """Return whether the schema and the decoder take a message."""
    return validator_of(kind).is_valid(message), decoder_takes(kind, message)


def disagreements(kind, messages):
    """Return those of the messages, by what was changed, on which schema and decoder disagree."""
    found = []
    for label, message in messages:
        by_schema, by_decoder = verdicts(kind, message)
        if by_schema != by_decoder:
            found.append(f"{label}: schema {by_schema}, decoder {by_decoder}")
    return found


# ---------------------------------------------------------------------- schema and decoder agree


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_good_example_is_valid_to_both(kind):
    by_schema, by_decoder = verdicts(kind, example_of(kind))

    assert by_schema
    assert by_decoder


@pytest.mark.parametrize("kind", MESSAGES)
def test_schema_and_decoder_agree_on_every_variant_of_every_field(kind):
    good = example_of(kind)
    variants = [
        (f"{place} = {variant!r:.40}", changed(good, place, variant))
        for place in places_in(good)
        for variant in VARIANTS
    ]

    found = disagreements(kind, variants)

    assert found == []
    assert {decoder_takes(kind, message) for _, message in variants} == {True, False}


@pytest.mark.parametrize("kind", MESSAGES)
def test_schema_and_decoder_agree_on_further_fields_and_elements(kind):
    good = example_of(kind)

    found = disagreements(kind, [(place, extended(good, place)) for place in tables_in(good)])

    assert found == []


@given(data=st.data(), kind=st.sampled_from(MESSAGES))
def test_schema_and_decoder_agree_on_several_changes_at_once(data, kind):
    message = example_of(kind)
    places = list(places_in(message))
    for _ in range(data.draw(st.integers(2, 4))):
        place, variant = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(VARIANTS))
        message = changed(message, place, variant) or message

    by_schema, by_decoder = verdicts(kind, message)

    assert by_schema == by_decoder


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_field_of_a_later_version_is_valid_to_both(kind):
    message = {**example_of(kind), "later": {"than": [1, 0]}}
    message["body"]["later"] = None

    by_schema, by_decoder = verdicts(kind, message)

    assert by_schema
    assert by_decoder


@pytest.mark.parametrize("kind", MESSAGES)
def test_every_message_is_valid_to_the_schema_of_its_own_type_only(kind):
    valid = {other for other in MESSAGES if validator_of(other).is_valid(example_of(kind))}

    assert valid == {kind}


def test_the_examples_hold_every_kind_there_is():
    assert {event["kind"] for event in EVENTS} > EVENT_KINDS
    assert {decision["kind"] for decision in DECISIONS} > DECISION_KINDS
    assert set(BODIES) == set(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES)
def test_the_examples_hold_every_field_there_is(kind):
    shown = {str(step) for place in places_in(example_of(kind)) for step in place}

    defined = {
        name
        for table in subschemas(validator_of(kind).schema)
        for name in table.get("properties", ())
    }

    assert defined <= shown


# ---------------------------------------------------------------------- the schemas themselves


def subschemas(schema):
    """Yield every map in a schema, itself among them."""
    match schema:
        case dict():
            yield schema
            for item in schema.values():
                yield from subschemas(item)
        case list():
            for item in schema:
                yield from subschemas(item)


def test_the_committed_schemas_are_what_the_models_say():
    committed = {path.name: path.read_bytes() for path in SCHEMAS.iterdir()}

    generated = {name: text.encode() for name, text in all_schemas().items()}

    assert sorted(committed) == sorted(generated)
    assert [name for name in NAMES if committed[name] != generated[name]] == []


def test_generating_twice_gives_the_same():
    assert all_schemas() == all_schemas()


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_valid_json_schema(name):
    schema = json.loads(all_schemas()[name])

    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


@pytest.mark.parametrize("name", NAMES)
def test_the_id_carries_the_version_and_the_name(name):
    schema = json.loads(all_schemas()[name])

    assert schema["$id"] == f"urn:parley:{PROTOCOL_VERSION}:{name.removesuffix('.schema.json')}"


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_leads_somewhere(name):
    schema = json.loads(all_schemas()[name])

    references = {part["$ref"] for part in subschemas(schema) if isinstance(part.get("$ref"), str)}

    assert references <= {f"#/$defs/{definition}" for definition in schema.get("$defs", ())}


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("tag", ["type", "kind"])
def test_a_tag_is_required_wherever_it_is_defined(kind, tag):
    tables = [
        table
        for table in subschemas(json.loads(all_schemas()[f"{kind}.schema.json"]))
        if tag in table.get("properties", {})
    ]

    optional = [table["title"] for table in tables if tag not in table.get("required", ())]

    assert optional == []
    assert tables or (tag == "kind" and kind not in {"decision.request", "decision.reply"})


@pytest.mark.parametrize("kind", MESSAGES)
def test_no_field_has_a_default(kind):
    schema = json.loads(all_schemas()[f"{kind}.schema.json"])

    assert [table for table in subschemas(schema) if "default" in table] == []


def test_there_is_a_schema_for_every_message():
    assert {f"{kind}.schema.json" for kind in MESSAGES} <= set(NAMES)


# ---------------------------------------------------------------------- the command


def test_the_check_passes_on_the_committed_schemas():
    done = parley("schema", "--check", "schemas", cwd=PROJECT)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_the_check_fails_where_a_file_differs_and_names_it(tmp_path, damage):
    directory = shutil.copytree(SCHEMAS, tmp_path / "schemas")
    if damage == "changed":
        with (directory / "hello.schema.json").open("a") as file:
            file.write("\n")
    else:
        (directory / "hello.schema.json").unlink()
    before = sorted(directory.iterdir())

    done = parley("schema", "--check", directory)

    assert done.returncode != 0
    assert "hello.schema.json" in done.stderr
    assert sorted(directory.iterdir()) == before


def test_what_the_command_writes_is_what_the_models_say(tmp_path):
    done = parley("schema", tmp_path / "new")

    assert done.returncode == 0
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written == all_schemas()
