"""Our own description of a machine: groups of equal nodes, resources by name.

name = "mixed"
memory = { resource = "memory", kilobytes = 1048576 }

[[groups]]
name = "cpu"
nodes = 100
per_node = { core = 64, memory = 256 }
attributes = { model = "epyc" }

[[groups]]
name = "gpu"
nodes = 8
per_node = { core = 32, memory = 512, gpu = 4 }

[[partitions]]
name = "batch"
groups = ["cpu"]
default = true
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator, model_validator

from parley_server.engine import NodeGroup
from parley_server.errors import did_you_mean
from parley_server.markers import attribute_marker, is_marker, partition_marker, spelling
from parley_server.settings import Settings, integral, validate

MOST_NODES = 10_000_000
"""A bound against a slip of the keyboard; the largest machines have 10^5 nodes."""

Amount = Annotated[int, Field(gt=0, lt=2**40), BeforeValidator(integral)]

NodeCount = Annotated[int, Field(gt=0, le=MOST_NODES), BeforeValidator(integral)]

Attribute = Annotated[str | bool | int, BeforeValidator(integral)]


class GroupDescription(Settings):
    """Equal nodes, numbered on from those of the groups before."""

    name: str = Field(default="nodes", description="What the group is called.")
    nodes: NodeCount = Field(description="How many nodes.")
    per_node: dict[str, Amount] = Field(description="Amount of each resource on each node.")
    attributes: dict[str, Attribute] = Field(
        default_factory=dict, description="What jobs may demand of a node, such as model = 'epyc'."
    )

    @field_validator("per_node")
    @classmethod
    def _resources(cls, per_node: dict[str, int]) -> dict[str, int]:
        if not per_node:
            raise ValueError("a node has at least one resource, such as core = 1")
        for name in per_node:
            if is_marker(name):
                raise ValueError(f"{name!r} is no resource; say it with partitions or attributes")
        return per_node


class PartitionDescription(Settings):
    """Groups of nodes that jobs ask for by one name; a group may be in several."""

    name: str = Field(min_length=1, description="What jobs call it.")
    groups: list[str] = Field(min_length=1, description="Names of groups.")
    default: bool = Field(default=False, description="Where jobs go that name no partition.")


class MemoryDescription(Settings):
    """The resource that is memory, and its unit; jobs then ask for what their trace says."""

    resource: str = Field(description="The name of the resource.")
    kilobytes: Amount = Field(default=1, description="Of which one unit of it consists.")


class PlatformDescription(Settings):
    """A machine."""

    name: str = Field(default="platform", description="What the machine is called.")
    groups: list[GroupDescription] = Field(min_length=1)
    partitions: list[PartitionDescription] = Field(default_factory=list)
    memory: MemoryDescription | None = Field(default=None)
    equivalence: dict[str, dict[str, Amount]] = Field(
        default_factory=dict,
        description="What one requested processor of a trace is: processor = { core = 2 }.",
    )
    start_time: Annotated[int, BeforeValidator(integral)] | None = Field(
        default=None, description="Unix time of time 0; for dates, it moves nothing."
    )
    note: str | None = Field(default=None, description="What is to be known of it.")

    @model_validator(mode="after")
    def _names_differ(self) -> PlatformDescription:
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"groups: two groups are called {name!r}")
        if sum(group.nodes for group in self.groups) > MOST_NODES:
            raise ValueError(f"groups: more than {MOST_NODES} nodes in all")
        return self

    @model_validator(mode="after")
    def _partitions_are_of_groups(self) -> PlatformDescription:
        names = [group.name for group in self.groups]
        called = [partition.name for partition in self.partitions]
        for partition in self.partitions:
            if called.count(partition.name) > 1:
                raise ValueError(f"partitions: two partitions are called {partition.name!r}")
            for group in partition.groups:
                if group not in names:
                    raise ValueError(
                        f"partitions: {partition.name!r} is of a group {group!r} that there is "
                        f"not{did_you_mean(group, names)}; there are: {', '.join(names)}"
                    )
        if sum(partition.default for partition in self.partitions) > 1:
            raise ValueError("partitions: at most one is the default")
        return self

    @model_validator(mode="after")
    def _resources_are_there(self) -> PlatformDescription:
        kinds = sorted({kind for group in self.groups for kind in group.per_node})
        if self.memory is not None and self.memory.resource not in kinds:
            raise ValueError(
                f"memory: no node has the resource {self.memory.resource!r}; "
                f"there are: {', '.join(kinds)}"
            )
        for unit, amounts in self.equivalence.items():
            if unit != "processor":
                raise ValueError(f"equivalence: {unit!r} is no unit of a trace; processor is")
            if not amounts:
                raise ValueError(f"equivalence: {unit!r} is equivalent to nothing")
            for kind in amounts:
                if kind not in kinds:
                    raise ValueError(
                        f"equivalence: {unit!r} is equivalent to {kind!r}, which no node has"
                        f"{did_you_mean(kind, kinds)}; there are: {', '.join(kinds)}"
                    )
        return self

    @property
    def node_count(self) -> int:
        """Nodes in all."""
        return sum(group.nodes for group in self.groups)

    @property
    def capacity(self) -> dict[str, int]:
        """Amount of each resource in all, by ascending name."""
        total: dict[str, int] = {}
        for group in self.groups:
            for kind, amount in group.per_node.items():
                total[kind] = total.get(kind, 0) + amount * group.nodes
        return dict(sorted(total.items()))

    def node_groups(self) -> list[NodeGroup]:
        """Return the nodes as the engine takes them, partitions and attributes among resources."""
        return [
            NodeGroup(group.name, group.nodes, {**group.per_node, **self._markers(group)})
            for group in self.groups
        ]

    def _markers(self, group: GroupDescription) -> dict[str, int]:
        enough = sum(group.per_node.values())
        markers = {
            partition_marker(partition.name): enough
            for partition in self.partitions
            if group.name in partition.groups
        }
        for name, value in group.attributes.items():
            markers[attribute_marker(name, spelling(value))] = enough
        return markers

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
