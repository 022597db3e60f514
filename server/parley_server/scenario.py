"""A scenario: which workload on which machine, by which rules, decided by whom.

The same settings stand in a TOML file and on the command line; flags win over the file.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, Field, field_validator, model_validator

from parley_server.engine import OnOverrun
from parley_server.errors import UsageError
from parley_server.platform import GroupDescription, PlatformDescription, read_platform, uniform
from parley_server.platform.description import MOST_NODES, Amount
from parley_server.quantities import parse_duration
from parley_server.session_settings import (
    NodeChangeSettings,
    PositiveDuration,
    SessionSettings,
)
from parley_server.settings import Settings, read_settings, validate
from parley_server.workload import (
    EstimateMissing,
    ReadingRules,
    RequestMode,
    Select,
    SwfSource,
    parse_estimate,
)
from parley_server.workload.files import digest_of

if TYPE_CHECKING:
    from parley_server.engine import NodeChange
    from parley_server.host.conduct import Conduct


def _no_zero_byte(text: str) -> str:
    if "\0" in text:
        raise ValueError("a name of a file holds no zero byte")
    return text


PathText = Annotated[str, AfterValidator(_no_zero_byte)]


class PlatformSettings(Settings):
    """The machine: so many equal nodes, groups of nodes, or a file that describes it."""

    nodes: int | None = Field(
        default=None, gt=0, le=MOST_NODES, description="How many equal nodes."
    )
    per_node: dict[str, Amount] | None = Field(
        default=None, description="Amount of each resource on each of the equal nodes."
    )
    groups: list[GroupDescription] | None = Field(default=None, min_length=1)
    file: PathText | None = Field(default=None, description="A platform file, TOML or JSON.")

    @model_validator(mode="after")
    def _exactly_one(self) -> PlatformSettings:
        given = [name for name in ("nodes", "groups", "file") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none of them"
            raise ValueError(f"one of nodes, groups and file says what the machine is; {found}")
        if self.per_node is not None and self.nodes is None:
            raise ValueError("per_node goes with nodes; a group has its own")
        return self


class WorkloadSettings(Settings):
    """The jobs and how their trace is read."""

    swf: PathText = Field(description="A trace in the Standard Workload Format, be it compressed.")
    request: RequestMode = Field(
        default=RequestMode.NODES,
        description="nodes: an exclusive node per processor; processors: a chunk per processor.",
    )
    per_processor: dict[str, Amount] | None = Field(
        default=None, description="What a chunk asks of its node, with request = processors."
    )
    select: Select = Field(
        default=Select.ALL,
        description="all: every line that can be simulated; archive: without status 2, 3 and 4.",
    )
    estimate: str = Field(default="trace", description="trace, exact, or factor:F.")
    estimate_missing: EstimateMissing = Field(
        default=EstimateMissing.RUNTIME, description="The walltime of a job that asks for none."
    )
    limit: int | None = Field(default=None, gt=0, description="Read so many jobs at most.")

    @field_validator("estimate")
    @classmethod
    def _is_estimate(cls, text: str) -> str:
        try:
            return parse_estimate(text).name
        except UsageError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _chunks(self) -> WorkloadSettings:
        if self.per_processor is not None and self.request is RequestMode.NODES:
            raise ValueError("per_processor goes with request = processors; a node is taken whole")
        if self.per_processor == {}:
            raise ValueError("per_processor names at least one resource, such as core = 1")
        return self


class RunSettings(Settings):
    """The rules of the run itself."""

    name: str | None = Field(default=None, description="What the scenario is called.")
    on_overrun: OnOverrun = Field(
        default=OnOverrun.RUN, description="Whether a job may run on beyond its walltime."
    )
    seed: int = Field(default=0, ge=0, lt=2**53, description="For all that is random.")
    deadline: PositiveDuration = Field(default="60s", description="Wall time for each answer.")
    strict: bool = Field(default=False, description="A dropped line or rejected job is an error.")
    on_node_down: Literal["kill", "requeue"] = Field(
        default="kill", description="What becomes of the jobs on a node that goes down."
    )


class DispatcherSettings(Settings):
    """Who decides: a built-in policy, or a command that speaks the protocol."""

    policy: str | None = Field(
        default=None, description="A policy by name, or FILE.py:NAME; fifo is the default."
    )
    allocator: str | None = Field(
        default=None, description="An allocator by name, or FILE.py:NAME; first-fit is the default."
    )
    parameters: dict[str, str | int | float | bool] | None = Field(
        default=None, description="Of the policy: order, depth and so on."
    )
    external: bool = Field(
        default=False, description="Run the built-in policy as a child process over ZeroMQ."
    )
    command: list[str] | None = Field(
        default=None,
        min_length=1,
        description="A dispatcher; {endpoint} is replaced, PARLEY_ENDPOINT is set.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> DispatcherSettings:
        if self.command is not None:
            for name in ("policy", "allocator", "parameters"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for built-in dispatchers; command is another")
            if self.external:
                raise ValueError("external is for built-in policies; a command always is")
        return self


class ResultSettings(Settings):
    """Where the results go."""

    out: PathText | None = Field(default=None, description="A directory that holds no other run.")


class Scenario(Settings):
    """All settings of a run."""

    platform: PlatformSettings
    workload: WorkloadSettings
    run: RunSettings = Field(default_factory=RunSettings)
    session: SessionSettings = Field(default_factory=SessionSettings)
    node_changes: list[NodeChangeSettings] = Field(default_factory=list)
    dispatcher: DispatcherSettings = Field(default_factory=DispatcherSettings)
    results: ResultSettings = Field(default_factory=ResultSettings)

    @property
    def name(self) -> str:
        """What the scenario is called: its name, or its trace's."""
        return self.run.name or self.workload_name

    @property
    def workload_name(self) -> str:
        """The name of the trace's file, without its endings."""
        name = Path(self.workload.swf).name
        for ending in (".gz", ".bz2", ".xz", ".swf"):
            name = name.removesuffix(ending)
        return name or "workload"

    @property
    def policy(self) -> str:
        """The built-in policy to use."""
        return "fifo" if self.dispatcher.policy is None else self.dispatcher.policy

    @property
    def allocator(self) -> str:
        """The built-in allocator to use."""
        return "first-fit" if self.dispatcher.allocator is None else self.dispatcher.allocator

    @property
    def deadline_us(self) -> int:
        """Wall time for each answer."""
        return parse_duration(str(self.run.deadline))

    def conduct(self) -> Conduct:
        """Return what both sides of a session can rely on."""
        return self.session.conduct(
            deadline_us=self.deadline_us, on_node_down=self.run.on_node_down
        )

    def changes(self, platform: PlatformDescription) -> list[NodeChange]:
        """Return when nodes go out of service and come back.

        Raises:
            UsageError: The platform has no such nodes.
        """
        return [change.change(platform.node_count) for change in self.node_changes]

    def describe_platform(self) -> PlatformDescription:
        """Return the machine.

        Raises:
            InputError: Its file cannot be read.
            UsageError: Its description is wrong.
        """
        settings = self.platform
        if settings.file is not None:
            return read_platform(Path(settings.file))
        if settings.groups is not None:
            groups = [group.model_dump() for group in settings.groups]
            return validate(PlatformDescription, {"groups": groups}, source="platform")
        return uniform(settings.nodes or 0, settings.per_node or {"core": 1})

    def reading_rules(self, platform: PlatformDescription) -> ReadingRules:
        """Return how the trace is read."""
        workload = self.workload
        return ReadingRules(
            request=workload.request,
            select=workload.select,
            estimate=parse_estimate(workload.estimate),
            estimate_missing=workload.estimate_missing,
            per_processor=workload.per_processor or {"core": 1},
            per_node=platform.least_node(),
            cut_at_walltime=self.run.on_overrun is OnOverrun.KILL,
            limit=workload.limit,
            strict=self.run.strict,
        )

    def open_source(self, platform: PlatformDescription) -> SwfSource:
        """Open the workload.

        Raises:
            InputError: It cannot be opened.
        """
        return SwfSource(Path(self.workload.swf), self.reading_rules(platform))

    def rules(self) -> dict[str, Any]:
        """Return everything that decides what is simulated, apart from the input files."""
        workload = self.workload
        return {
            "request": workload.request.value,
            "per_processor": (workload.per_processor or {"core": 1})
            if workload.request is RequestMode.PROCESSORS
            else None,
            "select": workload.select.value,
            "on_overrun": self.run.on_overrun.value,
            "estimate": workload.estimate,
            "estimate_missing": workload.estimate_missing.value,
            "limit": workload.limit,
            "strict": self.run.strict,
            "seed": self.run.seed,
            "on_node_down": self.run.on_node_down,
            "node_changes": [change.model_dump() for change in self.node_changes],
            "on_reject": self.session.on_reject,
            "reasks": self.session.reasks if self.session.on_reject == "reask" else None,
            "latency": self.session.latency,
            "dynamic_jobs": self.session.dynamic_jobs,
        }

    def digest(self, platform: PlatformDescription, *, workload_sha256: str | None = None) -> str:
        """Return a SHA-256 that two scenarios share when inputs, machine and rules are the same.

        Args:
            platform: The machine.
            workload_sha256: That of the trace, if it is known already.

        Raises:
            InputError: The workload cannot be read.
        """
        content = {
            "workload": workload_sha256 or digest_of(Path(self.workload.swf)),
            "platform": [group.model_dump(exclude={"name"}) for group in platform.groups],
            "rules": self.rules(),
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def resolved(
        self,
        platform: PlatformDescription,
        *,
        policy: str | None = None,
        allocator: str | None = None,
    ) -> str:
        """Return the scenario as TOML with every setting in it, for another run of the same.

        Args:
            platform: The machine, whatever it was read from.
            policy: What decides, if it is another than the scenario names.
            allocator: What places, likewise.
        """
        # Not resolved: a trace that goes by another name keeps it.
        workload = Path(self.workload.swf).absolute()
        dispatcher: dict[str, Any] = {"command": self.dispatcher.command}
        if self.dispatcher.command is None:
            dispatcher = {
                "policy": policy or self.policy,
                "allocator": allocator or self.allocator,
                "external": self.dispatcher.external,
            }
            if policy in {None, self.policy}:
                dispatcher["parameters"] = dict(self.dispatcher.parameters or {}) or None
            _place(dispatcher, Path.cwd())
        rules = self.rules()
        tables = {
            "platform": {"groups": [group.model_dump() for group in platform.groups]},
            "workload": {
                "swf": str(workload),
                **{key: rules[key] for key in ("request", "per_processor", "select")},
                **{key: rules[key] for key in ("estimate", "estimate_missing", "limit")},
            },
            "run": {
                "name": self.name,
                "on_overrun": rules["on_overrun"],
                "seed": self.run.seed,
                "deadline": self.run.deadline,
                "strict": self.run.strict,
                "on_node_down": self.run.on_node_down,
            },
            "session": self.session.model_dump(),
            "node_changes": rules["node_changes"],
            "dispatcher": dispatcher,
        }
        return tomli_w.dumps(_without_nothing(tables))


def read_scenario(path: Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Scenario:
    """Return the scenario of a file; paths in it are relative to the file.

    Args:
        path: A TOML file, or JSON if its name ends so.
        changes: Settings that win over the file's, by table.

    Raises:
        InputError: The file cannot be read.
        UsageError: A setting is wrong.
    """
    tables = read_settings(path)
    for table, key in (("workload", "swf"), ("platform", "file"), ("results", "out")):
        section = tables.get(table)
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = str(path.parent / section[key])
    _place(tables.get("dispatcher"), path.parent)
    return _scenario(tables, changes or {}, source=str(path))


def _place(dispatcher: Any, folder: Path) -> None:
    """Let the paths of a dispatcher's own parts, `FILE.py:NAME`, begin at a folder."""
    if not isinstance(dispatcher, dict):
        return
    parameters = dispatcher.get("parameters")
    for settings in (dispatcher, parameters if isinstance(parameters, dict) else {}):
        for key, value in settings.items():
            if isinstance(value, str) and ".py:" in value:
                settings[key] = str(folder / value)


def scenario_of(
    changes: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Mapping[str, Any]] | None = None
) -> Scenario:
    """Return the scenario that settings describe without a file.

    Args:
        changes: Settings that win over the others.
        tables: The others, by table.

    Raises:
        UsageError: A setting is wrong or missing.
    """
    return _scenario(copy.deepcopy(dict(tables or {})), changes, source="command line")


_FLAGS = {
    "nodes": ("platform", "nodes"),
    "per_node": ("platform", "per_node"),
    "platform": ("platform", "file"),
    "swf": ("workload", "swf"),
    "request": ("workload", "request"),
    "per_processor": ("workload", "per_processor"),
    "select": ("workload", "select"),
    "estimate": ("workload", "estimate"),
    "estimate_missing": ("workload", "estimate_missing"),
    "limit": ("workload", "limit"),
    "on_overrun": ("run", "on_overrun"),
    "seed": ("run", "seed"),
    "deadline": ("run", "deadline"),
    "strict": ("run", "strict"),
    "on_node_down": ("run", "on_node_down"),
    "on_reject": ("session", "on_reject"),
    "reasks": ("session", "reasks"),
    "on_timeout": ("session", "on_timeout"),
    "on_disconnect": ("session", "on_disconnect"),
    "reconnect": ("session", "reconnect"),
    "restarts": ("session", "restarts"),
    "latency": ("session", "latency"),
    "dynamic_jobs": ("session", "dynamic_jobs"),
    "state_digest": ("session", "state_digest"),
    "policy": ("dispatcher", "policy"),
    "allocator": ("dispatcher", "allocator"),
    "parameters": ("dispatcher", "parameters"),
    "external": ("dispatcher", "external"),
    "command": ("dispatcher", "command"),
    "out": ("results", "out"),
}
"""Which setting each flag of a run, or argument of a function, stands for."""


def settings_of(**flags: Any) -> dict[str, dict[str, Any]]:
    """Return the settings that flags stand for, by table; a flag of None is not given."""
    tables: dict[str, dict[str, Any]] = {}
    for name, value in flags.items():
        if value is None:
            continue
        table, key = _FLAGS[name]
        if isinstance(value, Path):
            value = str(value)  # noqa: PLW2901 - what a TOML file would hold
        elif isinstance(value, Mapping):
            value = dict(value)  # noqa: PLW2901
        elif not isinstance(value, str) and isinstance(value, Sequence):
            value = list(value)  # noqa: PLW2901
        tables.setdefault(table, {})[key] = value
    return tables


_EXCLUSIVE = {
    "platform": ({"nodes", "per_node"}, {"groups"}, {"file"}),
    "dispatcher": ({"policy", "allocator", "parameters", "external"}, {"command"}),
}
"""Settings of a table that stand for one another: a flag of one set puts the file's others out."""


def _scenario(
    tables: dict[str, Any], changes: Mapping[str, Mapping[str, Any]], *, source: str
) -> Scenario:
    for table, settings in changes.items():
        given = {key: value for key, value in settings.items() if value is not None}
        section = tables.setdefault(table, {})
        if not isinstance(section, dict):
            continue
        for family in _EXCLUSIVE.get(table, ()):
            if any(value is not False for value in given.values()) and not family & given.keys():
                for key in family:
                    section.pop(key, None)
        if table == "workload" and given.get("request") == RequestMode.NODES.value:
            # What a chunk asks for says nothing where nodes are taken whole.
            section.pop("per_processor", None)
        if table == "dispatcher":
            _change_policy(section, given)
        section.update(given)
    return validate(Scenario, tables, source=source)


def _change_policy(section: dict[str, Any], given: dict[str, Any]) -> None:
    """Keep a file's parameters for its own policy, each unless it is given anew."""
    kept = section.get("parameters")
    if "policy" in given and given["policy"] != section.get("policy"):
        section.pop("parameters", None)
    elif isinstance(kept, dict) and isinstance(given.get("parameters"), dict):
        given["parameters"] = {**kept, **given["parameters"]}


def _without_nothing(value: Any) -> Any:
    """Return nested tables without the keys that hold None: TOML cannot say it."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return value
