"""The generated parts of the specification: tables, a drawing, fields, codes, bytes."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from parley_protocol.catalog import (
    ALWAYS,
    ANY_DECISION,
    CAPABILITIES,
    DECISION_ERRORS,
    ERRORS,
    answered_by,
    direction,
    legal_in,
    turn_of,
)
from parley_protocol.codec import encode
from parley_protocol.conversation import NEXT, State
from parley_protocol.errors import DECISION_CODES, MESSAGE_CODES
from parley_protocol.examples import EXAMPLES, SESSION, examples_of
from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES
from parley_protocol.schemas import DEFINITIONS, protocol_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


_WIDTH = 88
"""Characters of a line of an example."""


def with_generated_parts(page: str) -> str:
    """Return a page of the specification with its generated parts as they are due.

    Raises:
        KeyError: It asks for a part that is not defined.
    """
    return _BLOCK.sub(lambda block: f"{block['begin']}{PARTS[block['name']]()}{block['end']}", page)


# ---------------------------------------------------------------------- states


def state_table() -> str:
    """Return the legal conversation, one line per step."""
    rows = [
        (f"`{state.value}`", role.value, f"`{kind}`", f"`{there.value}`")
        for (state, role, kind), there in NEXT.items()
    ]
    return table(("state", "who speaks", "message", "next state"), rows)


def state_drawing() -> str:
    """Return the same as a diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction TB"]
    for state in State:
        turn = turn_of(state)
        lines.append(
            f'    state "{state.value}{f" ({turn.value})" if turn else ""}" as {state.name}'
        )
    lines.append(f"    [*] --> {State.NEW.name}")
    for (state, _, kind), there in NEXT.items():
        lines.append(f"    {state.name} --> {there.name}: {kind}")
    lines += [f"    {State.ENDED.name} --> [*]", "```", ""]
    return "\n".join(lines)


# ---------------------------------------------------------------------- messages


def messages() -> str:
    """Return every message with its fields and its example."""
    schemas = protocol_schemas()
    parts = []
    for heading, kinds in (
        ("From the client", CLIENT_MESSAGES),
        ("From the server", SERVER_MESSAGES),
    ):
        parts += [f"## {heading}\n", *(_message(kind, schemas[kind], schemas) for kind in kinds)]
    return "\n".join(parts)


def definitions() -> str:
    """Return what messages are made of and several of them share."""
    schemas = protocol_schemas()
    shared = schemas[DEFINITIONS]["$defs"]
    return "\n".join(
        _definition(name, schema)
        for name, schema in shared.items()
        if not _is_body(name, schemas) and "properties" in schema
    )


def envelope() -> str:
    """Return the fields around the bodies, on the way to the server and on the way back."""
    schemas = protocol_schemas()
    parts = []
    for kind, bare in (("ping", "`hello`"), ("pong", "an `error` without a session")):
        fields = dict(schemas[kind]["properties"])
        fields["type"] = {"type": "string", "description": "Which message it is."}
        fields["body"] = {"type": "object", "description": "What it says; see below."}
        for name in fields.keys() & {"session", "epoch", "re", "seq"}:
            meaning = f"{meaning_of(fields[name]).removesuffix('.')}; not in {bare}."
            fields[name] = {**fields[name], "description": meaning}
        required = schemas[kind]["required"]
        parts += [
            f"From the {direction(kind).partition(' ')[0]}:\n",
            _fields({"properties": fields, "required": required}, ""),
        ]
    return "\n".join(parts)


