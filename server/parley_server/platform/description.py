"""Our own description of a machine: groups of equal nodes, resources by name.

name = "mixed"

[[groups]]
name = "cpu"
nodes = 100
per_node = { core = 64, memory = 256 }

[[groups]]
name = "gpu"
nodes = 8
per_node = { core = 32, memory = 512, gpu = 4 }
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator, model_validator

from parley_server.engine import NodeGroup
from parley_server.settings import Settings, read_settings, validate

if TYPE_CHECKING:
    from pathlib import Path

MOST_NODES = 10_000_000
"""A bound against a slip of the keyboard; the largest machines have 10^5 nodes."""

Amount = Annotated[int, Field(gt=0, lt=2**40)]


class GroupDescription(Settings):
    """Equal nodes, numbered on from those of the groups before."""

    name: str = Field(default="nodes", description="What the group is called.")
    nodes: int = Field(gt=0, le=MOST_NODES, description="How many nodes.")
    per_node: dict[str, Amount] = Field(description="Amount of each resource on each node.")

    @field_validator("per_node")
    @classmethod
    def _not_empty(cls, per_node: dict[str, int]) -> dict[str, int]:
        if not per_node:
            raise ValueError("a node has at least one resource, such as core = 1")
        return per_node


class PlatformDescription(Settings):
    """A machine."""

    name: str = Field(default="platform", description="What the machine is called.")
    groups: list[GroupDescription] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> PlatformDescription:
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"groups: two groups are called {name!r}")
        if sum(group.nodes for group in self.groups) > MOST_NODES:
            raise ValueError(f"groups: more than {MOST_NODES} nodes in all")
        return self

    @property
    def node_count(self) -> int:
        """Nodes in all."""
        return sum(group.nodes for group in self.groups)

    def node_groups(self) -> list[NodeGroup]:
        """Return the nodes as the engine takes them."""
        return [NodeGroup(group.name, group.nodes, dict(group.per_node)) for group in self.groups]

    def least_node(self) -> dict[str, int]:
        """Return what every node has at least, by name; what some node lacks is left out."""
        first, *others = (group.per_node for group in self.groups)
        return {
            kind: min(amount, *(other[kind] for other in others)) if others else amount
            for kind, amount in sorted(first.items())
            if all(kind in other for other in others)
        }


def uniform(nodes: int, per_node: dict[str, int]) -> PlatformDescription:
    """Return a machine of equal nodes.

    Raises:
        UsageError: A count or an amount is not positive.
    """
    return validate(
        PlatformDescription,
        {"groups": [{"nodes": nodes, "per_node": per_node}]},
        source="platform",
    )


def read_platform(path: Path) -> PlatformDescription:
    """Return the machine a TOML or JSON file describes.

    Raises:
        InputError: The file cannot be read.
        UsageError: It does not describe a machine.
    """
    return validate(PlatformDescription, read_settings(path), source=str(path))
