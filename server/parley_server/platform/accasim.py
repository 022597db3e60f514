"""AccaSim's system configuration: groups by name, and how many nodes of each.

Source: Galleguillos, Kiziltan, Netti, Soto, "AccaSim: a customizable workload management
simulator", Cluster Computing 23, 2020, figure 7 and its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_server.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEMORY = "mem"
"""What AccaSim calls memory; a trace's figure is kilobytes a processor, and so is the nodes'."""

_KNOWN = {"system_name", "start_time", "equivalence", "groups", "resources"}


def is_accasim(tables: Mapping[str, Any]) -> bool:
    """Whether a configuration is AccaSim's rather than ours, whose groups are a list."""
    return isinstance(tables.get("groups"), dict) and "resources" in tables


def tables_of(tables: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the tables of our own format that say the same.

    Raises:
        UsageError: Groups and resources do not fit each other.
    """
    groups, resources = tables["groups"], tables["resources"]
    if not isinstance(resources, dict) or not groups:
        raise UsageError(f"{source}: resources: expected how many nodes each group has")
    for name in resources:
        if name not in groups:
            raise UsageError(
                f"{source}: resources: there is no group {name!r}"
                f"{did_you_mean(name, groups)}; there are: {', '.join(groups)}"
            )
    described = []
    for name, per_node in groups.items():
        if name not in resources:
            raise UsageError(f"{source}: resources: how many nodes has the group {name!r}?")
        if not isinstance(per_node, dict):
            raise UsageError(f"{source}: groups.{name}: expected amounts by resource")
        # A resource that a group has none of may be written with a zero.
        amounts = {kind: amount for kind, amount in per_node.items() if amount != 0}
        described.append({"name": name, "nodes": resources[name], "per_node": amounts})
    ours: dict[str, Any] = {"groups": described}
    if "system_name" in tables:
        ours["name"] = tables["system_name"]
    for key in ("start_time", "equivalence"):
        if key in tables:
            ours[key] = tables[key]
    if any(_MEMORY in group["per_node"] for group in described):
        ours["memory"] = {"resource": _MEMORY}
    beyond = sorted(str(key) for key in tables.keys() - _KNOWN)
    if beyond:
        ours["note"] = f"not used: {', '.join(beyond)[:200]}"
    return ours
