"""From a grid to its cells: every combination, checked before the first of them runs.

A cell is one run: a workload on a machine, decided by a dispatcher, with a seed, for the n-th
time. Cells that differ in seed and repetition alone are a row of the table.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli_w

from parley_server.errors import ParleyError, UsageError
from parley_server.experiments.definition import (
    ExperimentSettings,
    PlatformEntry,
    PolicyEntry,
    WorkloadEntry,
)
from parley_server.host.child import require_command
from parley_server.own_code import split_reference
from parley_server.results.metrics import job_metric
from parley_server.running import Preparation, named_dispatcher
from parley_server.scenario import scenario_of
from parley_server.workload.files import COMPRESSED_ENDINGS, STANDARD, digest_of

if TYPE_CHECKING:
    from parley_server.scenario import Scenario

_ENDINGS = (*COMPRESSED_ENDINGS, ".swf", ".jsonl", ".json", ".csv", ".parquet", ".toml", ".xml")
_LARGEST_CODE = 64 * 1024 * 1024
"""Files named in a command are read up to this size to find out whether they have changed."""


class Row(NamedTuple):
    """What the cells of one row of the table have in common; allocator is empty for a command."""

    workload: str
    platform: str
    policy: str
    allocator: str

    @property
    def dispatcher(self) -> str:
        """Policy and allocator in one word."""
        return f"{self.policy}+{self.allocator}" if self.allocator else self.policy


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of an experiment.

    Attributes:
        row: Where it stands in the table.
        repetition: Counted from 1.
        scenario_toml: What `parley run` is given.
        digest: Two cells share it if the same is simulated and decided by the same.
    """

    row: Row
    seed: int
    repetition: int
    scenario_toml: str = field(repr=False)
    digest: str = ""

    @property
    def name(self) -> str:
        """What its directory is called."""
        return ".".join((*filter(None, self.row), f"s{self.seed}", f"r{self.repetition}"))


def cells_of(settings: ExperimentSettings, *, source: str = "experiment") -> list[Cell]:
    """Return all cells in the order in which they run, each of them checked.

    Args:
        settings: The experiment.
        source: What to name in errors.

    Raises:
        UsageError: A name stands for nothing, or two things have one name.
        InputError: A workload or a platform cannot be read.
    """
    for metric in settings.analysis.metrics:
        job_metric(metric)
    checked: dict[Any, Any] = {}
    grid = settings.grid
    combinations = list(_combinations(settings))
    _require_distinct([combination.row for combination in combinations])
    # All rows get their first cell early: what is compared can be compared as soon as possible.
    return [
        _cell(combination, seed, repetition, source, checked)
        for repetition in range(1, grid.repetitions + 1)
        for seed in grid.seeds
        for combination in combinations
    ]


# ---------------------------------------------------------------------- combinations


@dataclass(frozen=True, slots=True)
class _Combination:
    row: Row
    tables: Mapping[str, Any]


def _combinations(settings: ExperimentSettings) -> Iterator[_Combination]:
    """Yield each workload on each machine it goes with, decided by each dispatcher."""
    shared = settings.scenario
    machines = dict(_machines(settings))
    for workload, wanted, on in _workloads(settings):
        if on is not None and (unknown := set(on) - set(machines)):
            raise UsageError(
                f"grid.workloads: {workload}: there is no platform {min(unknown)!r}; there are: "
                f"{', '.join(machines)}"
            )
        for platform, machine in machines.items():
            if on is not None and platform not in on:
                continue
            for policy, allocator, dispatcher in _dispatchers(settings):
                yield _Combination(
                    Row(workload, platform, policy, allocator),
                    {
                        **shared,
                        "workload": {**shared.get("workload", {}), **wanted},
                        "platform": machine,
                        "dispatcher": dispatcher,
                    },
                )


def _workloads(
    settings: ExperimentSettings,
) -> Iterator[tuple[str, dict[str, Any], list[str] | None]]:
    """Yield name, settings and platforms of each workload."""
    entries = settings.grid.workloads
    if entries is None:
        table = settings.scenario.get("workload")
        if not isinstance(table, dict):
            raise UsageError("which workload? name some in grid.workloads")
        yield _name_of(table.get("swf") or table.get("file") or "workload"), {}, None
        return
    for entry in entries:
        match entry:
            case WorkloadEntry():
                table = dict(entry.model_extra or {})
                path = table.get("swf") or table.get("file") or table.get("format") or "workload"
                yield entry.name or _name_of(str(path)), table, entry.platforms
            case str():
                kind = "swf" if _bare(entry).endswith(".swf") else "file"
                yield _name_of(entry), {kind: entry}, None


