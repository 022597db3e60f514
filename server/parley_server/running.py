"""One run: a scenario, a dispatcher and a directory brought together."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_client.dispatcher import Dispatcher, PolicyLike
from parley_client.errors import ClientError
from parley_server.errors import ParleyError, RunFailed, UsageError
from parley_server.host.inprocess import run_in_process
from parley_server.host.session import Offer, Session
from parley_server.results import Recorder, RunDescription, RunFiles, prepare_directory
from parley_server.version import __version__
from parley_server.workload.files import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_client.allocators import Allocator
    from parley_protocol.messages import HelloBody
    from parley_server.engine import Simulation
    from parley_server.platform import PlatformDescription
    from parley_server.scenario import Scenario
    from parley_server.workload import WorkloadSource

    Trace = Callable[[str, str, Any], None]

_PROGRESS_NS = 100_000_000
_EXIT_US = 1_000_000
"""How long a process whose connection is closed may take to exit."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run has left behind.

    Attributes:
        files: Where it lies: `files.jobs`, `files.summary` and so on.
        summary: The content of `summary.json`.
    """

    files: RunFiles
    summary: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether every job came to its end."""
        return bool(self.summary["end"]["complete"])


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out; none of it changes what is simulated.

    Attributes:
        force: Replace another run in the output directory.
        audit: Check every invariant after every step; slow, for tests.
        progress: Called about ten times a second with the simulation.
        trace: Is told of each message: its direction, its type, its body.
        poll: Called at every request and while waiting; what it raises ends the run.
    """

    force: bool = False
    audit: bool = False
    progress: Callable[[Simulation], None] | None = None
    trace: Trace | None = None
    poll: Callable[[], None] | None = None


class Preparation:
    """A scenario that was found to be possible, with all that is worth computing once.

    Raises:
        UsageError: A setting is wrong.
        InputError: A file cannot be read.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.machine: PlatformDescription = scenario.describe_platform()
        # What is missing is told before anything is written.
        if scenario.dispatcher.command is None:
            named_dispatcher(scenario)
        else:
            from parley_server.host.child import require_command  # noqa: PLC0415 - not in process

            require_command(scenario.dispatcher.command)
        scenario.reading_rules(self.machine)
        self.inputs = scenario.inputs()
        self.digest = scenario.digest(self.machine, inputs=self.inputs)

    def check_first_job(self) -> None:
        """Read as far as the first job.

        Raises:
            InputError: There is none, or a line before it is a strict reader's error.
        """
        if self.scenario.workload.path == STANDARD:
            # What is looked at there would be missing from the run.
            return
        source = self.scenario.open_source(self.machine)
        source.next()
        source.close()

    def describe(self, decider: Dispatcher | None) -> RunDescription:
        """Return what the summary of a run says of it."""
        scenario, machine = self.scenario, self.machine
        dispatcher: dict[str, Any] = {"command": scenario.dispatcher.command}
        if scenario.dispatcher.command is None:
            dispatcher = {
                "policy": decider.name if decider is not None else scenario.policy,
                "allocator": decider.allocator_name if decider is not None else scenario.allocator,
                "external": scenario.dispatcher.external,
            }
        return RunDescription(
            name=scenario.name,
            digest=self.digest,
            workload_name=scenario.workload_name,
            scenario_toml=scenario.resolved(
                machine,
                policy=decider.name if decider is not None else None,
                allocator=decider.allocator_name if decider is not None else None,
            ),
            inputs=self.inputs,
            rules=scenario.rules(machine),
            dispatcher=dispatcher,
            capacity=machine.capacity,
            node_count=machine.node_count,
            note=machine.note,
            versions={"parley": __version__, "python": sys.version.split()[0]},
        )


