"""`python -m parley_client`: a reference dispatcher, where only the light client is installed."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from parley_client.allocators import ALLOCATORS
from parley_client.connection import serve
from parley_client.errors import ClientError, WrongUsage
from parley_client.policies import POLICIES, parameters_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: list[str] | None = None) -> int:
    """Decide for one session; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="parley-dispatch", description="Decide for a Parley server, by a built-in policy."
    )
    parser.add_argument(
        "--connect",
        metavar="ENDPOINT",
        default=os.environ.get("PARLEY_ENDPOINT"),
        help="where the server listens; PARLEY_ENDPOINT if not given",
    )
    parser.add_argument("--policy", default="fifo", help=", ".join(sorted(POLICIES)))
    parser.add_argument("--allocator", default="first-fit", help=", ".join(sorted(ALLOCATORS)))
    for name in ("order", "backfill-order", "interval"):
        parser.add_argument(f"--{name}", help="a parameter of the policy")
    for name in ("depth", "examine"):
        parser.add_argument(f"--{name}", type=int, help="a parameter of the policy")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other"
    )
    options = vars(parser.parse_args(arguments))
    chosen = [options.pop(name) for name in ("connect", "policy", "allocator", "set")]
    return dispatch(*chosen, **options)


def dispatch(
    endpoint: str | None,
    policy: str,
    allocator: str,
    settings: Sequence[str] = (),
    **named: str | int | None,
) -> int:
    """Decide for one session and tell what went wrong in one line.

    Args:
        endpoint: Where the server listens.
        policy: The name of a policy, or the path of one.
        allocator: The same of an allocator.
        settings: Parameters of the policy, each as `name=value`.
        named: Further ones; None is not given.

    Returns:
        The exit status: 0 the run is complete, 1 it is not, 2 wrong usage, 130 interrupted.
    """
    try:
        parameters = parameters_of(settings, **named)
        end = serve(policy, endpoint, allocator=allocator, parameters=parameters)
    except ClientError as error:
        print(f"parley dispatch: {error}", file=sys.stderr)  # noqa: T201 - a command speaks
        return 2 if isinstance(error, WrongUsage) else 1
    except KeyboardInterrupt:
        return 130
    return 0 if end["reason"] == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
