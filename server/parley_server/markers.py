"""Partitions and attributes of nodes, as resources.

A node in the partition `gpu` has some of the resource `partition:gpu`; a chunk of a job in that
partition asks for one of it. There is as much as the node has of everything else together, so it
never runs out first. Whatever places chunks by resources, in any language, then respects
partitions and constraints, and the server refuses what does not.
"""

from __future__ import annotations

PARTITION = "partition:"
ATTRIBUTE = "attribute:"


def partition_marker(name: str) -> str:
    """Return the resource that nodes of a partition have."""
    return f"{PARTITION}{name}"


def attribute_marker(name: str, value: str) -> str:
    """Return the resource that nodes with an attribute of this value have."""
    return f"{ATTRIBUTE}{name}={value}"


def is_marker(resource: str) -> bool:
    """Whether a resource is a partition's or an attribute's, and nothing that is used up."""
    return resource.startswith((PARTITION, ATTRIBUTE))


def spelling(value: str | bool | int) -> str:  # noqa: FBT001 - true is a value like another
    """Return the one spelling of an attribute's value."""
    match value:
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
