"""JSON Schemas of the messages, generated from the models that validate them."""

from __future__ import annotations

import json
from typing import Any

from parley_protocol.codec import adapter
from parley_protocol.messages import CLIENT_MESSAGES, PROTOCOL_VERSION, SERVER_MESSAGES

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def message_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every message, by file name."""
    return {
        f"{kind}.schema.json": identified(adapter(kind).json_schema(), kind)
        for kind in sorted({*CLIENT_MESSAGES, *SERVER_MESSAGES})
    }


def identified(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a schema that says which dialect it is in and what it is called."""
    return {"$schema": DIALECT, "$id": f"urn:parley:{PROTOCOL_VERSION}:{name}", **schema}


def as_text(schema: dict[str, Any]) -> str:
    """Return a schema as it is written to a file, the same every time."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
