"""`python -m parley_client`: a reference dispatcher, where only the light client is installed."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parley_client.allocators import ALLOCATORS
from parley_client.connection import CurveKeys, serve
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
    parser.add_argument(
        "--session-file",
        type=Path,
        metavar="FILE",
        help="keeps what it takes to go on after a crash; if it is there, go on",
    )
    parser.add_argument(
        "--curve-server", type=Path, metavar="FILE", help="the server's public certificate"
    )
    parser.add_argument(
        "--curve-secret", type=Path, metavar="FILE", help="one's own secret certificate"
    )
    options = vars(parser.parse_args(arguments))
    chosen = [options.pop(name) for name in ("connect", "policy", "allocator", "set")]
    keys = [options.pop(name) for name in ("session_file", "curve_server", "curve_secret")]
    return dispatch(*chosen, connection=ConnectionOptions(*keys), **options)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach a server, as the command line has it.

    Attributes:
        session_file: Keeps what it takes to go on after a crash.
        curve_server: The server's public certificate.
        curve_secret: One's own secret certificate.
    """

    session_file: Path | None = None
    curve_server: Path | None = None
    curve_secret: Path | None = None

    def curve(self) -> CurveKeys | None:
        """Return the keys, if any are wanted.

        Raises:
            WrongUsage: There is but one's own.
        """
        if self.curve_server is not None:
            return CurveKeys(self.curve_server, self.curve_secret)
        if self.curve_secret is not None:
            raise WrongUsage("--curve-secret goes with --curve-server, the server's public key")
        return None


def dispatch(
    endpoint: str | None,
    policy: str,
    allocator: str,
    settings: Sequence[str] = (),
    *,
    connection: ConnectionOptions | None = None,
    **named: str | int | None,
) -> int:
    """Decide for one session and tell what went wrong in one line.

    Args:
        endpoint: Where the server listens.
        policy: The name of a policy, or the path of one.
        allocator: The same of an allocator.
        settings: Parameters of the policy, each as `name=value`.
        connection: How to reach the server.
        named: Further ones; None is not given.

    Returns:
        The exit status: 0 the run is complete, 1 it is not, 2 wrong usage, 130 interrupted.
    """
    connection = connection or ConnectionOptions()
    try:
        end = serve(
            policy,
            endpoint,
            allocator=allocator,
            parameters=parameters_of(settings, **named),
            curve=connection.curve(),
            session_file=connection.session_file,
        )
    except ClientError as error:
        print(f"parley dispatch: {error}", file=sys.stderr)  # noqa: T201 - a command speaks
        return 2 if isinstance(error, WrongUsage) else 1
    except KeyboardInterrupt:
        return 130
    return 0 if end["reason"] in {"completed", "stopped"} else 1


if __name__ == "__main__":
    sys.exit(main())
