"""A Slurm configuration's nodes and partitions: its NodeName and PartitionName lines.

Source: the manual page of slurm.conf (NodeName, CPUs, Sockets, CoresPerSocket, ThreadsPerCore,
RealMemory, Gres, Feature; PartitionName, Nodes, Default; DEFAULT lines; SelectTypeParameters).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_NODES = 1_000_000
_PAIR = re.compile(r'([\w.-]+)=("[^"]*"|\S+)')
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?", re.ASCII)
_GRES = re.compile(r"([A-Za-z]\w*)(?::([A-Za-z]\w*))?(?::(\d{1,9})([KMG]?))?(?:\(.*\))?", re.ASCII)
_THOUSANDS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True, slots=True)
class _Node:
    """What one node is: nodes that are alike and follow one another become a group."""

    name: str
    per_node: tuple[tuple[str, int], ...]
    features: tuple[str, ...]


class _Configuration:
    """Reads a configuration line by line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._line = 0
        self._node_defaults: dict[str, str] = {}
        self._partition_defaults: dict[str, str] = {}
        self.nodes: dict[str, _Node] = {}
        self.partitions: dict[str, tuple[dict[str, str], int]] = {}
        self.memory_counts = False

    def wrong(self, said: str, line: int | None = None) -> InputError:
        return InputError(f"{self._source}: line {line or self._line}: {said}")

    def read(self, text: str) -> None:
        for self._line, line in _whole_lines(text):
            pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
            first = line.partition("=")[0].strip().lower()
            match first:
                case "nodename":
                    self._on_nodes(pairs)
                case "partitionname":
                    self._on_partition(pairs)
                case "selecttypeparameters":
                    self.memory_counts = "memory" in line.lower()
                case _ if first.split()[:1] == ["include"]:
                    raise self.wrong("includes another file; write its lines here")

    def _on_nodes(self, pairs: dict[str, str]) -> None:
        expression = pairs.pop("nodename")
        if expression.upper() == "DEFAULT":
            self._node_defaults |= pairs
            return
        given = {**self._node_defaults, **pairs}
        per_node = tuple(sorted(self._resources(given).items()))
        listed = given.get("feature", given.get("features", ""))
        features = tuple(sorted({name.strip() for name in listed.split(",")} - {""}))
        for name in self.expand(expression):
            if name in self.nodes:
                raise self.wrong(f"node {name!r} is defined twice")
            self.nodes[name] = _Node(name, per_node, features)

    def _resources(self, given: Mapping[str, str]) -> dict[str, int]:
        if "cpus" in given:
            cores = self._whole(given, "cpus", 1)
        else:
            sockets = self._whole(given, "sockets", self._whole(given, "boards", 1))
            cores = sockets * self._whole(given, "corespersocket", 1)
            cores *= self._whole(given, "threadspercore", 1)
        resources = {"core": cores}
        memory = self._whole(given, "realmemory", 0)
        if memory:
            resources["memory"] = memory
        for part in filter(None, re.split(r",(?![^(]*\))", given.get("gres", ""))):
            match = _GRES.fullmatch(part.strip())
            if match is None:
                raise self.wrong(f"field 'Gres' is {part[:32]!r}: expected such as gpu:4")
            kind, count = match[1], int(match[3] or 1) * _THOUSANDS[match[4] or ""]
            resources[kind] = resources.get(kind, 0) + count
        return {kind: amount for kind, amount in resources.items() if amount}

    def _whole(self, given: Mapping[str, str], name: str, default: int) -> int:
        text = given.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise self.wrong(f"field {name!r} is {text[:32]!r}: expected a whole number")
        return int(text)

    def _on_partition(self, pairs: dict[str, str]) -> None:
        name = pairs.pop("partitionname")
        if name.upper() == "DEFAULT":
            self._partition_defaults |= pairs
            return
        for part in name.split(","):
            if part in self.partitions:
                raise self.wrong(f"partition {part!r} is defined twice")
            self.partitions[part] = ({**self._partition_defaults, **pairs}, self._line)

    def members(self, name: str) -> set[str]:
        """Return the nodes of a partition.

        Raises:
            InputError: It names one that is not defined.
        """
        given, line = self.partitions[name]
        expression = given.get("nodes", "")
        if expression.upper() == "ALL":
            return set(self.nodes)
        members = set(self.expand(expression, line))
        for node in sorted(members):
            if node not in self.nodes:
                raise self.wrong(
                    f"partition {name!r} is of a node {node!r} that there is not", line
                )
        return members

    def expand(self, expression: str, line: int | None = None) -> Iterator[str]:
        """Yield the names of a list such as `cpu[001-010,015],login1`."""
        for part in filter(None, re.split(r",(?![^\[]*\])", expression)):
            pieces = _BRACKETS.split(part)
            choices = [
                [piece] if index % 2 == 0 else self._numbers(piece, expression, line)
                for index, piece in enumerate(pieces)
            ]
            total = 1
            for choice in choices:
                total *= len(choice)
            if total + len(self.nodes) > _MOST_NODES or "[" in "".join(pieces[::2]):
                raise self.wrong(f"{expression[:48]!r} is no list of nodes", line)
            for names in product(*choices):
                yield "".join(names)

    def _numbers(self, text: str, expression: str, line: int | None) -> list[str]:
        found: list[str] = []
        for part in text.split(","):
            match = _RANGE.fullmatch(part.strip())
            last = int(match[2] or match[1]) if match else -1
            if match is None or not 0 <= last - int(match[1]) < _MOST_NODES:
                raise self.wrong(f"{expression[:48]!r} is no list of nodes", line)
            width = len(match[1])
            found += [f"{number:0{width}d}" for number in range(int(match[1]), last + 1)]
        return found


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without comments; a backslash joins the next to a line."""
    held, began = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        began = began or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        if (held + line).strip():
            yield began, (held + line).strip()
        held, began = "", 0
    if held.strip():
        yield began, held.strip()


def is_slurm(text: str) -> bool:
    """Whether a text is a Slurm configuration."""
    return re.search(r"^\s*NodeName\s*=", text, re.IGNORECASE | re.MULTILINE) is not None


def tables_of(text: str, source: str) -> dict[str, Any]:
    """Return the tables of our own format that say the same.

    Raises:
        InputError: A line makes no sense.
    """
    configuration = _Configuration(source)
    configuration.read(text)
    if not configuration.nodes:
        raise InputError(f"{source}: no NodeName line defines a node")
    members = {name: configuration.members(name) for name in configuration.partitions}

    def kind(node: _Node) -> tuple[Any, ...]:
        within = tuple(name for name, nodes in members.items() if node.name in nodes)
        return node.per_node, node.features, within

    groups: list[dict[str, Any]] = []
    inside: dict[str, list[str]] = {name: [] for name in members}
    for (per_node, features, within), run in groupby(configuration.nodes.values(), key=kind):
        names = [node.name for node in run]
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        groups.append(
            {
                "name": name,
                "nodes": len(names),
                "per_node": dict(per_node),
                "attributes": dict.fromkeys(features, True),
            }
        )
        for partition in within:
            inside[partition].append(name)
    ours: dict[str, Any] = {"groups": groups, "partitions": _partitions(configuration, inside)}
    has_memory = any("memory" in group["per_node"] for group in groups)
    if configuration.memory_counts and has_memory:
        # RealMemory is in megabytes, and only a configuration such as CR_Core_Memory uses it up.
        ours["memory"] = {"resource": "memory", "kilobytes": 1024}
    return ours


def _partitions(
    configuration: _Configuration, inside: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    described = []
    for name, groups in inside.items():
        given, line = configuration.partitions[name]
        if not groups:
            raise configuration.wrong(f"partition {name!r} has no node; expected Nodes=", line)
        default = given.get("default", "no").upper() == "YES"
        described.append({"name": name, "groups": groups, "default": default})
    return described