class Run:
    """One simulation from a scenario to its results; it is its session's sink.

    Args:
        preparation: What to simulate.
        directory: Where the results go.
        options: How to carry it out.
        decider: Who decides, in this process; None takes what the scenario names.

    Raises:
        UsageError: The output directory cannot be used.
    """

    collect: Callable[[Simulation], None]
    timed: Callable[..., None]

    def __init__(
        self,
        preparation: Preparation,
        directory: Path,
        options: RunOptions,
        *,
        decider: Dispatcher | None = None,
    ) -> None:
        self.scenario = preparation.scenario
        self._preparation = preparation
        self._options = options
        self._decider = decider
        self._progressed_ns = 0
        self._source: WorkloadSource | None = None
        self._failure: ParleyError | None = None
        self._summary: dict[str, Any] | None = None
        self.files = prepare_directory(directory, force=options.force)
        self._recorder = Recorder(self.files, preparation.describe(decider))
        self.collect = self._recorder.collect
        self.timed = self._recorder.timed
        self.sink = self
        self.session = Session(self._offer(), self)

    # ------------------------------------------------------------------ running

    def execute(self) -> RunResult:
        """Simulate, write everything, and return it.

        Raises:
            RunFailed: The run broke off.
            InputError: The workload cannot be read on.
            OutputError: The results cannot be written.
            Exception: Whatever a policy object raises.
        """
        failure: ParleyError | None = None
        reason: str | None = None
        try:
            self._drive()
            self.session.require_completed()
        except ParleyError as error:
            failure = error
            raise
        except KeyboardInterrupt:
            reason = "interrupted"
            raise
        except Exception as error:
            failure = RunFailed("dispatcher_failed", _told(error))
            raise
        finally:
            summary = self.finish(failure, reason=reason)
        return RunResult(self.files, summary)

    def finish(self, failure: ParleyError | None, *, reason: str | None = None) -> dict[str, Any]:
        """Write what is left and the summary, once; return the summary.

        Raises:
            OutputError: Something cannot be written.
        """
        if self._summary is None:
            simulation = getattr(self.session, "simulation", None)
            reading = None
            if self._source is not None:
                reading = self._source.table()
                self._source.close()
            self._summary = self._recorder.close(simulation, reading, failure, reason=reason)
        return self._summary

    def finished(self, failure: ParleyError | None) -> None:
        """Note how the session ended, as the router tells it."""
        self._failure = failure

    def tick(self, clock_ns: int) -> None:
        """Flush now and then, and show progress."""
        options = self._options
        if options.poll is not None:
            options.poll()
        self._recorder.tick(clock_ns, self.session.simulation)
        if options.progress is not None and clock_ns - self._progressed_ns > _PROGRESS_NS:
            self._progressed_ns = clock_ns
            options.progress(self.session.simulation)

    def _drive(self) -> None:
        settings = self.scenario.dispatcher
        if self._decider is None and settings.command is not None:
            self._drive_child(settings.command)
        elif self._decider is None and settings.external:
            self._drive_child(
                [
                    *(sys.executable, "-m", "parley_client", "--connect", "{endpoint}"),
                    *("--policy", self.scenario.policy, "--allocator", self.scenario.allocator),
                ]
            )
        else:
            decider = self._decider or named_dispatcher(self.scenario)
            run_in_process(self.session, decider, self, trace=self._options.trace)

    def _drive_child(self, command: Sequence[str]) -> None:
        # In process needs neither ZeroMQ nor child processes.
        from parley_server.host.child import Child  # noqa: PLC0415
        from parley_server.host.router import Router  # noqa: PLC0415

        router = Router("tcp://127.0.0.1:*", self._open_hosted, limit=1, trace=self._options.trace)
        patience: float | None = None
        child: Child | None = None
        try:
            child = Child(command, router.endpoint)
            watch = _Watch(self, child, router)
            router.run(watch.look)
            watch.require_success()
        except BaseException:
            patience = 0.2
            raise
        finally:
            router.close()
            if child is not None:
                child.end(patience=patience)

    def _open_hosted(self, hello: HelloBody) -> Run:
        offered_scenario(hello, {self.scenario.name: self.scenario})
        return self

    def _offer(self) -> Offer:
        scenario, preparation = self.scenario, self._preparation
        return Offer(
            name=scenario.name,
            digest=preparation.digest,
            rules={key: str(value) for key, value in scenario.rules(preparation.machine).items()},
            groups=preparation.machine.node_groups(),
            open_source=self._open_source,
            on_overrun=scenario.run.on_overrun,
            seed=scenario.run.seed,
            deadline_us=scenario.deadline_us,
            strict=scenario.run.strict,
            audit=self._options.audit,
        )

    def _open_source(self) -> WorkloadSource:
        self._source = self.scenario.open_source(self._preparation.machine)
        return self._source

    # ------------------------------------------------------------------ what the watch asks

    @property
    def opened(self) -> bool:
        """Whether a dispatcher has said hello."""
        return hasattr(self.session, "simulation")

    @property
    def failure(self) -> ParleyError | None:
        """How the session failed, if it has."""
        return self._failure

    def poll(self) -> None:
        """Give whoever carries out the run a chance to end it."""
        if self._options.poll is not None:
            self._options.poll()


class _Watch:
    """Looks after a run's child process while the router waits for it."""

    def __init__(self, run: Run, child: Any, router: Any) -> None:
        self._run = run
        self._child = child
        self._router = router
        self._began = time.monotonic()
        self._ended = False

    def require_success(self) -> None:
        """Raise what the session failed of, if it did."""
        failure = self._run.failure
        if isinstance(failure, RunFailed) and failure.reason == "dispatcher_lost":
            # How it exited says more than that its connection is closed.
            failure = self._child.failure_within(_EXIT_US) or failure
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
        if self._child.ended:
            # What it sent last may not have been read yet; so twice.
            if self._ended:
                raise self._child.failure()
            self._ended = True
        limit_us = self._run.scenario.deadline_us
        if not self._run.opened and (time.monotonic() - self._began) * 1e6 > limit_us:
            raise RunFailed(
                "deadline_missed",
                f"the dispatcher {self._child.command[0]!r} said no hello within "
                f"{limit_us / 1e6:g} s (--deadline); does it connect to {{endpoint}} or "
                "PARLEY_ENDPOINT?",
            )


def named_dispatcher(
    scenario: Scenario,
    policy: PolicyLike | None = None,
    allocator: Allocator | str | None = None,
) -> Dispatcher:
    """Return a dispatcher from objects or names; what is None the scenario names.

    Raises:
        UsageError: A name stands for nothing, or an object is no policy.
    """
    chosen = scenario.policy if policy is None else policy
    placed = scenario.allocator if allocator is None else allocator
    try:
        return Dispatcher(chosen, allocator=placed)
    except ClientError as error:
        raise UsageError(str(error)) from None


def offered_scenario(hello: HelloBody, offered: Mapping[str, Any]) -> Any:
    """Return what a hello asks for among the scenarios offered; the first if it names none.

    Raises:
        ProtocolError: There is none of that name.
    """
    wanted = hello.get("scenario")
    if wanted is None:
        return next(iter(offered.values()))
    if wanted not in offered:
        from parley_protocol.errors import ProtocolError  # noqa: PLC0415 - only to be raised

        raise ProtocolError(
            "scenario.unknown",
            f"no scenario {wanted[:64]!r} is offered",
            "body.scenario",
            list(offered),
            fatal=True,
        )
    return offered[wanted]


def _told(error: BaseException) -> str:
    """Return an exception in one line, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame else ""
    return f"the dispatcher raised {type(error).__name__}: {error}{where}"
