"""One run: a scenario, a dispatcher and a directory brought together."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_client.dispatcher import Dispatcher, PolicyLike
from parley_client.errors import ClientError
from parley_client.policies import parameters_of
from parley_server.errors import ParleyError, RunFailed, UsageError
from parley_server.host.inprocess import run_in_process
from parley_server.host.journal import Journal
from parley_server.host.session import Offer, Session
from parley_server.host.transcripts import TranscriptFile
from parley_server.results import (
    Recorder,
    RunDescription,
    RunFiles,
    prepare_directory,
    reopen_directory,
)
from parley_server.results.status import StatusFile
from parley_server.version import __version__
from parley_server.workload.files import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from parley_client.allocators import Allocator
    from parley_protocol.messages import DecisionRequestBody, HelloBody, WelcomeBody
    from parley_server.engine import Simulation
    from parley_server.host.journal import JournalEntry
    from parley_server.host.session import Follower
    from parley_server.platform import PlatformDescription
    from parley_server.results.status import Status
    from parley_server.scenario import Scenario
    from parley_server.workload import WorkloadSource

    Trace = Callable[[str, str, Any], None]

_PROGRESS_NS = 100_000_000
_FLUSH_NS = 1_000_000_000
_STATUS_NS = 1_000_000_000


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
        transcript: A file for the whole dialogue.
        journal: Keep every answer, so that the run can be taken up again if it breaks off.
        resume: Take up the run that lies in the directory.
        poll: Called at every request and while waiting; what it raises ends the run.
        publish: Is told about once a second how the run stands, and how it ended.
    """

    force: bool = False
    audit: bool = False
    progress: Callable[[Simulation], None] | None = None
    trace: Trace | None = None
    transcript: Path | None = None
    journal: bool = False
    resume: bool = False
    poll: Callable[[], None] | None = None
    publish: Callable[[Status], None] | None = None


