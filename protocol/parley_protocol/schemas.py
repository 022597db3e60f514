"""JSON Schemas of the messages, generated from the models that validate them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from parley_protocol.codec import adapter
from parley_protocol.messages import CLIENT_MESSAGES, PROTOCOL_VERSION, SERVER_MESSAGES
from parley_protocol.transcript_lines import TranscriptLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DEFINITIONS = "definitions"
"""The name of the schema that holds what several messages share."""

MESSAGE_KINDS = tuple(sorted({*CLIENT_MESSAGES, *SERVER_MESSAGES}))

_LOCAL = "#/$defs/"


def protocol_schemas() -> dict[str, dict[str, Any]]:
    """Return every schema of the protocol by its name: messages, definitions, transcript."""
    definitions: dict[str, Any] = {}
    schemas = {kind: _message_schema(kind, definitions) for kind in MESSAGE_KINDS}
    schemas[DEFINITIONS] = identified(
        {
            "title": "Definitions",
            "description": "What the messages are made of.",
            "$defs": dict(sorted(definitions.items())),
        },
        DEFINITIONS,
    )
    schemas["transcript"] = identified(
        _tidy({"title": "TranscriptLine", **TypeAdapter(TranscriptLine).json_schema()}),
        "transcript",
    )
    return schemas


def schema_id(name: str) -> str:
    """Return what a schema is called wherever it lies."""
    return f"urn:parley:{PROTOCOL_VERSION}:{name}"


def schema_file(name: str) -> str:
    """Return the name of the file in which a schema lies."""
    return f"{name}.schema.json"


def identified(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a schema that says which dialect it is in and what it is called."""
    return {"$schema": DIALECT, "$id": schema_id(name), **schema}


def as_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as it is written to a file, the same every time."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def shared_name(model: str) -> str:
    """Return what a model is called in the schemas: the ends of its name are our own affair."""
    return model.removesuffix("Dict").removesuffix("Body")


def _message_schema(kind: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a message; what it refers to joins the *definitions*."""
    schema = _tidy(adapter(kind).json_schema())
    for name, definition in schema.pop("$defs", {}).items():
        shared = _referring(definition, _LOCAL)
        if definitions.setdefault(shared_name(name), shared) != shared:
            raise ValueError(f"two definitions are called {shared_name(name)}")
    return identified(_referring(schema, f"{schema_id(DEFINITIONS)}{_LOCAL}"), kind)


def _referring(schema: Any, base: str) -> Any:
    """Return a schema whose references lead to definitions at *base*, by their shared names."""
    match schema:
        case dict():
            return {
                key: base + shared_name(item.removeprefix(_LOCAL))
                if key == "$ref"
                else _referring(item, base)
                for key, item in schema.items()
            }
        case list():
            return [_referring(item, base) for item in schema]
        case _:
            return schema


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the titles that only repeat the names of fields."""
    for table in list(_tables(schema)):
        if isinstance(table.get("title"), str):
            table["title"] = shared_name(table["title"])
        for field in table.get("properties", {}).values():
            field.pop("title", None)
    return schema


def _tables(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every map in a schema, itself among them."""
    match schema:
        case dict():
            yield schema
            for item in schema.values():
                yield from _tables(item)
        case list():
            for item in schema:
                yield from _tables(item)
