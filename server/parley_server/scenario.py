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
from pydantic import BeforeValidator, Field, model_validator

from parley_server.engine import OnOverrun
from parley_server.errors import UsageError
from parley_server.inputs import PathText, PlatformSettings, WorkloadSettings
from parley_server.own_code import split_reference
from parley_server.platform import PlatformDescription, guessed, read_platform, uniform
from parley_server.quantities import parse_duration
from parley_server.session_settings import (
    NodeChangeSettings,
    PositiveDuration,
    SessionSettings,
)
from parley_server.settings import Settings, integral, read_settings, validate
from parley_server.workload import ReadingRules, RequestMode, WorkloadSource, parse_estimate
from parley_server.workload.files import COMPRESSED_ENDINGS, STANDARD, digest_of
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import (
    Memory,
    MemoryRule,
    Partitions,
    parse_estimate_missing,
    parse_order,
    parse_zero_runtime,
)
from parley_server.workload.swf import SwfReader

if TYPE_CHECKING:
    from parley_server.engine import NodeChange
    from parley_server.host.conduct import Conduct


_MEMORY_NAMES = ("mem", "memory")
"""Resources that are memory, in kilobytes, where jobs are to ask for it and nothing else says."""


class RunSettings(Settings):
    """The rules of the run itself."""

    name: str | None = Field(default=None, description="What the scenario is called.")
    on_overrun: OnOverrun = Field(
        default=OnOverrun.RUN, description="Whether a job may run on beyond its walltime."
    )
    seed: Annotated[int, Field(ge=0, lt=2**53), BeforeValidator(integral)] = Field(
        default=0, description="For all that is random."
    )
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
        name = Path(self.workload.path or "").name
        name = "" if name == STANDARD else name
        for ending in (*COMPRESSED_ENDINGS, ".swf", ".jsonl", ".json", ".csv", ".parquet"):
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
        if settings.guess:
            return self._guess()
        if settings.groups is not None:
            tables = settings.model_dump(
                mode="json",
                exclude_none=True,
                include={"groups", "partitions", "memory", "start_time"},
            )
            return validate(PlatformDescription, tables, source="platform")
        return uniform(settings.nodes or 0, settings.per_node or {"core": 1})

    def _guess(self) -> PlatformDescription:
        workload = self.workload.opened()
        path = workload.path
        if path is None or str(path) == STANDARD or workload.resolved() != "swf":
            raise UsageError("a machine is guessed from the header of an SWF file; name one")
        reader = SwfReader(path, ReadReport())
        try:
            reader.read()
        finally:
            reader.close()
        return guessed(reader.header, str(path))

    def request_mode(self, platform: PlatformDescription) -> RequestMode:
        """Return what one requested processor means on a machine."""
        settings = self.workload
        if settings.request is not None:
            return settings.request
        if platform.equivalence and settings.processors_per_node is None:
            return RequestMode.PROCESSORS
        return RequestMode.NODES

    def _per_processor(self, platform: PlatformDescription) -> Mapping[str, int]:
        return self.workload.per_processor or platform.equivalence.get("processor") or {"core": 1}

    def _memory(self, platform: PlatformDescription) -> MemoryRule:
        settings, machine = self.workload, platform.memory
        mode = settings.memory
        if mode is None:
            mode = Memory.IGNORE if machine is None else Memory.PER_PROCESSOR
        if machine is None:
            if mode is Memory.IGNORE:
                return MemoryRule()
            named = [kind for kind in _MEMORY_NAMES if kind in platform.capacity]
            if len(named) != 1:
                raise UsageError(
                    "workload: memory: the platform does not say which of its resources is "
                    "memory; write memory = { resource = 'mem', kilobytes = 1 } there"
                )
            return MemoryRule(mode, named[0], 1, settings.memory_unit)
        return MemoryRule(mode, machine.resource, machine.kilobytes, settings.memory_unit)

    def reading_rules(self, platform: PlatformDescription) -> ReadingRules:
        """Return how the trace is read.

        Raises:
            UsageError: The machine has not what the settings speak of.
        """
        workload = self.workload
        partitions = None
        if platform.partitions:
            default = (part.name for part in platform.partitions if part.default)
            names = frozenset(part.name for part in platform.partitions)
            partitions = Partitions(names, next(default, None))
        return ReadingRules(
            request=self.request_mode(platform),
            select=workload.select,
            size=workload.size,
            estimate=parse_estimate(workload.estimate),
            estimate_missing=parse_estimate_missing(workload.estimate_missing),
            zero_runtime=parse_zero_runtime(workload.zero_runtime),
            per_processor=self._per_processor(platform),
            per_node=platform.least_node(),
            processors_per_node=workload.processors_per_node or 1,
            memory=self._memory(platform),
            partitions=partitions,
            drop=tuple(workload.drop or ()),
            order=None if workload.reorder is None else parse_order(workload.reorder),
            origin=parse_duration(str(workload.origin)),
            cut_at_walltime=self.run.on_overrun is OnOverrun.KILL,
            limit=workload.limit,
            seed=self.run.seed,
            strict=self.run.strict,
        )

    def open_source(self, platform: PlatformDescription) -> WorkloadSource:
        """Open the workload.

        Raises:
            InputError: It cannot be opened.
            UsageError: A rule makes no sense for it.
        """
        return self.workload.opened().source(
            self.reading_rules(platform), unix_start=platform.start_time
        )

    def rules(self, platform: PlatformDescription) -> dict[str, Any]:
        """Return everything that decides what is simulated, apart from the input files."""
        return {
            **self._reading(platform),
            "on_overrun": self.run.on_overrun.value,
            "strict": self.run.strict,
            "seed": self.run.seed,
            "on_node_down": self.run.on_node_down,
            "node_changes": [change.model_dump() for change in self.node_changes],
            "on_reject": self.session.on_reject,
            "reasks": self.session.reasks if self.session.on_reject == "reask" else None,
            "latency": self.session.latency,
            "dynamic_jobs": self.session.dynamic_jobs,
        }

    def _reading(self, platform: PlatformDescription) -> dict[str, Any]:
        """Return how the workload is read, each setting resolved."""
        workload = self.workload
        mode, memory = self.request_mode(platform), self._memory(platform)
        nodes = mode is RequestMode.NODES
        return {
            "request": mode.value,
            "per_processor": None if nodes else dict(self._per_processor(platform)),
            "processors_per_node": workload.processors_per_node if nodes else None,
            "size": workload.size.value,
            "select": workload.select.value,
            "drop": workload.drop or None,
            "zero_runtime": workload.zero_runtime,
            "reorder": workload.reorder,
            "origin": workload.origin,
            "memory": memory.mode.value,
            "memory_unit": workload.memory_unit,
            "columns": workload.columns,
            "attributes": workload.attributes,
            "estimate": workload.estimate,
            "estimate_missing": workload.estimate_missing,
            "limit": workload.limit,
        }

    def inputs(self) -> list[dict[str, str]]:
        """Return the files that decide what is simulated: role, path and SHA-256.

        Standard input has no digest: it is read once, by the simulation.

        Raises:
            InputError: One cannot be read.
        """
        named = []
        own = split_reference(self.workload.format)
        if self.workload.path is not None:
            named.append(("workload", self.workload.path))
        if own is not None:
            named.append(("workload" if not named else "reader", str(own[0])))
        if self.platform.file is not None:
            named.append(("platform", self.platform.file))
        return [
            {
                "role": role,
                "path": path,
                "sha256": "" if path == STANDARD else digest_of(Path(path)),
            }
            for role, path in named
        ]

    def digest(
        self, platform: PlatformDescription, *, inputs: Sequence[Mapping[str, str]] | None = None
    ) -> str:
        """Return a SHA-256 that two scenarios share when inputs, machine and rules are the same.

        Args:
            platform: The machine.
            inputs: The scenario's, if they are known already.

        Raises:
            InputError: The workload cannot be read.
        """
        files = self.inputs() if inputs is None else inputs
        content = {
            "workload": [entry["sha256"] for entry in files if entry["role"] != "platform"],
            "platform": [group.model_dump(exclude={"name"}) for group in platform.groups],
            "partitions": [partition.model_dump() for partition in platform.partitions],
            "rules": self.rules(platform),
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
        rules = self.rules(platform)
        tables = {
            "platform": _machine(platform),
            "workload": {**self._named(), **self._reading(platform)},
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

    def _named(self) -> dict[str, str | None]:
        """Return which workload it is, with paths that hold from anywhere."""
        settings = self.workload
        if settings.swf is not None:
            return {"swf": _absolute(settings.swf)}
        own = split_reference(settings.format)
        return {
            "file": None if settings.file is None else _absolute(settings.file),
            "format": settings.format if own is None else f"{own[0].absolute()}:{own[1]}",
        }


def _absolute(path: str) -> str:
    """Return a path that holds from anywhere; not resolved: a file keeps the name it goes by."""
    return path if path == STANDARD else str(Path(path).absolute())


def _machine(platform: PlatformDescription) -> dict[str, Any]:
    """Return the settings of a machine, whatever it was read from."""
    tables = platform.model_dump(
        mode="json",
        exclude_none=True,
        include={"groups", "partitions", "memory", "start_time"},
    )
    for group in tables["groups"]:
        if not group["attributes"]:
            del group["attributes"]
    if not tables["partitions"]:
        del tables["partitions"]
    return tables


def read_scenario(path: Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Scenario:
    """Return the scenario of a file; paths in it are relative to the file.

    Args:
        path: A TOML file, or JSON if its name ends so.
        changes: Settings that win over the file's, by table.

    Raises:
        InputError: The file cannot be read.
        UsageError: A setting is wrong.
    """
    tables = located(read_settings(path), path.parent)
    return _scenario(tables, changes or {}, source=str(path))


def located(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a scenario's tables, with relative paths in them beginning at a folder."""
    placed = copy.deepcopy(dict(tables))
    names = (("workload", "swf"), ("workload", "file"), ("platform", "file"), ("results", "out"))
    for table, key in names:
        section = placed.get(table)
        named = section.get(key) if isinstance(section, dict) else None
        if isinstance(section, dict) and isinstance(named, str) and named != STANDARD:
            section[key] = str(folder / named)
    workload = placed.get("workload")
    if isinstance(workload, dict) and isinstance(workload.get("format"), str):
        own = split_reference(workload["format"])
        if own is not None:
            workload["format"] = f"{folder / own[0]}:{own[1]}"
    _place(placed.get("dispatcher"), folder)
    return placed


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
    changes: Mapping[str, Any],
    tables: Mapping[str, Any] | None = None,
    *,
    source: str = "command line",
) -> Scenario:
    """Return the scenario that settings describe without a file.

    Args:
        changes: Settings that win over the others.
        tables: The others, by table.
        source: What to name in errors.

    Raises:
        UsageError: A setting is wrong or missing.
    """
    return _scenario(copy.deepcopy(dict(tables or {})), changes, source=source)


_FLAGS = {
    "nodes": ("platform", "nodes"),
    "per_node": ("platform", "per_node"),
    "platform": ("platform", "file"),
    "guess": ("platform", "guess"),
    "swf": ("workload", "swf"),
    "workload": ("workload", "file"),
    "format": ("workload", "format"),
    "columns": ("workload", "columns"),
    "attributes": ("workload", "attributes"),
    "request": ("workload", "request"),
    "per_processor": ("workload", "per_processor"),
    "processors_per_node": ("workload", "processors_per_node"),
    "size": ("workload", "size"),
    "select": ("workload", "select"),
    "drop": ("workload", "drop"),
    "zero_runtime": ("workload", "zero_runtime"),
    "reorder": ("workload", "reorder"),
    "origin": ("workload", "origin"),
    "memory": ("workload", "memory"),
    "memory_unit": ("workload", "memory_unit"),
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
    if str(flags.get("platform")) == "guess":
        # A file of that name goes as ./guess.
        flags = {**flags, "platform": None, "guess": True}
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
    "platform": (
        {"nodes", "per_node"},
        {"groups", "partitions", "memory", "start_time"},
        {"file"},
        {"guess"},
    ),
    "dispatcher": ({"policy", "allocator", "parameters", "external"}, {"command"}),
}
"""Settings of a table that stand for one another: a flag of one set puts the file's others out."""


def _scenario(tables: dict[str, Any], changes: Mapping[str, Any], *, source: str) -> Scenario:
    for table, settings in changes.items():
        if not isinstance(settings, Mapping):
            tables[table] = settings
            continue
        given = {key: value for key, value in settings.items() if value is not None}
        section = tables.setdefault(table, {})
        if not isinstance(section, dict):
            continue
        for family in _EXCLUSIVE.get(table, ()):
            if any(value is not False for value in given.values()) and not family & given.keys():
                for key in family:
                    section.pop(key, None)
        if table == "workload":
            _make_room(section, given)
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


def _make_room(section: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Take what a flag puts out of force from the workload of a file."""
    if "swf" in given:
        section.pop("file", None)
        section.pop("format", None)
    if "file" in given or "format" in given:
        section.pop("swf", None)
    if given.get("request") == RequestMode.NODES.value:
        # What a chunk asks for says nothing where nodes are taken whole.
        section.pop("per_processor", None)
    if given.get("request") == RequestMode.PROCESSORS.value:
        section.pop("processors_per_node", None)


def _without_nothing(value: Any) -> Any:
    """Return nested tables without the keys that hold None: TOML cannot say it."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return value
