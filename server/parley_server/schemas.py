"""All JSON Schemas: those of the protocol, and those of the files people write and read."""

from __future__ import annotations

from pydantic import TypeAdapter

from parley_protocol.schemas import as_text, identified, message_schemas
from parley_server.platform import PlatformDescription
from parley_server.results.summary import Summary
from parley_server.scenario import Scenario
from parley_server.workload.information import Information


def all_schemas() -> dict[str, str]:
    """Return the text of every schema file by its name."""
    schemas = message_schemas()
    schemas["scenario.schema.json"] = identified(Scenario.model_json_schema(), "scenario")
    schemas["platform.schema.json"] = identified(
        PlatformDescription.model_json_schema(), "platform"
    )
    schemas["workload-info.schema.json"] = identified(
        TypeAdapter(Information).json_schema(), "workload-info"
    )
    schemas["summary.schema.json"] = identified(TypeAdapter(Summary).json_schema(), "summary")
    return {name: as_text(schema) for name, schema in sorted(schemas.items())}
