"""`parley policies`: what there is to choose from."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from parley_server.errors import UsageError


def policies(
    name: Annotated[str | None, typer.Argument(help="Only what is called so.")] = None,
) -> None:
    """List policies, orders and allocators with their parameters, costs and sources."""
    from parley_client.catalogue import described  # noqa: PLC0415 - not for --help
    from parley_client.errors import UnknownName  # noqa: PLC0415

    try:
        found = described(name)
    except UnknownName as error:
        raise UsageError(str(error)) from None
    headings = {
        "policy": "Policies (--policy)",
        "order": "Orders (--order, --backfill-order)",
        "allocator": "Allocators (--allocator)",
    }
    for kind, members in groupby(found, key=lambda description: description.kind):
        typer.echo(headings[kind])
        for description in members:
            for line in description.lines():
                typer.echo(f"  {line}")
