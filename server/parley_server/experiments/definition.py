"""What an experiment is: a grid of workloads, machines and dispatchers, in a file or in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from parley_server.errors import UsageError
from parley_server.inputs import PathText
from parley_server.own_code import split_reference
from parley_server.quantities import parse_duration
from parley_server.results.sample import Window
from parley_server.scenario import located
from parley_server.session_settings import PositiveDuration
from parley_server.settings import Settings, integral, read_settings, validate

NAME = r"^[A-Za-z0-9][A-Za-z0-9_+-]{0,63}$"
"""Names become names of directories, and their parts are parted by dots."""

Name = Annotated[str, Field(pattern=NAME)]
Seed = Annotated[int, Field(ge=0, lt=2**53), BeforeValidator(integral)]
Count = Annotated[int, Field(gt=0, le=10_000), BeforeValidator(integral)]


class WorkloadEntry(Settings):
    """A workload; whatever else stands in it is a setting of a scenario's workload."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Name | None = Field(default=None, description="What it is called; else as its file.")
    platforms: list[str] | None = Field(
        default=None, min_length=1, description="Names of the platforms it goes with; else all."
    )


class PlatformEntry(Settings):
    """A machine; whatever else stands in it is a setting of a scenario's platform."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Name | None = Field(default=None, description="What it is called; else as its file.")


class PolicyEntry(Settings):
    """A policy with parameters."""

    policy: str = Field(description="A policy by name, or FILE.py:NAME.")
    name: Name | None = Field(default=None, description="What it is called; else as the policy.")
    allocators: list[str] | None = Field(
        default=None, min_length=1, description="What it is paired with, if not the grid's."
    )
    parameters: dict[str, str | int | float | bool] | None = Field(
        default=None, description="Of the policy: order, depth and so on."
    )
    external: bool = Field(default=False, description="As a child process over ZeroMQ.")


class CommandEntry(Settings):
    """A dispatcher in a process of its own."""

    name: Name
    command: list[str] = Field(
        min_length=1,
        description="{endpoint} is replaced, PARLEY_ENDPOINT is set. Paths begin where parley is "
        "called.",
    )


class GridSettings(Settings):
    """What is combined: everything of each line with everything of all others."""

    workloads: list[str | WorkloadEntry] | None = Field(
        default=None, min_length=1, description="Files, or tables of settings."
    )
    platforms: list[int | str | PlatformEntry] | None = Field(
        default=None,
        min_length=1,
        description="Numbers of nodes, files (guess: from the trace's header), or tables.",
    )
    policies: list[str | PolicyEntry] = Field(default=[], description="By name, or tables.")
    allocators: list[str] = Field(
        default=["first-fit"], min_length=1, description="By name; each goes with each policy."
    )
    commands: list[CommandEntry] = Field(default=[], description="Dispatchers of one's own.")
    seeds: list[Seed] = Field(default=[0], min_length=1, description="For all that is random.")
    repetitions: Count = Field(
        default=1, description="How often the same is done again, to measure its cost."
    )

    @model_validator(mode="after")
    def _somebody_decides(self) -> GridSettings:
        if not self.policies and not self.commands:
            raise ValueError("who decides? name policies or commands")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: one stands there twice")
        return self


class AnalysisSettings(Settings):
    """How the runs are judged."""

    warmup: str = Field(default="0s", description="What to cut off at the beginning: 24h, 10%.")
    cooldown: str = Field(default="0s", description="And at the end: 24h, 10%, drain.")
    metrics: list[str] = Field(
        default=[], description="Metrics of jobs of one's own: FILE.py:FUNCTION."
    )

    @model_validator(mode="after")
    def _is_window(self) -> AnalysisSettings:
        try:
            self.window()
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    def window(self) -> Window:
        """Return what is judged of a run."""
        return Window(self.warmup, self.cooldown)


class ExperimentSettings(Settings):
    """All settings of an experiment."""

    name: Name
    out: PathText | None = Field(
        default=None, description="Where everything goes; a directory beside the file, by name."
    )
    time_limit: PositiveDuration = Field(
        default="24h", description="Wall time after which a cell is taken to hang, and ended."
    )
    grid: GridSettings
    scenario: dict[str, Any] = Field(
        default={}, description="Tables of a scenario that all cells share."
    )
    analysis: AnalysisSettings = Field(default_factory=AnalysisSettings)

    @field_validator("scenario")
    @classmethod
    def _leaves_the_grid_its_part(cls, tables: dict[str, Any]) -> dict[str, Any]:
        for table, rival in (("dispatcher", "policies and commands"), ("results", "out")):
            if table in tables:
                raise ValueError(f"{table}: in an experiment, {rival} say that")
        run = tables.get("run")
        if isinstance(run, dict):
            for key, rival in (("seed", "seeds"), ("name", "name")):
                if key in run:
                    raise ValueError(f"run.{key}: in an experiment, {rival} says that")
        return tables

    @property
    def directory(self) -> Path:
        """Where everything goes."""
        return Path(self.name if self.out is None else self.out)

    @property
    def time_limit_s(self) -> float:
        """Seconds of wall time that a cell may take."""
        return parse_duration(str(self.time_limit)) / 1e6


def read_definition(path: Path) -> ExperimentSettings:
    """Return the experiment that a TOML file describes; paths in it are relative to the file.

    Raises:
        InputError: It cannot be read.
        UsageError: A setting is wrong.
    """
    tables = read_settings(path)
    name = tables.get("name")
    if "out" not in tables and isinstance(name, str):
        tables["out"] = name
    return definition_of(tables, path.parent, source=str(path))


def definition_of(
    tables: Mapping[str, Any], folder: Path, *, source: str = "experiment"
) -> ExperimentSettings:
    """Return the experiment that tables describe.

    Args:
        tables: As they stand in a file.
        folder: Where relative paths in them begin.
        source: What to name in errors.

    Raises:
        UsageError: A setting is wrong.
    """
    placed = _located(tables, folder.absolute())
    return validate(ExperimentSettings, placed, source=source)


def _located(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return tables with paths that hold from anywhere."""
    placed = dict(tables)
    if isinstance(placed.get("out"), str):
        placed["out"] = str(folder / placed["out"])
    if isinstance(placed.get("scenario"), dict):
        placed["scenario"] = located(placed["scenario"], folder)
    if isinstance(placed.get("analysis"), dict):
        placed["analysis"] = _each(placed["analysis"], "metrics", lambda own: _code(own, folder))
    if isinstance(placed.get("grid"), dict):
        grid = placed["grid"]
        grid = _each(grid, "workloads", lambda entry: _workload(entry, folder))
        grid = _each(grid, "platforms", lambda entry: _platform(entry, folder))
        grid = _each(grid, "policies", lambda entry: _policy(entry, folder))
        placed["grid"] = _each(grid, "allocators", lambda own: _code(own, folder))
    return placed


def _each(table: Mapping[str, Any], key: str, change: Any) -> dict[str, Any]:
    """Return a table in which each entry of one of its lists is changed."""
    entries = table.get(key)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return dict(table)
    return {**table, key: [change(entry) for entry in entries]}


def _workload(entry: Any, folder: Path) -> Any:
    match entry:
        case str():
            return str(folder / entry)
        case dict():
            return located({"workload": entry}, folder)["workload"]
    return entry


def _platform(entry: Any, folder: Path) -> Any:
    match entry:
        case str() if entry != "guess":
            return str(folder / entry)
        case dict():
            return located({"platform": entry}, folder)["platform"]
    return entry


def _policy(entry: Any, folder: Path) -> Any:
    match entry:
        case str():
            return _code(entry, folder)
        case dict():
            placed = located({"dispatcher": entry}, folder)["dispatcher"]
            return _each(placed, "allocators", lambda own: _code(own, folder))
    return entry


def _code(reference: Any, folder: Path) -> Any:
    """Return `FILE.py:NAME` with a path that holds from anywhere."""
    parts = split_reference(reference) if isinstance(reference, str) else None
    return reference if parts is None else f"{folder / parts[0]}:{parts[1]}"