def _message(kind: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    body = schemas[DEFINITIONS]["$defs"][_name_in(schema["properties"]["body"]["$ref"])]
    facts = [
        ("direction", direction(kind)),
        ("legal in", _where_legal(kind)),
        ("answered by", _codes_of(answered_by(kind))),
        ("capability", "none"),
        ("since", "1.0"),
    ]
    if kind in ERRORS:
        facts.append(("errors, beside those of any", _codes_of(ERRORS[kind])))
    lines = [
        f"### `{kind}`\n",
        f"{schema['description']} {body['description']}\n",
        table(("", ""), [fact for fact in facts if fact[1]]),
        _fields(body, "body."),
    ]
    name, example = next(reversed(examples_of(kind).items()))
    lines += [
        f"Example `{name}`:\n",
        _fenced("json", readable(example)),
        _fenced("text", hex_lines(encode(example))),
    ]
    return "\n".join(lines)


def _where_legal(kind: str) -> str:
    if kind == "error":
        return "any state but the end, as the answer to a message of the client or, fatal, unasked"
    return _codes_of(legal_in(kind))


def _definition(name: str, schema: Mapping[str, Any]) -> str:
    return "\n".join([f"### {name}\n", f"{schema['description']}\n", _fields(schema, "")])


def _is_body(name: str, schemas: Mapping[str, Any]) -> bool:
    return any(
        _name_in(schemas[kind]["properties"]["body"]["$ref"]) == name
        for kind in (*CLIENT_MESSAGES, *SERVER_MESSAGES)
    )


def _fields(schema: Mapping[str, Any], prefix: str) -> str:
    """Return the table of the fields of a map."""
    properties = schema.get("properties", {})
    if not properties:
        return "The body is an empty map.\n"
    required = schema.get("required", ())
    rows = [
        (
            f"`{prefix}{name}`",
            type_of(field) + ("" if name in required else "; optional"),
            unit_of(name),
            meaning_of(field),
        )
        for name, field in properties.items()
    ]
    return table(("field", "type", "unit", "meaning"), rows)


def unit_of(name: str) -> str:
    """Return the unit of a field, which its name ends with."""
    if name == "compute_us":
        return "µs, wall"
    if name.endswith("_us"):
        return "µs, simulated"
    if name.endswith("_ms"):
        return "ms, wall"
    if name.endswith("_bytes"):
        return "bytes"
    return ""


def meaning_of(field: Mapping[str, Any]) -> str:
    """Return what a field means; one that holds a definition means what that does."""
    if "description" in field:
        return str(field["description"])
    if "const" in field or "not" in field:
        return "Says which it is."
    references = [part for part in (field, *field.get("anyOf", ())) if "$ref" in part]
    name = _name_in(references[0]["$ref"])
    return str(protocol_schemas()[DEFINITIONS]["$defs"][name]["description"])


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema describes, in a few words."""
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "oneOf" in schema:
        return "one of " + ", ".join(type_of(part) for part in schema["oneOf"])
    if "$ref" in schema:
        return _link(_name_in(schema["$ref"]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    return _TYPES.get(schema.get("type", ""), _anything)(schema)


def _anything(schema: Mapping[str, Any]) -> str:  # noqa: ARG001 - one of the table's
    return "any value"


def _integer(schema: Mapping[str, Any]) -> str:
    match schema["minimum"], schema["maximum"]:
        case 0, _:
            return "natural"
        case 1, 1:
            return "`1`"
        case 1, _:
            return "positive"
        case _:
            return "integer"


def _array(schema: Mapping[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_element(item) for item in schema['prefixItems'])}]"
    least = ", at least one" if schema.get("minItems") else ""
    return f"array of ({type_of(schema['items'])}){least}"


def _element(schema: Mapping[str, Any]) -> str:
    """Return the type of one of the elements that commas stand between."""
    return type_of(schema).replace(", ", " or ") if "enum" in schema else type_of(schema)


def _map(schema: Mapping[str, Any]) -> str:
    items = schema.get("additionalProperties")
    return f"map of ({type_of(items)})" if isinstance(items, dict) else "map"


_TYPES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "integer": _integer,
    "number": lambda _: "amount",
    "string": lambda _: "text",
    "boolean": lambda _: "boolean",
    "array": _array,
    "object": _map,
}


def _name_in(reference: str) -> str:
    return reference.rpartition("/")[2]


def _link(name: str) -> str:
    return "any value" if name == "JsonValue" else f"[{name}](#{name.lower()})"


# ---------------------------------------------------------------------- decisions and codes


def decision_codes() -> str:
    """Return why a decision of each kind may be refused."""
    rows = [
        (f"`{kind}`", CAPABILITIES.get(kind, ""), _codes_of(codes))
        for kind, codes in DECISION_ERRORS.items()
    ]
    rows.append(("any", "", _codes_of(ANY_DECISION)))
    return table(("kind", "capability", "codes"), rows)


def message_codes() -> str:
    """Return the registry of the codes of errors."""
    answers = {
        code: [kind for kind in CLIENT_MESSAGES if code in (*ALWAYS, *ERRORS[kind])]
        for code in MESSAGE_CODES
    }
    rows = [
        (
            f"`{code}`",
            info.cause,
            info.remedy,
            "any" if len(answers[code]) == len(CLIENT_MESSAGES) else _codes_of(answers[code]),
        )
        for code, info in MESSAGE_CODES.items()
    ]
    return table(("code", "cause", "what to do", "answers"), rows)


def outcome_codes() -> str:
    """Return the registry of the codes of refused decisions."""
    rows = [(f"`{code}`", info.cause, info.remedy) for code, info in DECISION_CODES.items()]
    return table(("code", "cause", "what to do"), rows)


# ---------------------------------------------------------------------- bytes


def session_in_bytes() -> str:
    """Return a whole session, each message readable and as bytes."""
    parts = []
    for number, message in enumerate(SESSION, 1):
        who = direction(message["type"]).partition(" ")[0]
        parts += [
            f"{number}. The {who} sends `{message['type']}`:\n",
            _fenced("json", readable(message), indent=3),
            _fenced("text", hex_lines(encode(message)), indent=3),
        ]
    return "\n".join(parts)


def annotated_bytes() -> str:
    """Return the bytes of one message with what each of them says."""
    message = EXAMPLES["ping"]
    return _fenced("text", "\n".join(_annotated(encode(message), message)))


def _annotated(frame: bytes, message: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for the map, and one for each of its fields."""
    yield f"{frame[:1].hex():<32}  a map of {len(message)} pairs"
    for key, value in message.items():
        name, packed = encode(key).hex(" "), encode(value).hex(" ")  # type: ignore[arg-type]
        yield f"{name:<32}  {json.dumps(key)}"
        yield f"    {packed:<28}  {json.dumps(value)}"


def hex_lines(frame: bytes) -> str:
    """Return bytes in hexadecimal, thirty-two to a line."""
    return "\n".join(textwrap.wrap(frame.hex(), 64))


def readable(value: Any, indent: str = "") -> str:
    """Return JSON in which whatever fits on a line stands on one."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(text) <= _WIDTH:
        return text
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {readable(item, inner)}" for key, item in value.items()]
    else:
        items = [readable(item, inner) for item in value]
    joined = f",\n{inner}".join(items)
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n{inner}{joined}\n{indent}{right}"


# ---------------------------------------------------------------------- Markdown


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _codes_of(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _fenced(language: str, text: str, *, indent: int = 0) -> str:
    return textwrap.indent(f"```{language}\n{text}\n```\n", " " * indent)


PARTS: Mapping[str, Callable[[], str]] = {
    "state-table": state_table,
    "state-drawing": state_drawing,
    "envelope": envelope,
    "messages": messages,
    "definitions": definitions,
    "decision-codes": decision_codes,
    "message-codes": message_codes,
    "outcome-codes": outcome_codes,
    "session-in-bytes": session_in_bytes,
    "annotated-bytes": annotated_bytes,
}
"""The parts by the names that pages ask for them with."""
