"""Everything that is generated from the models: schemas, catalog, examples, parts of the spec."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from parley_conformance.reports.model import report_schema
from parley_conformance.vectors import codec_vectors, digest_vectors, transcripts
from parley_protocol.catalog import catalog
from parley_protocol.codec import encode
from parley_protocol.examples import EXAMPLES
from parley_protocol.reference import hex_lines, with_generated_parts
from parley_protocol.schemas import as_text, identified, protocol_schemas, schema_file
from parley_server.experiments.definition import ExperimentSettings
from parley_server.experiments.store import CellRecord
from parley_server.platform import PlatformDescription
from parley_server.results.status import Status
from parley_server.results.summary import Summary
from parley_server.scenario import Scenario
from parley_server.workload.information import Information

if TYPE_CHECKING:
    from pathlib import Path


def generated_files() -> dict[str, str]:
    """Return the text of every generated file, by its path below `schemas/`."""
    schemas = _schemas()
    files = {schema_file(name): as_text(schema) for name, schema in sorted(schemas.items())}
    files["catalog.json"] = as_text(catalog(schemas))
    for name, message in EXAMPLES.items():
        files[f"examples/{name}.json"] = json.dumps(message, indent=2, ensure_ascii=False) + "\n"
        files[f"examples/{name}.hex"] = hex_lines(encode(message)) + "\n"
    files["vectors/codec.json"] = as_text(codec_vectors())
    files["vectors/digest.json"] = as_text(digest_vectors())
    for name, lines in transcripts().items():
        files[f"transcripts/{name}.jsonl"] = lines
    return files


def generated_pages(directory: Path) -> dict[str, str]:
    """Return what the pages of a specification should be, with their generated parts, by name."""
    return {
        page.name: with_generated_parts(page.read_text(encoding="utf-8"))
        for page in sorted(directory.glob("*.md"))
    }


def _schemas() -> dict[str, Any]:
    """Return the schemas of the protocol, and of the files people write and read."""
    files = {
        "cell": TypeAdapter(CellRecord).json_schema(),
        "conformance-report": report_schema(),
        "experiment": ExperimentSettings.model_json_schema(),
        "platform": PlatformDescription.model_json_schema(),
        "scenario": Scenario.model_json_schema(),
        "status": TypeAdapter(Status).json_schema(),
        "summary": TypeAdapter(Summary).json_schema(),
        "workload-info": TypeAdapter(Information).json_schema(),
    }
    return {
        **protocol_schemas(),
        **{name: identified(schema, name) for name, schema in files.items()},
    }
