"""`python -m parley_client`: a reference dispatcher, where only the light client is installed."""

from __future__ import annotations

import argparse
import os
import sys

from parley_client.allocators import ALLOCATORS
from parley_client.connection import serve
from parley_client.errors import ClientError, WrongUsage
from parley_client.policies import POLICIES


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
    options = parser.parse_args(arguments)
    return dispatch(options.connect, options.policy, options.allocator)


def dispatch(endpoint: str | None, policy: str, allocator: str) -> int:
    """Decide for one session and tell what went wrong in one line.

    Returns:
        The exit status: 0 the run is complete, 1 it is not, 2 wrong usage, 130 interrupted.
    """
    try:
        end = serve(policy, endpoint, allocator=allocator)
    except ClientError as error:
        print(f"parley dispatch: {error}", file=sys.stderr)  # noqa: T201 - a command speaks
        return 2 if isinstance(error, WrongUsage) else 1
    except KeyboardInterrupt:
        return 130
    return 0 if end["reason"] == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
