"""The committed schemas: generated from the models, valid, and of one mind with the decoder."""

from __future__ import annotations

import copy
import json
import re
import shutil
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from parley_protocol import (
    DECISION_CODES,
    MAX_INTEGER,
    MESSAGE_CODES,
    NEXT,
    PROTOCOL_VERSION,
    Dialect,
    ProtocolError,
    Role,
    State,
    decode,
    encode,
    read_client_message,
    read_server_message,
)
from parley_protocol.examples import EXAMPLES, SESSION, examples_of
from parley_protocol.messages import (
    CLIENT_MESSAGES,
    DECISION_KINDS,
    EVENT_KINDS,
    SERVER_MESSAGES,
)
from parley_protocol.requirements import REQUIREMENTS_BY_MESSAGE
from parley_server.schemas import generated_files
from tests.support import PROJECT, parley

SCHEMAS = PROJECT / "schemas"
FILES = generated_files()
NAMES = sorted(name for name in FILES if name.endswith(".schema.json"))
MESSAGES = sorted({**CLIENT_MESSAGES, **SERVER_MESSAGES})


def good_examples(kind):
    """Return good messages that hold, together, every field of their type."""
    return [
        copy.deepcopy(message)
        for name, message in examples_of(kind).items()
        if not name.startswith("session-")
    ]


def small_examples(kind):
    """Return the same with no more than one event, decision and outcome in each message."""
    small = []
    for good in good_examples(kind):
        lists = {name: good["body"].get(name, ()) for name in ("decisions", "events", "outcomes")}
        for index in range(max(1, *map(len, lists.values()))):
            message = copy.deepcopy(good)
            for name, items in lists.items():
                if items:
                    message["body"][name] = copy.deepcopy(list(items[index : index + 1]))
            if index:
                message["body"].pop("state", None)
            small.append(message)
    return small


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
def registry():
    """Return the committed schemas as they refer to one another."""
    return (
        Registry()
        .with_resources(
            (schema["$id"], Resource.from_contents(schema))
            for schema in (json.loads((SCHEMAS / name).read_text()) for name in NAMES)
        )
        .crawl()
    )


@cache
def validator_of(kind):
    """Return the validator of a committed schema."""
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text())
    return Draft202012Validator(schema, registry=registry())


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


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_good_example_is_valid_to_both(name):
    by_schema, by_decoder = verdicts(EXAMPLES[name]["type"], copy.deepcopy(EXAMPLES[name]))

    assert by_schema
    assert by_decoder


@pytest.mark.parametrize("kind", MESSAGES)
def test_schema_and_decoder_agree_on_every_variant_of_every_field(kind):
    variants = [
        (f"{place} = {variant!r:.40}", changed(good, place, variant))
        for good in small_examples(kind)
        for place in places_in(good)
        # What a state is made of is varied in the snapshot, by the same definition.
        if kind == "state.snapshot" or place[:2] != ("body", "state") or len(place) == 2
        for variant in VARIANTS
    ]

    found = disagreements(kind, variants)

    assert found == []
    assert {decoder_takes(kind, message) for _, message in variants} == {True, False}


@pytest.mark.parametrize("kind", MESSAGES)
def test_schema_and_decoder_agree_on_further_fields_and_elements(kind):
    found = [
        disagreement
        for good in good_examples(kind)
        for disagreement in disagreements(
            kind, [(place, extended(good, place)) for place in tables_in(good)]
        )
    ]

    assert found == []


@given(data=st.data(), kind=st.sampled_from(MESSAGES))
def test_schema_and_decoder_agree_on_several_changes_at_once(data, kind):
    message = data.draw(st.sampled_from(good_examples(kind)))
    places = list(places_in(message))
    for _ in range(data.draw(st.integers(2, 4))):
        place, variant = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(VARIANTS))
        message = changed(message, place, variant) or message

    by_schema, by_decoder = verdicts(kind, message)

    assert by_schema == by_decoder


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_field_of_a_later_version_is_valid_to_both(kind):
    for good in good_examples(kind):
        message = {**good, "later": {"than": [1, 0]}}
        message["body"]["later"] = None

        by_schema, by_decoder = verdicts(kind, message)

        assert by_schema
        assert by_decoder


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_message_is_valid_to_the_schema_of_its_own_type_only(name):
    valid = {other for other in MESSAGES if validator_of(other).is_valid(EXAMPLES[name])}

    assert valid == {EXAMPLES[name]["type"]}


# ---------------------------------------------------------------------- the examples


