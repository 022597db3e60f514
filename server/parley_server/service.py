"""A standing server: every hello starts a fresh run, in a directory of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from parley_server.errors import OutputError, ParleyError, RunFailed, UsageError
from parley_server.host.router import Router
from parley_server.running import Preparation, Run, RunOptions, offered_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from parley_protocol.messages import HelloBody
    from parley_server.host.session import Session
    from parley_server.host.wire import Curve
    from parley_server.results.status import Status
    from parley_server.running import Trace
    from parley_server.scenario import Scenario

    Report = Callable[[Path, ParleyError | None], None]

_PUBLISH_S = 1.0


class Service:
    """Waits for dispatchers that are started elsewhere.

    Args:
        scenarios: What can be run; a hello names one, or gets the first.
        endpoint: Where to listen.
        out: Runs go to `out/1`, `out/2` and so on.
        sessions: How many to host before it ends; None is without limit.
        at_once: How many of them at the same time; None is without limit.
        curve: Keys, without which only this machine is listened to.
        transcript: A file for the messages of each session; its number is put into the name.
        force: Replace runs that lie in *out*.
        report: Called at the end of each run, with its directory and what broke it off, if so.
        trace: Is told of each message.
        poll: Called about ten times a second; what it raises ends the service.
        publish: Is told once a second how all sessions stand, also if there is none.

    Attributes:
        endpoint: Where it listens, with the port.
        failed: How many runs were not complete.

    Raises:
        UsageError: A scenario is wrong, two have one name, the directory holds runs, or it
            cannot listen there.
        InputError: A file cannot be read.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        endpoint: str,
        out: Path,
        *,
        sessions: int | None = None,
        at_once: int | None = None,
        curve: Curve | None = None,
        transcript: Path | None = None,
        force: bool = False,
        report: Report | None = None,
        trace: Trace | None = None,
        poll: Callable[[], None] | None = None,
        publish: Callable[[Sequence[Status]], None] | None = None,
    ) -> None:
        self._offered: dict[str, Preparation] = {}
        for scenario in scenarios:
            if scenario.name in self._offered:
                raise UsageError(f"two scenarios are called {scenario.name!r}; set run.name in one")
            self._offered[scenario.name] = Preparation(scenario)
        self._out = out
        if not force and out.is_dir() and any(path.name.isdigit() for path in out.iterdir()):
            raise UsageError(f"{out}: holds other runs; --force replaces them")
        self._report = report
        self._poll = poll
        self._publish = publish
        self._standing: dict[str, Status] = {}
        self._published = 0.0
        self._options = RunOptions(force=force, publish=self._note if publish else None)
        self._transcript = transcript
        self._count = 0
        self.failed = 0
        self._router = Router(
            endpoint, self._open, limit=sessions, at_once=at_once, curve=curve, trace=trace
        )
        self.endpoint = self._router.endpoint

    def run(self) -> None:
        """Host sessions until there were as many as wanted, or `poll` raises."""
        try:
            self._router.run(self._look)
        except KeyboardInterrupt:
            self._router.fail_all(RunFailed("interrupted", "the server was interrupted"))
            raise
        finally:
            self._router.close()

    def _look(self) -> None:
        if self._poll is not None:
            self._poll()
        if self._publish is not None and time.monotonic() - self._published > _PUBLISH_S:
            self._tell()

    def _tell(self) -> None:
        """Tell how the sessions stand; those that are over are told of once."""
        if self._publish is not None:
            self._published = time.monotonic()
            self._publish(list(self._standing.values()))
        self._standing = {
            directory: status for directory, status in self._standing.items() if "end" not in status
        }

    def _note(self, status: Status) -> None:
        self._standing[status["directory"]] = status
        if "end" in status:
            # The service may be over as well.
            self._tell()

    def _open(self, hello: HelloBody) -> _Served:
        self._count += 1
        prepared: Preparation = offered_scenario(hello, self._offered)
        options = self._options
        if self._transcript is not None:
            name = f"{self._transcript.stem}-{self._count}{self._transcript.suffix}"
            options = replace(options, transcript=self._transcript.with_name(name))
        run = Run(prepared, self._out / str(self._count), options)
        return _Served(run, self._ended)

    def _ended(self, run: Run, failure: ParleyError | None) -> None:
        self.failed += failure is not None
        if self._report is not None:
            self._report(run.files.directory, failure)


class _Served:
    """A run whose results are finished as soon as its session is over."""

    def __init__(self, run: Run, ended: Callable[[Run, ParleyError | None], None]) -> None:
        self._run = run
        self._ended = ended
        self.session: Session = run.session
        self.sink = run
        self.transcript = run.transcript

    def finished(self, failure: ParleyError | None) -> None:
        try:
            self._run.finish(failure)
        except OutputError as error:
            failure = failure or error
        self._ended(self._run, failure)
