"""Runs for Python: what the command line does, with your own policy if you like.

from parley_server import run

result = run(swf="trace.swf.gz", nodes=100, policy="fifo", out="results")
print(result.summary["wait"]["mean"])
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import UsageError
from parley_server.running import Preparation, Run, RunOptions, RunResult, named_dispatcher
from parley_server.scenario import Scenario, read_scenario, scenario_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_client.allocators import Allocator
    from parley_client.dispatcher import PolicyLike
    from parley_server.engine import Simulation
    from parley_server.running import Trace

__all__ = ["RunResult", "load_resumed", "load_scenario", "run", "run_scenario"]


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
    parameters: Mapping[str, str | int | float | bool] | None = None,
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
    on_node_down: str | None = None,
    session: Mapping[str, Any] | None = None,
    transcript: str | Path | None = None,
    journal: bool = False,
    force: bool = False,
    audit: bool = False,
    progress: Callable[[Simulation], None] | None = None,
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
        policy: A policy, a function that takes the view, or the name or path of a policy.
        allocator: An allocator, or the name or path of one.
        parameters: Of a policy that is given by its name: `order`, `depth` and so on.
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
        on_node_down: `kill` or `requeue`: what becomes of the jobs on a node that goes down.
        session: Settings of the session: `on_reject`, `latency` and so on, as in a scenario.
        transcript: A file for every message.
        journal: Keep every reply, so that the run can be taken up again if it breaks off.
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
    if parameters and policy is not None and named is None:
        raise UsageError("parameters go with the name of a policy; an object has its own")
    placed = allocator if isinstance(allocator, str) else None
    settings = settings_of(
        nodes=nodes,
        per_node=per_node,
        platform=platform,
        swf=swf,
        request=request,
        per_processor=per_processor,
        select=select,
        estimate=estimate,
        estimate_missing=estimate_missing,
        limit=limit,
        on_overrun=on_overrun,
        seed=seed,
        deadline=deadline,
        strict=strict,
        policy=named,
        allocator=placed,
        parameters=parameters,
        external=external,
        command=command,
        out=out,
        on_node_down=on_node_down,
    )
    if session is not None:
        settings["session"] = dict(session)
    resolved = load_scenario(scenario, settings)
    objects: dict[str, Any] = {}
    if policy is not None and named is None:
        objects["policy"] = policy
    if allocator is not None and placed is None:
        objects["allocator"] = allocator
    options = RunOptions(
        force=force,
        audit=audit,
        progress=progress,
        trace=trace,
        transcript=None if transcript is None else Path(transcript),
        journal=journal,
    )
    return run_scenario(resolved, options, **objects)


def run_scenario(
    scenario: Scenario,
    options: RunOptions | None = None,
    *,
    policy: PolicyLike | None = None,
    allocator: Allocator | None = None,
) -> RunResult:
    """Simulate a scenario; `run` says what may go wrong."""
    if scenario.results.out is None:
        raise UsageError("where do the results go? name a directory with --out")
    decider = None
    if policy is not None or allocator is not None:
        decider = named_dispatcher(scenario, policy, allocator)
    prepared = Preparation(scenario)
    directory = Path(scenario.results.out)
    return Run(prepared, directory, options or RunOptions(), decider=decider).execute()


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
        return scenario_of(changes, tables)
    if scenario is None:
        return scenario_of(changes)
    return read_scenario(Path(scenario), changes)


def load_resumed(
    directory: Path, changes: Mapping[str, Mapping[str, Any]], scenario: Path | None = None
) -> Scenario:
    """Return the scenario of a run that broke off, to be taken up by `run_scenario`.

    Args:
        directory: Where the run lies.
        changes: Another dispatcher, or other patience with it; nothing else can be another.
        scenario: Must not be named: the directory holds it.

    Raises:
        UsageError: No run lies there, or a change is one of the simulation.
    """
    if scenario is not None:
        raise UsageError(f"--resume takes its scenario from {directory}; name no other")
    path = directory / "scenario.toml"
    if not path.is_file():
        raise UsageError(f"{directory}: holds no run to be resumed (no {path.name})")
    for table, settings in changes.items():
        for key in settings:
            if table != "dispatcher" and (table, key) not in _MAY_CHANGE:
                raise UsageError(
                    f"{key.replace('_', '-')} cannot be another in a run that has begun; "
                    "--resume takes a dispatcher and patience with it"
                )
    return read_scenario(path, {**changes, "results": {"out": str(directory.absolute())}})


_MAY_CHANGE = frozenset(
    {
        ("run", "deadline"),
        *(("session", key) for key in ("on_timeout", "on_disconnect", "reconnect", "restarts")),
        ("session", "state_digest"),
    }
)
"""Settings that have to do with the dispatcher's process, not with what is simulated."""
