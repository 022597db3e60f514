"""Runs for Python: what the command line does, with your own policy if you like.

    from parley_server import run

    result = run(swf="trace.swf.gz", nodes=100, policy="fifo", out="results")
    print(result.summary["wait"]["mean"])
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_client.allocators import allocator_named
from parley_client.dispatcher import Dispatcher, PolicyLike
from parley_client.errors import ClientError
from parley_client.policies import policy_named

from parley_server import __version__
from parley_server.errors import ParleyError, RunFailed, UsageError
from parley_server.host.inprocess import run_in_process
from parley_server.host.session import Offer, Session
from parley_server.results import Recorder, RunDescription, RunFiles, prepare_directory
from parley_server.scenario import Scenario, read_scenario, scenario_of
from parley_server.workload.files import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parley_client.allocators import Allocator
    from parley_protocol.messages import HelloBody

    from parley_server.engine import Simulation
    from parley_server.platform import PlatformDescription
    from parley_server.workload import SwfSource

    Trace = Callable[[str, str, Any], None]
    Progress = Callable[[Simulation], None]

_PROGRESS_NS = 100_000_000


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


def run(
    scenario: str | Path | Scenario | None = None,
    *,
    out: str | Path | None = None,
    swf: str | Path | None = None,
    nodes: int | None = None,
    per_node: Mapping[str, int] | None = None,
    platform: str | Path | None = None,
    policy: PolicyLike | None = None,
    allocator: Allocator | str | None = None,
    command: Sequence[str] | None = None,
    external: bool | None = None,
    request: str | None = None,
    per_processor: Mapping[str, int] | None = None,
    select: str | None = None,
    on_overrun: str | None = None,
    estimate: str | None = None,
    estimate_missing: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    deadline: str | int | None = None,
    strict: bool | None = None,
    force: bool = False,
    audit: bool = False,
    progress: Progress | None = None,
    trace: Trace | None = None,
) -> RunResult:
    """Simulate a scenario and write its results.

    Args:
        scenario: A scenario, or the file of one; the settings below win over it.
        out: The directory for the results; it must not hold another run.
        swf: A trace in the Standard Workload Format, plain or compressed.
        nodes: How many equal nodes the machine has.
        per_node: Amount of each resource on each of them; one core by default.
        platform: A file that describes the machine, in the place of *nodes*.
        policy: A policy, a function that takes the view, or the name of a policy.
        allocator: An allocator, or the name of one.
        command: A dispatcher to start as a child process, in the place of a policy.
        external: Run the named policy as a child process over ZeroMQ.
        request: `nodes` or `processors`: what one requested processor means.
        per_processor: What a chunk asks of its node, with request `processors`.
        select: `all` or `archive`: which lines of the trace become jobs.
        on_overrun: `run` or `kill`: what becomes of a job at its walltime.
        estimate: `trace`, `exact` or `factor:F`: where walltimes come from.
        estimate_missing: `runtime` or `none`: the walltime of a job that asks for none.
        limit: Read so many jobs at most.
        seed: For all that is random.
        deadline: Wall time for each answer of a child process; seconds, or text such as `5m`.
        strict: A dropped line or a job that can never fit is an error.
        force: Replace another run in *out*.
        audit: Check every invariant after every step; slow, for tests.
        progress: Called about ten times a second with the simulation.
        trace: Is told of each message: its direction, its type, its body.

    Returns:
        The paths of the results and the summary.

    Raises:
        UsageError: A setting is wrong, or *out* cannot be used.
        InputError: A file cannot be read; what was simulated before is written.
        RunFailed: The run broke off; what was simulated before is written.
        OutputError: The results cannot be written.
        Exception: Whatever a policy object raises, after what was simulated is written.
    """
    named = policy if isinstance(policy, str) else None
    placed = allocator if isinstance(allocator, str) else None
    settings: dict[str, dict[str, Any]] = {
        "platform": {
            "nodes": nodes,
            "per_node": None if per_node is None else dict(per_node),
            "file": None if platform is None else str(platform),
        },
        "workload": {
            "swf": None if swf is None else str(swf),
            "request": request,
            "per_processor": None if per_processor is None else dict(per_processor),
            "select": select,
            "estimate": estimate,
            "estimate_missing": estimate_missing,
            "limit": limit,
        },
        "run": {
            "on_overrun": on_overrun,
            "seed": seed,
            "deadline": deadline,
            "strict": strict,
        },
        "dispatcher": {
            "policy": named,
            "allocator": placed,
            "external": external,
            "command": None if command is None else list(command),
        },
        "results": {"out": None if out is None else str(out)},
    }
    resolved = load_scenario(scenario, settings)
    decider: Dispatcher | None = None
    if named is None and policy is not None:
        decider = _dispatcher(resolved, policy, allocator)
    elif placed is None and allocator is not None:
        decider = _dispatcher(resolved, resolved.policy, allocator)
    return Run(
        resolved, decider=decider, force=force, audit=audit, progress=progress, trace=trace
    ).execute()


def load_scenario(
    scenario: str | Path | Scenario | None, changes: Mapping[str, Mapping[str, Any]]
) -> Scenario:
    """Return a scenario from a file, with changes that win over it, or from these alone.

    Raises:
        InputError: The file cannot be read.
        UsageError: A setting is wrong or missing.
    """
    if isinstance(scenario, Scenario):
        tables = scenario.model_dump(mode="json", exclude_none=True)
        merged = {
            name: {**tables.get(name, {}), **_given(changes.get(name, {}))}
            for name in {**tables, **changes}
        }
        return scenario_of(merged)
    if scenario is None:
        return scenario_of({name: table for name, table in changes.items() if _given(table)})
    return read_scenario(Path(scenario), changes)


def check(scenario: Scenario) -> PlatformDescription:
    """Find out whether a scenario could be run: its machine, its workload, its dispatcher.

    Raises:
        UsageError: A setting is wrong.
        InputError: A file cannot be read, or the first job cannot.
    """
    machine = scenario.describe_platform()
    if scenario.dispatcher.command is None:
        _dispatcher(scenario, scenario.policy, scenario.allocator)
    scenario.open_source(machine).next()
    return machine


class Run:
    """One simulation from a scenario to its results.

    Args:
        decider: Who decides, in this process; None takes what the scenario names.

    Raises:
        UsageError: A setting is wrong, or the output directory cannot be used.
        InputError: A file cannot be read.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        decider: Dispatcher | None = None,
        out: Path | None = None,
        force: bool = False,
        audit: bool = False,
        progress: Progress | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.scenario = scenario
        self._decider = decider
        self._progress = progress
        self._trace = trace
        self._progressed_ns = 0
        self._source: SwfSource | None = None
        self._failure: ParleyError | None = None
        machine = scenario.describe_platform()
        if decider is None and scenario.dispatcher.command is None:
            # An unknown name is told before anything is written.
            self._decider = _dispatcher(scenario, scenario.policy, scenario.allocator)
        self._first_source: SwfSource | None = scenario.open_source(machine)
        digest = scenario.digest(machine)
        directory = out or (Path(scenario.results.out) if scenario.results.out else None)
        if directory is None:
            raise UsageError("where do the results go? name a directory with --out")
        self.files = prepare_directory(directory, force=force)
        self.recorder = Recorder(self.files, self._describe(machine, digest))
        self.sink = self
        self.session = Session(self._offer(machine, digest, audit=audit), self)
        self._summary: dict[str, Any] | None = None

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
            reason, failure = "dispatcher_failed", RunFailed("dispatcher_failed", _told(error))
            raise
        finally:
            summary = self.finish(failure, reason=reason)
        return RunResult(self.files, summary)

    def finish(self, failure: ParleyError | None, *, reason: str | None = None) -> dict[str, Any]:
        """Write what is left and the summary; once."""
        if self._summary is None:
            simulation = getattr(self.session, "simulation", None)
            report = self._source.report if self._source else None
            self._summary = self.recorder.close(simulation, report, failure, reason=reason)
        return self._summary

    def finished(self, failure: ParleyError | None) -> None:
        """Note how the session ended, as the router tells it."""
        self._failure = failure

    def _drive(self) -> None:
        settings = self.scenario.dispatcher
        if settings.command is not None:
            self._drive_child(settings.command)
        elif settings.external:
            self._drive_child(
                [
                    *(sys.executable, "-m", "parley_client", "--connect", "{endpoint}"),
                    *("--policy", self.scenario.policy, "--allocator", self.scenario.allocator),
                ]
            )
        else:
            assert self._decider is not None  # noqa: S101 - made above for every other setting
            run_in_process(self.session, self._decider, self, trace=self._trace)

    def _drive_child(self, command: Sequence[str]) -> None:
        from parley_server.host.child import Child  # noqa: PLC0415 - as is the one below:
        from parley_server.host.router import Router  # noqa: PLC0415 - in process needs no zmq

        router = Router("tcp://127.0.0.1:*", self._open_hosted, limit=1, trace=self._trace)
        began = time.monotonic()
        deadline_us = self.scenario.deadline_us
        child: Child | None = None
        try:
            child = Child(command, router.endpoint)

            def watch() -> None:
                if self._failure is not None:
                    raise self._failure
                if router.refused is not None:
                    raise RunFailed("protocol_error", f"the dispatcher: {router.refused}")
                if child is not None and child.ended:
                    raise child.failure()
                if not self._opened and (time.monotonic() - began) * 1e6 > deadline_us:
                    raise RunFailed(
                        "deadline_missed",
                        f"the dispatcher {command[0]!r} said no hello within "
                        f"{deadline_us / 1e6:g} s (--deadline); does it connect to "
                        f"{{endpoint}} or PARLEY_ENDPOINT?",
                    )

            router.run(watch)
        except BaseException:
            if child is not None:
                child.end(patience=0.2)
            raise
        finally:
            router.close()
            if child is not None:
                child.end()
        if self._failure is not None:
            raise self._failure

    @property
    def _opened(self) -> bool:
        return hasattr(self.session, "simulation")

    def _open_hosted(self, hello: HelloBody) -> Run:
        wanted = hello.get("scenario")
        if wanted is not None and wanted != self.scenario.name:
            raise unknown_scenario(wanted, [self.scenario.name])
        return self

    # ------------------------------------------------------------------ what the session leaves

    def collect(self, simulation: Simulation) -> None:
        """Pass records on to the recorder."""
        self.recorder.collect(simulation)

    def timed(self, now: int, *, dispatcher_us: int, server_us: int, wire_us: int) -> None:
        """Pass a timing on to the recorder."""
        self.recorder.timed(
            now, dispatcher_us=dispatcher_us, server_us=server_us, wire_us=wire_us
        )

    def tick(self, clock_ns: int) -> None:
        """Flush now and then, and show progress."""
        self.recorder.tick(clock_ns)
        if self._progress is not None and clock_ns - self._progressed_ns > _PROGRESS_NS:
            self._progressed_ns = clock_ns
            self._progress(self.session.simulation)

    # ------------------------------------------------------------------ making the parts

    def _offer(self, machine: PlatformDescription, digest: str, *, audit: bool) -> Offer:
        scenario = self.scenario
        rules = scenario.rules()
        return Offer(
            name=scenario.name,
            digest=digest,
            rules={key: str(value) for key, value in rules.items()},
            groups=machine.node_groups(),
            open_source=lambda: self._open_source(machine),
            on_overrun=scenario.run.on_overrun,
            seed=scenario.run.seed,
            deadline_us=scenario.deadline_us,
            strict=scenario.run.strict,
            audit=audit,
        )

    def _open_source(self, machine: PlatformDescription) -> SwfSource:
        source, self._first_source = self._first_source, None
        self._source = source or self.scenario.open_source(machine)
        return self._source

    def _describe(self, machine: PlatformDescription, digest: str) -> RunDescription:
        scenario = self.scenario
        inputs = [_input("workload", scenario.workload.swf)]
        if scenario.platform.file is not None:
            inputs.append(_input("platform", scenario.platform.file))
        capacity: dict[str, int] = {}
        for group in machine.groups:
            for kind, amount in group.per_node.items():
                capacity[kind] = capacity.get(kind, 0) + amount * group.nodes
        return RunDescription(
            name=scenario.name,
            digest=digest,
            workload_name=scenario.workload_name,
            scenario_toml=scenario.resolved(machine),
            inputs=inputs,
            rules=scenario.rules(),
            dispatcher=self._describe_dispatcher(),
            capacity=dict(sorted(capacity.items())),
            node_count=machine.node_count,
            versions={"parley": __version__, "python": sys.version.split()[0]},
        )

    def _describe_dispatcher(self) -> dict[str, Any]:
        settings = self.scenario.dispatcher
        if settings.command is not None:
            return {"command": list(settings.command)}
        name = self._decider.name if self._decider is not None else self.scenario.policy
        return {
            "policy": name,
            "allocator": self.scenario.allocator,
            "external": settings.external,
        }


def unknown_scenario(wanted: str, offered: Sequence[str]) -> ParleyError:
    """Return what to raise for a hello that asks for a scenario there is not."""
    from parley_protocol.errors import ProtocolError  # noqa: PLC0415 - only when it is raised

    raise ProtocolError(
        "scenario.unknown",
        f"no scenario {wanted[:64]!r} is offered",
        "body.scenario",
        list(offered),
        fatal=True,
    )


def _dispatcher(
    scenario: Scenario, policy: PolicyLike, allocator: Allocator | str | None
) -> Dispatcher:
    try:
        if isinstance(policy, str):
            policy_named(policy)
        if isinstance(allocator, str):
            allocator_named(allocator)
        return Dispatcher(policy, allocator=allocator or scenario.allocator)
    except ClientError as error:
        raise UsageError(str(error)) from None


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _input(role: str, path: str) -> dict[str, str]:
    return {"role": role, "path": path, "sha256": digest_of(Path(path))}


def _told(error: BaseException) -> str:
    """Return an exception in one line, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame else ""
    return f"the dispatcher raised {type(error).__name__}: {error}{where}"