def _machines(settings: ExperimentSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and settings of each machine."""
    shared = settings.scenario.get("platform", {})
    entries = settings.grid.platforms
    if entries is None:
        if not shared:
            raise UsageError("on which machine? name some in grid.platforms")
        yield _machine_name(shared), shared
        return
    names = set()
    for entry in entries:
        match entry:
            case PlatformEntry():
                table = dict(entry.model_extra or {})
                name = entry.name or _machine_name(table)
            case int():
                per_node = shared.get("per_node")
                table = {"nodes": entry, **({"per_node": per_node} if per_node else {})}
                name = _machine_name(table)
            case _:
                table = {"guess": True} if entry == "guess" else {"file": entry}
                name = _name_of(entry)
        if name in names:
            raise UsageError(f"grid.platforms: two are called {name!r}; give one a name of its own")
        names.add(name)
        yield name, table


def _machine_name(table: Mapping[str, Any]) -> str:
    if "nodes" in table:
        return f"{table['nodes']}-nodes"
    return _name_of(str(table["file"])) if "file" in table else "machine"


def _dispatchers(settings: ExperimentSettings) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield names of policy and allocator, and the settings of the dispatcher they make."""
    for entry in settings.grid.policies:
        policy = entry if isinstance(entry, PolicyEntry) else PolicyEntry(policy=entry)
        for allocator in policy.allocators or settings.grid.allocators:
            table: dict[str, Any] = {"policy": policy.policy, "allocator": allocator}
            if policy.parameters:
                table["parameters"] = dict(policy.parameters)
            if policy.external:
                table["external"] = True
            yield policy.name or _own_name(policy.policy), _own_name(allocator), table
    for command in settings.grid.commands:
        yield command.name, "", {"command": list(command.command)}


def _require_distinct(rows: Sequence[Row]) -> None:
    seen: set[Row] = set()
    for row in rows:
        if row in seen:
            raise UsageError(
                f"the grid holds {row.workload} on {row.platform} with {row.dispatcher} twice; "
                "give one of them a name of its own"
            )
        seen.add(row)


def _own_name(reference: str) -> str:
    parts = split_reference(reference)
    return _slug(reference if parts is None else f"{parts[0].stem}-{parts[1]}")


def _name_of(path: str) -> str:
    """Return what a file is called, without its endings."""
    return _slug(_bare(path, *_ENDINGS))


def _bare(path: str, *endings: str) -> str:
    name = Path(path).name
    for ending in endings or COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def _slug(text: str) -> str:
    """Return a name of at most 64 marks that a directory can have."""
    return re.sub(r"[^A-Za-z0-9_+-]+", "-", text).strip("-+_")[:64] or "unnamed"


# ---------------------------------------------------------------------- one cell


def _cell(
    combination: _Combination, seed: int, repetition: int, source: str, checked: dict[Any, Any]
) -> Cell:
    row = combination.row
    tables = {**combination.tables, "run": {**combination.tables.get("run", {}), "seed": seed}}
    tables["run"]["name"] = f"{row.workload}, {row.dispatcher}"
    key = (row, seed)
    if key not in checked:
        where = f"{source}: {row.workload} on {row.platform} with {row.dispatcher}"
        scenario = scenario_of({}, tables, source=where)
        try:
            checked[key] = _digest(scenario, row, checked)
        except ParleyError as error:
            raise type(error)(f"{where}: {error}") from None
    return Cell(row, seed, repetition, tomli_w.dumps(tables), checked[key])


def _digest(scenario: Scenario, row: Row, checked: dict[Any, Any]) -> str:
    """Return what tells whether a cell is still the same, having found it possible.

    Raises:
        UsageError: A name stands for nothing.
        InputError: A file cannot be read.
    """
    place = (row.workload, row.platform)
    if place not in checked:
        if scenario.workload.path == STANDARD:
            raise UsageError("standard input can be read once; an experiment takes files")
        checked[place] = prepared = Preparation(scenario)
        prepared.check_first_job()
    prepared = checked[place]
    dispatcher = scenario.dispatcher
    deciding = ("dispatcher", row.policy, row.allocator)
    if deciding not in checked:
        if dispatcher.command is None:
            named_dispatcher(scenario)
        else:
            require_command(dispatcher.command)
        checked[deciding] = _code_digests(dispatcher.model_dump())
    content = {
        "simulated": scenario.digest(prepared.machine, inputs=prepared.inputs),
        "session": scenario.session.model_dump(),
        "deadline": scenario.run.deadline,
        "dispatcher": dispatcher.model_dump(),
        "code": checked[deciding],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _code_digests(dispatcher: Mapping[str, Any]) -> list[str]:
    """Return the digests of the files that a dispatcher is made of, as far as they are named."""
    named: list[Path] = []
    parameters = dispatcher["parameters"] or {}
    for text in (dispatcher["policy"], dispatcher["allocator"], *parameters.values()):
        parts = split_reference(text) if isinstance(text, str) else None
        if parts is not None:
            named.append(parts[0])
    for number, text in enumerate(dispatcher["command"] or ()):
        # A program that is looked for in the PATH is not part of the experiment.
        if number or "/" in text:
            named.append(Path(text))
    return [
        digest_of(path) for path in named if path.is_file() and path.stat().st_size <= _LARGEST_CODE
    ]
