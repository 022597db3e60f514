"""`parley watch`: how a run stands, asked from another terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from parley_server.errors import InputError, UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley_server.host.publication import Publication
    from parley_server.results.status import Status

_PATIENCE = 5.0
"""Seconds until an endpoint at which nothing is heard is taken for the wrong one."""


def watch(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ENDPOINT",
            help="The directory of a run, of a parley serve or of an experiment; or where "
            "--watch-at tells it.",
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Show it once and leave.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON: an array of statuses, once.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 1.0,
) -> None:
    """Show how a run stands: time, speed, jobs, resources, decisions, the last refusals.

    It only reads what the run tells in any case, so it cannot disturb it. Ctrl-C leaves; the run
    goes on.
    """
    seen = _Published(subject, interval) if "://" in subject else _Directory(Path(subject))
    with contextlib.closing(seen):
        if as_json:
            print(json.dumps(seen.look(), indent=2))
        elif once:
            _print_page(seen)
        else:
            with contextlib.suppress(KeyboardInterrupt):
                _follow(seen, interval)


def publication(endpoint: str | None, *, quiet: bool) -> Publication | None:
    """Open what `--watch-at` names, and say where it is.

    Raises:
        UsageError: It cannot listen there.
    """
    if endpoint is None:
        return None
    from parley_server.host.publication import Publication  # noqa: PLC0415 - hardly ever

    opened = Publication(endpoint)
    if not quiet:
        print(f"to be watched at {opened.endpoint}", file=sys.stderr, flush=True)
    return opened


class _Seen(Protocol):
    """Where to look."""

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""
        ...

    def look(self) -> list[Status]:
        """Return how the runs stand."""
        ...

    def ending(self) -> Sequence[str]:
        """Return what is to be said of runs that are over, line by line."""
        ...

    def wait(self, seconds: float) -> None:
        """Let some time pass."""
        ...

    def close(self) -> None:
        """Look no more."""
        ...


class _Directory:
    """A run's directory, or one with several of them below it."""

    _BELOW = ("status.json", "*/status.json", "cells/*/status.json")

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise UsageError(f"{directory}: no directory of a run; an endpoint has ://")
        self._directory = directory
        self._looked = False
        self._own = (directory / "scenario.toml").is_file()
        self._experiment = (directory / "experiment.sqlite").is_file()
        if not (self._own or self._experiment or any(directory.glob("*/scenario.toml"))):
            raise UsageError(f"{directory}: holds no run (no scenario.toml)")

    @property
    def over(self) -> bool:
        from parley_server.results.status import still_there  # noqa: PLC0415 - not for --help

        if self._experiment:
            from parley_server.experiments.lock import is_running  # noqa: PLC0415

            # Between two cells there is nothing to be seen.
            return not is_running(self._directory)
        # Who was killed has left the last status behind.
        return not any(still_there(status) for status in self.look())

    def look(self) -> list[Status]:
        from parley_server.results.status import read_status  # noqa: PLC0415

        found = (read_status(path) for path in self._paths())
        seen = [status for status in found if status is not None]
        if self._own:
            return seen
        from parley_server.results.status import still_there  # noqa: PLC0415

        return [status for status in seen if still_there(status)]

    def ending(self) -> Sequence[str]:
        if not self._own:
            return [f"{self._directory}: nothing is running there now"]
        return [_ending_of(self._directory)]

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        pass

    def _paths(self) -> list[Path]:
        found = {path for pattern in self._BELOW for path in self._directory.glob(pattern)}
        return sorted(found)


class _Published:
    """An endpoint at which a server tells how its runs stand."""

    def __init__(self, endpoint: str, interval: float) -> None:
        from parley_server.host.publication import Subscription  # noqa: PLC0415 - not for files

        self._subscription = Subscription(endpoint)
        self._patience = max(_PATIENCE, interval)
        self._newest: list[Status] | None = None
        self._heard = time.monotonic()
        self.over = False

    def look(self) -> list[Status]:
        if self._newest is None:
            self.wait(self._patience)
        if self._newest is None:
            raise UsageError(
                f"nothing was heard from {self._subscription.endpoint} within "
                f"{self._patience:g} s; is a run told there with --watch-at? Where dispatchers "
                "connect is another endpoint"
            )
        return self._newest

    def ending(self) -> Sequence[str]:
        return [
            one_line(f"{status['directory']}: ended: {status['end']}")
            for status in self._newest or []
            if "end" in status
        ] or [f"nothing more is heard from {self._subscription.endpoint}"]

    def wait(self, seconds: float) -> None:
        from parley_server.results.status import parse_statuses  # noqa: PLC0415

        message = self._subscription.receive(seconds)
        if message is None:
            # Whoever tells it tells it once a second, unless a policy thinks for long.
            self.over = self._newest is not None and time.monotonic() - self._heard > 60
            return
        self._heard = time.monotonic()
        self._newest = parse_statuses(message, source=self._subscription.endpoint, many=True)
        self.over = len(self._newest) == 1 and "end" in self._newest[0]

    def close(self) -> None:
        self._subscription.close()


def _ending_of(directory: Path) -> str:
    """Return how a run ended whose status is gone."""
    path = directory / "summary.json"
    try:
        end = json.loads(path.read_bytes())["end"]
        reason, at = str(end["reason"]), end["simulated_time"]
    except FileNotFoundError:
        return f"{directory}: not running, and it has no summary: it was broken off, or just began"
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not the summary of a run") from None
    return one_line(f"{directory}: ended at {at} s: {reason}")


def _print_page(seen: _Seen) -> None:
    from rich.console import Console  # noqa: PLC0415 - not for --help

    from parley_server.cli.page import page  # noqa: PLC0415

    statuses = seen.look()
    if statuses:
        Console(highlight=False).print(page(statuses))
    else:
        print("\n".join(seen.ending()))


def _follow(seen: _Seen, interval: float) -> None:
    """Show it until it is over."""
    from rich.console import Console  # noqa: PLC0415 - not for --help
    from rich.live import Live  # noqa: PLC0415

    from parley_server.cli.page import line, page  # noqa: PLC0415

    console = Console(highlight=False)
    live: Any = contextlib.nullcontext()
    if console.is_terminal:
        live = Live(console=console, auto_refresh=False, transient=True)
    with live:
        while True:
            statuses = seen.look()
            if not console.is_terminal:
                for status in statuses:
                    print(line(status), flush=True)
            elif statuses or not seen.over:
                live.update(page(statuses), refresh=True)
            if seen.over:
                break
            seen.wait(interval)
    print("\n".join(seen.ending()))