class Preparation:
    """A scenario that was found to be possible, with all that is worth computing once.

    Raises:
        UsageError: A setting is wrong.
        InputError: A file cannot be read.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.machine: PlatformDescription = scenario.describe_platform()
        self.changes = scenario.changes(self.machine)
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
            # An object has its own; those of a name are the scenario's.
            if decider is None or decider.name == scenario.policy:
                dispatcher["parameters"] = dict(scenario.dispatcher.parameters or {})
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
        self._progressed_ns = self._flushed_ns = self._told_ns = 0
        self._source: WorkloadSource | None = None
        self._failure: ParleyError | None = None
        self._summary: dict[str, Any] | None = None
        if options.transcript is not None and options.transcript.exists() and not options.force:
            raise UsageError(f"{options.transcript}: is there already; --force replaces it")
        if options.resume:
            self.files = reopen_directory(directory)
            self._journal: Journal | None = Journal.reopen(self.files.journal, preparation.digest)
            # Whether it is this run's is found out before any other file is touched.
            self._journal.read_terms()
        else:
            self.files = prepare_directory(directory, force=options.force)
            self._journal = None
            if options.journal:
                self._journal = Journal.create(self.files.journal, preparation.digest)
        description = preparation.describe(decider)
        self._recorder = Recorder(self.files, description, resumed=options.resume)
        self._status = StatusFile(self.files.directory, description, publish=options.publish)
        self.collect = self._recorder.collect
        self.timed = self._recorder.timed
        self.sink = self
        offer = self._offer()
        self.session = Session(offer, self, journal=self._journal)
        self.transcript: TranscriptFile | None = None
        if options.transcript is not None:
            self.transcript = TranscriptFile(options.transcript, offer)

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
            try:
                self._summary = self._recorder.close(simulation, reading, failure, reason=reason)
            finally:
                if self._journal is not None:
                    self._journal.close()
                if self.transcript is not None:
                    self.transcript.close()
                self._status.remove()
            if simulation is not None and self._options.publish is not None:
                self._tell_status(end=self._summary["end"]["reason"])
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
        if clock_ns - self._told_ns > _STATUS_NS:
            self._told_ns = clock_ns
            self._tell_status()
        if self.transcript is not None and clock_ns - self._flushed_ns > _FLUSH_NS:
            self._flushed_ns = clock_ns
            self.transcript.flush()
        if options.progress is not None and clock_ns - self._progressed_ns > _PROGRESS_NS:
            self._progressed_ns = clock_ns
            options.progress(self.session.simulation)

    def _tell_status(self, *, end: str | None = None) -> None:
        session = self.session
        requests, dispatcher_us = self._recorder.asked
        self._status.write(
            session.simulation,
            requests=requests,
            dispatcher_us=dispatcher_us,
            refused=session.refused,
            refusals=session.refusals,
            end=end,
        )

    def _recover(self, decider: Dispatcher | None) -> WelcomeBody | None:
        """Repeat what the journal holds, without a dispatcher.

        Args:
            decider: Who decides in this process from there on. It is shown what was asked so far,
                so that it remembers what it would: most policies need no more than the state, but
                a plan of reservations is made of what came before.

        Returns:
            The decider's welcome, if it would have decided all that was decided.
        """
        journal, session = self._journal, self.session
        if not self._options.resume or journal is None or journal.terms is None:
            return None
        session.begin(journal.terms)
        welcome: WelcomeBody | None = None
        follow: Follower | None = None
        if decider is not None:
            welcome = session.open(decider.hello())
            decider.begin(welcome)
            follow = partial(_agrees, decider)
        answered, followed = session.recover(self._ticking(journal.entries()), follow)
        self._recorder.skip_requests(answered)
        journal.note_resumption()
        session.epoch = journal.resumed
        return welcome if followed else None

    def _ticking(self, entries: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
        for entry in entries:
            self.tick(time.perf_counter_ns())
            yield entry

    def _drive(self) -> None:
        settings = self.scenario.dispatcher
        if self._decider is None and settings.command is not None:
            self._recover(None)
            self._drive_child(settings.command)
        elif self._decider is None and settings.external:
            self._recover(None)
            self._drive_child(
                [
                    *(sys.executable, "-m", "parley_client", "--connect", "{endpoint}"),
                    *("--policy", self.scenario.policy, "--allocator", self.scenario.allocator),
                    *_set(settings.parameters or {}),
                ]
            )
        else:
            decider = self._decider or named_dispatcher(self.scenario)
            run_in_process(
                self.session,
                decider,
                self,
                trace=self._options.trace,
                transcript=self.transcript,
                welcome=self._recover(decider),
            )

    def _drive_child(self, command: Sequence[str]) -> None:
        # In process needs neither ZeroMQ nor child processes.
        from parley_server.supervision import run_with_child  # noqa: PLC0415

        run_with_child(
            self,
            command,
            self._open_hosted,
            restarts=self.scenario.session.restarts,
            trace=self._options.trace,
        )

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
            conduct=scenario.conduct(),
            changes=preparation.changes,
            on_overrun=scenario.run.on_overrun,
            seed=scenario.run.seed,
            strict=scenario.run.strict,
            audit=self._options.audit,
        )

    def _open_source(self) -> WorkloadSource:
        self._source = self.scenario.open_source(self._preparation.machine)
        return self._source

    # ------------------------------------------------------------------ what a watch asks

    @property
    def failure(self) -> ParleyError | None:
        """How the session failed, if it has."""
        return self._failure

    def poll(self) -> None:
        """Give whoever carries out the run a chance to end it."""
        if self._options.poll is not None:
            self._options.poll()


def _agrees(decider: Dispatcher, request: DecisionRequestBody, decisions: Sequence[Any]) -> bool:
    """Whether a decider replies what a journal holds."""
    return bool(json.loads(json.dumps(decider.decide(request)["decisions"])) == list(decisions))


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
    parameters = scenario.dispatcher.parameters if policy is None else None
    try:
        return Dispatcher(chosen, allocator=placed, parameters=parameters)
    except ClientError as error:
        raise UsageError(str(error)) from None


def policy_parameters(
    settings: Iterable[str], **named: str | int | None
) -> dict[str, str | int | float | bool] | None:
    """Return the parameters of a policy as a command line gives them; None if it gives none.

    Raises:
        UsageError: One of the settings is no `name=value`.
    """
    try:
        return parameters_of(settings, **named) or None
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


def _set(parameters: Mapping[str, str | float]) -> Iterator[str]:
    """Yield parameters as arguments of the client's command."""
    for name, value in parameters.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield from ("--set", f"{name}={text}")


def _told(error: BaseException) -> str:
    """Return an exception in one line, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame else ""
    return f"the dispatcher raised {type(error).__name__}: {error}{where}"
