"""`parley platform`: look at machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from parley_server.platform import PlatformDescription

platform_app = typer.Typer(
    name="platform",
    help="Look at machines.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A platform: ours, AccaSim's, Batsim's XML, slurm.conf; or an SWF trace, from "
            "whose header the machine is guessed, with --guess.",
        ),
    ],
    guess: Annotated[
        bool, typer.Option("--guess", help="FILE is an SWF trace; guess from its header.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, in our own format.")] = False,
) -> None:
    """Tell what a machine consists of."""
    from parley_server.platform import read_platform  # noqa: PLC0415 - not for --help
    from parley_server.platform.reading import format_of  # noqa: PLC0415
    from parley_server.toolbox import guess_machine  # noqa: PLC0415

    machine = guess_machine(file) if guess else read_platform(file)
    kind = "guess" if guess else format_of(file)
    if as_json:
        print(json.dumps(_told(machine, kind), indent=2))
    else:
        _show(machine, kind)


def _told(machine: PlatformDescription, kind: str) -> dict[str, Any]:
    return {
        "format": kind,
        "node_count": machine.node_count,
        "capacity": machine.capacity,
        **machine.model_dump(mode="json", exclude_none=True),
    }


def _show(machine: PlatformDescription, kind: str) -> None:
    capacity = ", ".join(f"{amount:,} {name}" for name, amount in machine.capacity.items())
    print(f"{machine.name} ({kind}): {machine.node_count:,} nodes, {capacity}")
    if machine.note:
        print(f"note: {machine.note}")
    first = 0
    for group in machine.groups:
        last = first + group.nodes - 1
        each = ", ".join(f"{amount:,} {name}" for name, amount in sorted(group.per_node.items()))
        said = "".join(f"; {name} = {value}" for name, value in group.attributes.items())
        print(f"  {first}-{last}  {group.name}: {group.nodes:,} nodes of {each}{said}")
        first = last + 1
    for partition in machine.partitions:
        default = " (default)" if partition.default else ""
        print(f"partition {partition.name}{default}: {', '.join(partition.groups)}")
    for unit, amounts in machine.equivalence.items():
        each = ", ".join(f"{amount} {name}" for name, amount in amounts.items())
        print(f"one {unit} of a trace is {each}")
    if machine.memory is not None:
        print(f"memory is {machine.memory.resource}, in units of {machine.memory.kilobytes} KB")
    if machine.start_time is not None:
        print(f"time 0 is Unix time {machine.start_time}")
