"""A run's dispatcher as a child process: started, watched, and started again where that is due."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from parley_server.errors import ParleyError, RunFailed
from parley_server.host.child import Child
from parley_server.host.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley_protocol.messages import HelloBody
    from parley_server.host.peer import Hosted
    from parley_server.host.session import Session

_EXIT_US = 1_000_000
"""How long a process whose connection is closed may take to exit."""


class Supervised(Protocol):
    """A run, as whoever watches its child needs to know it."""

    @property
    def session(self) -> Session:
        """Where the simulation is."""
        ...

    @property
    def failure(self) -> ParleyError | None:
        """How the session failed, if it has."""
        ...

    def poll(self) -> None:
        """Give whoever carries out the run a chance to end it."""
        ...


def run_with_child(
    run: Supervised,
    command: Sequence[str],
    open_hosted: Callable[[HelloBody], Hosted],
    *,
    restarts: int,
    trace: Callable[[str, str, Any], None] | None = None,
) -> None:
    """Let a command decide for a run, until that is over.

    Args:
        run: What is decided for.
        command: Program and arguments; `{endpoint}` in them is replaced.
        open_hosted: Gives the run to whoever says hello.
        restarts: How often the command is started again if it exits and the session waits.
        trace: Is told of each message.

    Raises:
        RunFailed: The dispatcher was lost, late or lying.
        ParleyError: Whatever else the run broke off with.
    """
    router = Router("tcp://127.0.0.1:*", open_hosted, limit=1, trace=trace)
    patience: float | None = None
    watch: _Watch | None = None
    try:
        watch = _Watch(run, command, router, restarts)
        router.run(watch.look)
        watch.require_success()
    except BaseException:
        patience = 0.2
        raise
    finally:
        router.close()
        if watch is not None:
            watch.child.end(patience=patience)


class _Watch:
    """Looks after a run's child process while the router waits for it."""

    def __init__(
        self, run: Supervised, command: Sequence[str], router: Router, restarts: int
    ) -> None:
        self._run = run
        self._command = command
        self._router = router
        self._restarts = restarts
        self._ended = False
        self._start()

    def require_success(self) -> None:
        """Raise what the session failed of, if it did."""
        failure = self._run.failure
        if isinstance(failure, RunFailed) and failure.reason == "dispatcher_lost":
            # How it exited says more than that its connection is closed.
            failure = self.child.failure_within(_EXIT_US) or failure
        if failure is not None:
            raise failure

    def look(self) -> None:
        """Do nothing if all is well.

        Raises:
            ParleyError: The dispatcher has exited, was refused, or says no hello.
        """
        self._run.poll()
        self.require_success()
        if self._router.refused is not None:
            raise RunFailed("protocol_error", f"the dispatcher: {self._router.refused}")
        if self.child.ended:
            # What it sent last may not have been read yet; so twice.
            if self._ended:
                self._start_again()
                return
            self._ended = True
        limit_us = self._run.session.offer.conduct.deadline_us
        if not self._run.session.token and (time.monotonic() - self._began) * 1e6 > limit_us:
            raise RunFailed(
                "deadline_missed",
                f"the dispatcher {self.child.command[0]!r} said no hello within "
                f"{limit_us / 1e6:g} s (--deadline); does it connect to {{endpoint}} or "
                "PARLEY_ENDPOINT?",
            )

    def _start(self) -> None:
        session = self._run.session
        known = {"PARLEY_SESSION": session.name, "PARLEY_TOKEN": session.token}
        self.child = Child(
            self._command, self._router.endpoint, environment=known if session.token else None
        )
        self._began = time.monotonic()
        self._ended = False

    def _start_again(self) -> None:
        """Start the command once more, if the session waits for it.

        Raises:
            RunFailed: It does not, or the command has exited too often.
        """
        failure = self.child.failure()
        waits = self._run.session.offer.conduct.on_disconnect == "wait"
        if not waits or not self._restarts:
            raise failure
        self._restarts -= 1
        self.child.end()
        self._start()