def test_the_examples_hold_every_kind_there_is():
    bodies = [message["body"] for message in EXAMPLES.values()]

    events = {event["kind"] for body in bodies for event in body.get("events", ())}
    decisions = {decision["kind"] for body in bodies for decision in body.get("decisions", ())}

    assert events > EVENT_KINDS
    assert decisions > DECISION_KINDS
    assert {message["type"] for message in EXAMPLES.values()} == set(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES)
def test_the_examples_hold_every_field_there_is(kind):
    shown = {
        str(step) for good in good_examples(kind) for place in places_in(good) for step in place
    }

    defined = {
        name for table in subschemas(whole_schema(kind)) for name in table.get("properties", ())
    }

    assert defined <= shown


@pytest.mark.parametrize("dialect", Dialect, ids=lambda dialect: dialect.value)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_survives_the_wire(name, dialect):
    assert decode(encode(EXAMPLES[name], dialect)) == json.loads(json.dumps(EXAMPLES[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_committed_bytes_of_an_example_are_its_committed_json(name):
    packed = bytes.fromhex((SCHEMAS / f"examples/{name}.hex").read_text())
    text = (SCHEMAS / f"examples/{name}.json").read_text()

    assert decode(packed) == json.loads(text) == decode(text.encode())


def test_the_example_session_is_a_legal_conversation():
    state = State.NEW
    for message in SESSION:
        role = Role.CLIENT if message["type"] in CLIENT_MESSAGES else Role.SERVER
        state = NEXT[state, role, message["type"]]

    assert state is State.ENDED


# ---------------------------------------------------------------------- the catalog

CATALOG = json.loads(FILES["catalog.json"])


def test_the_catalog_holds_every_message_kind_and_code_there_is():
    assert sorted(CATALOG["messages"]) == MESSAGES
    assert set(CATALOG["events"]) == EVENT_KINDS
    assert set(CATALOG["decisions"]) == DECISION_KINDS
    assert set(CATALOG["codes"]["messages"]) == set(MESSAGE_CODES)
    assert set(CATALOG["codes"]["decisions"]) == set(DECISION_CODES)


def test_the_catalog_names_the_files_that_there_are():
    named = {*CATALOG["schemas"].values(), "catalog.json"}
    for example in CATALOG["examples"].values():
        named |= {example["json"], example["messagepack"]}

    # Vectors and transcripts are the conformance kit's, and found beside them.
    own = {name for name in FILES if name.startswith(("vectors/", "transcripts/"))}
    assert named == set(FILES) - own
    for identity, name in CATALOG["schemas"].items():
        assert json.loads(FILES[name])["$id"] == identity


def test_the_transitions_of_the_catalog_are_the_table_in_code():
    steps = {
        (step["state"], step["from"], step["type"]): step["next"] for step in CATALOG["transitions"]
    }

    assert steps == {
        (state.value, role.value, kind): there.value for (state, role, kind), there in NEXT.items()
    }
    assert [state["state"] for state in CATALOG["states"]] == [state.value for state in State]


@pytest.mark.parametrize("kind", CLIENT_MESSAGES)
def test_every_message_of_a_client_is_answered_by_what_the_table_allows(kind):
    entry = CATALOG["messages"][kind]

    after = {step["next"] for step in CATALOG["transitions"] if step["type"] == kind}
    answers = {step["type"] for step in CATALOG["transitions"] if step["state"] in after}

    assert set(entry["answered_by"]) == answers | {"error"}
    assert set(entry["legal_in"]) == {
        step["state"] for step in CATALOG["transitions"] if step["type"] == kind
    }


def test_every_code_of_a_message_answers_some_message():
    listed = {code for entry in CATALOG["messages"].values() for code in entry.get("errors", ())}

    assert listed == set(MESSAGE_CODES)


def test_every_code_of_a_decision_belongs_to_some_kind():
    listed = {code for entry in CATALOG["decisions"].values() for code in entry["codes"]}

    assert listed | {"decision.unsupported"} == set(DECISION_CODES)


def test_the_catalog_names_requirements_of_every_message():
    named = {kind: entry["requirements"] for kind, entry in CATALOG["messages"].items()}

    assert named == {kind: list(REQUIREMENTS_BY_MESSAGE[kind]) for kind in MESSAGES}


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


def whole_schema(kind):
    """Return the schema of a message together with the definitions it refers to."""
    definitions = json.loads(FILES["definitions.schema.json"])["$defs"]
    found, waiting = {}, [json.loads(FILES[f"{kind}.schema.json"])]
    while waiting:
        for table in subschemas(waiting.pop()):
            name = str(table.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
    return [json.loads(FILES[f"{kind}.schema.json"]), *found.values()]


def test_the_committed_files_are_what_the_models_say():
    committed = {
        path.relative_to(SCHEMAS).as_posix(): path.read_bytes()
        for path in SCHEMAS.rglob("*")
        if path.is_file()
    }

    assert sorted(committed) == sorted(FILES)
    assert [name for name in FILES if committed[name] != FILES[name].encode()] == []


def test_generating_twice_gives_the_same():
    assert generated_files() == FILES


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_valid_json_schema(name):
    schema = json.loads(FILES[name])

    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


@pytest.mark.parametrize("name", NAMES)
def test_the_id_carries_the_version_and_the_name(name):
    schema = json.loads(FILES[name])

    assert schema["$id"] == f"urn:parley:{PROTOCOL_VERSION}:{name.removesuffix('.schema.json')}"


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_leads_somewhere(name):
    schema = json.loads(FILES[name])
    resolver = registry().resolver(schema["$id"])

    references = {part["$ref"] for part in subschemas(schema) if isinstance(part.get("$ref"), str)}

    for reference in references:
        assert isinstance(resolver.lookup(reference).contents, dict)


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("tag", ["type", "kind"])
def test_a_tag_is_required_wherever_it_is_defined(kind, tag):
    tables = [
        table for table in subschemas(whole_schema(kind)) if tag in table.get("properties", {})
    ]

    optional = [table["title"] for table in tables if tag not in table.get("required", ())]

    assert optional == []
    assert tables or (tag == "kind" and kind not in {"decision.request", "decision.reply"})


@pytest.mark.parametrize(
    "name", [*(f"{kind}.schema.json" for kind in MESSAGES), "definitions.schema.json"]
)
def test_no_field_has_a_default(name):
    assert [table for table in subschemas(json.loads(FILES[name])) if "default" in table] == []


def test_no_name_in_the_schemas_ends_as_only_our_models_do():
    definitions = json.loads(FILES["definitions.schema.json"])["$defs"]

    assert not [name for name in definitions if name.endswith(("Dict", "Body"))]
    assert not [
        schema["title"]
        for name in NAMES
        for schema in subschemas(json.loads(FILES[name]))
        if str(schema.get("title", "")).endswith(("Dict", "Body"))
    ]


@pytest.mark.parametrize("kind", MESSAGES)
def test_every_field_says_what_it_means(kind):
    silent = [
        (table["title"], name)
        for table in subschemas(whole_schema(kind))
        for name, field in table.get("properties", {}).items()
        if not {"description", "const", "not", "$ref"} & field.keys()
    ]

    assert silent == []


def test_there_is_a_schema_for_every_message():
    assert {f"{kind}.schema.json" for kind in MESSAGES} <= set(NAMES)


# ---------------------------------------------------------------------- the command


SPEC = PROJECT / "protocol" / "spec"


def test_the_check_passes_on_what_is_committed():
    done = parley("schema", "--check", "schemas", "--spec", "protocol/spec", cwd=PROJECT)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "name", ["hello.schema.json", "catalog.json", "examples/hello.hex", "examples/bye.json"]
)
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_the_check_fails_where_a_file_differs_and_names_it(tmp_path, name, damage):
    directory = shutil.copytree(SCHEMAS, tmp_path / "schemas")
    if damage == "changed":
        with (directory / name).open("a") as file:
            file.write("\n")
    else:
        (directory / name).unlink()
    before = sorted(directory.rglob("*"))

    done = parley("schema", "--check", directory)

    assert done.returncode == 1
    assert re.fullmatch(rf"parley: .*: not what the models say: {re.escape(name)}\n", done.stderr)
    assert sorted(directory.rglob("*")) == before


def test_the_check_fails_where_a_generated_part_of_a_page_differs(tmp_path):
    directory = shutil.copytree(SPEC, tmp_path / "spec")
    page = directory / "lifecycle.md"
    page.write_text(page.read_text().replace("| `deciding` | client |", "| `deciding` | server |"))

    checked = parley("schema", "--check", SCHEMAS, "--spec", directory)
    parley("schema", tmp_path / "schemas", "--spec", directory)

    assert checked.returncode == 1
    assert "lifecycle.md" in checked.stderr
    assert page.read_bytes() == (SPEC / "lifecycle.md").read_bytes()


def test_what_the_command_writes_is_what_the_models_say(tmp_path):
    done = parley("schema", tmp_path / "new")

    assert done.returncode == 0
    written = {
        path.relative_to(tmp_path / "new").as_posix(): path.read_text()
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    assert written == FILES


def test_pages_that_are_not_there_are_told_in_one_line(tmp_path):
    done = parley("schema", tmp_path / "new", "--spec", tmp_path / "nowhere")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr
