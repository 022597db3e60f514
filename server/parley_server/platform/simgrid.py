"""Batsim's platforms, as far as their hosts go: SimGrid's XML.

`host` and `cluster` become nodes with so many cores; links and routes decide nothing here. Hosts
whose role is master or storage hold no jobs. Source: SimGrid's and Batsim's documentation of
platform files.
The standard library's parser does: it fetches nothing, and entities are refused here.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

from parley_server.errors import InputError

_RADICAL = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", re.ASCII)
_NO_JOBS = frozenset({"master", "storage"})
_MOST_GROUPS = 100_000


class _Hosts:
    """Collects hosts as the parser meets them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._on_start
        self._parser.EndElementHandler = self._on_end
        self._parser.EntityDeclHandler = self._on_entity
        self._host: dict[str, str] | None = None
        self._role = "compute_node"
        self._names: set[str] = set()
        self.ignored: dict[str, int] = {}
        self.groups: list[dict[str, Any]] = []

    def parse(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise InputError(f"{self._source}: not XML: {error}") from None

    def _wrong(self, said: str) -> InputError:
        return InputError(f"{self._source}: line {self._parser.CurrentLineNumber}: {said}")

    def _on_entity(self, name: str, *_: object) -> None:
        raise self._wrong(f"defines an entity {name[:32]!r}; platforms need none")

    def _on_start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag:
            case "host" | "cluster":
                self._host, self._role = attributes, "compute_node"
            case "prop" if self._host is not None and attributes.get("id") == "role":
                self._role = attributes.get("value", "")
            case "prop" | "platform" | "zone" | "AS" | "cabinet" | "config":
                pass
            case _:
                self.ignored[tag] = self.ignored.get(tag, 0) + 1

    def _on_end(self, tag: str) -> None:
        if tag not in ("host", "cluster") or self._host is None:
            return
        host, self._host = self._host, None
        name = host.get("id", "")
        if not name:
            raise self._wrong(f"{tag}: field 'id' is missing: expected a name")
        if self._role in _NO_JOBS or name == "master_host":
            return
        if name in self._names:
            raise self._wrong(f"two hosts or clusters are called {name!r}")
        self._names.add(name)
        cores = host.get("core", "1")
        if not (cores.isascii() and cores.isdigit() and 0 < len(cores) < 10 and int(cores)):
            raise self._wrong(f"{name}: field 'core' is {cores[:32]!r}: expected a whole number")
        nodes = self._count(host.get("radical", "")) if tag == "cluster" else 1
        if len(self.groups) >= _MOST_GROUPS:
            raise self._wrong(f"more than {_MOST_GROUPS} hosts by themselves; use clusters")
        self.groups.append({"name": name, "nodes": nodes, "per_node": {"core": int(cores)}})

    def _count(self, radical: str) -> int:
        nodes = 0
        for part in radical.split(","):
            match = _RADICAL.fullmatch(part)
            if match is None or int(match[2] or match[1]) < int(match[1]):
                raise self._wrong(f"field 'radical' is {radical[:32]!r}: expected such as 0-31,40")
            nodes += int(match[2] or match[1]) - int(match[1]) + 1
        return nodes


def tables_of(content: bytes, source: str) -> dict[str, Any]:
    """Return the tables of our own format that say the same of the hosts.

    Raises:
        InputError: It is no XML, or there is no host in it.
    """
    hosts = _Hosts(source)
    hosts.parse(content)
    if not hosts.groups:
        raise InputError(f"{source}: no host and no cluster in it")
    ours: dict[str, Any] = {"name": "platform", "groups": _joined(hosts.groups)}
    if hosts.ignored:
        parts = ", ".join(f"{count} {tag}" for tag, count in sorted(hosts.ignored.items()))
        ours["note"] = f"only hosts are used; not used: {parts[:200]}"
    return ours


def _joined(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return groups with hosts that follow one another and are alike as one."""
    joined: list[dict[str, Any]] = []
    for group in groups:
        last = joined[-1] if joined else None
        if last is not None and last["per_node"] == group["per_node"]:
            last["nodes"] += group["nodes"]
            last["name"] = f"{last['name'].partition(' to ')[0]} to {group['name']}"
        else:
            joined.append(dict(group))
    return joined
