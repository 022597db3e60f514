"""Reading a machine from a file, in whichever of the known formats it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError
from parley_server.platform import accasim, simgrid, slurm
from parley_server.platform.description import PlatformDescription
from parley_server.settings import parse_settings, read_bytes, text_of, validate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_platform(path: Path) -> PlatformDescription:
    """Return the machine that a file describes; its content tells the format.

    Ours in TOML or JSON, AccaSim's JSON, Batsim's XML, Slurm's configuration.

    Raises:
        InputError: The file cannot be read or parsed.
        UsageError: It does not describe a machine.
    """
    return validate(PlatformDescription, _tables(path), source=str(path))


def format_of(path: Path) -> str:
    """Return in which format a file describes its machine.

    Raises:
        InputError: The file cannot be read or parsed.
    """
    content = read_bytes(path)
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return "batsim"
    text = text_of(content, path)
    if _is_json(text, path):
        return (
            "accasim" if accasim.is_accasim(parse_settings(text, path, json_too=True)) else "parley"
        )
    return "slurm" if slurm.is_slurm(text) else "parley"


def _tables(path: Path) -> dict[str, Any]:
    source, content = str(path), read_bytes(path)
    match format_of(path):
        case "batsim":
            return simgrid.tables_of(content, source)
        case "slurm":
            return slurm.tables_of(text_of(content, path), source)
        case "accasim":
            tables = parse_settings(text_of(content, path), path, json_too=True)
            return accasim.tables_of(tables, source)
        case _:
            text = text_of(content, path)
            return parse_settings(text, path, json_too=_is_json(text, path))


def _is_json(text: str, path: Path) -> bool:
    return path.suffix == ".json" or text.lstrip("\ufeff \t\r\n").startswith("{")


def guessed(header: Mapping[str, str], source: str) -> PlatformDescription:
    """Return the machine that an SWF header lets one guess; its note says that it is a guess.

    Raises:
        InputError: The header names neither nodes nor processors.
    """
    nodes, processors = (_leading(header.get(key, "")) for key in ("MaxNodes", "MaxProcs"))
    if nodes is None and processors is None:
        raise InputError(
            f"{source}: no machine can be guessed: its header says neither MaxNodes nor MaxProcs; "
            "give --nodes or --platform"
        )
    count, cores = nodes or processors or 1, 1
    if nodes and processors and processors % nodes == 0:
        cores = processors // nodes
    elif nodes and processors and processors > nodes:
        # Nodes of several kinds; as many processors as there are, each by itself.
        count = processors
    note = f"a guess from the header of {source} (MaxNodes {nodes}, MaxProcs {processors}): "
    note += f"{count} nodes of {cores} core{'s' if cores > 1 else ''}"
    tables: dict[str, Any] = {
        "name": "guess",
        "groups": [{"nodes": count, "per_node": {"core": cores}}],
        "note": note,
    }
    if cores > 1:
        tables["equivalence"] = {"processor": {"core": 1}}
    return validate(PlatformDescription, tables, source=source)


def _leading(text: str) -> int | None:
    """Return the number that a header's value begins with, such as `70  (dual)`."""
    match = re.match(r"\s*(\d{1,8})\b", text, re.ASCII)
    return int(match[1]) if match and int(match[1]) else None
