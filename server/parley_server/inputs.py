"""What a scenario is fed with: the settings of its machine and of its workload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from parley_server.errors import UsageError
from parley_server.own_code import split_reference
from parley_server.platform import GroupDescription, MemoryDescription, PartitionDescription
from parley_server.platform.description import Amount, NodeCount
from parley_server.quantities import format_seconds, parse_duration
from parley_server.settings import Settings, integral
from parley_server.workload import EstimateMissing, RequestMode, Select, parse_estimate
from parley_server.workload.clean import Clock, parse_rule
from parley_server.workload.formats import WorkloadFile
from parley_server.workload.rules import (
    Memory,
    Size,
    parse_estimate_missing,
    parse_order,
    parse_zero_runtime,
)
from parley_server.workload.tables import Columns


def _no_zero_byte(text: str) -> str:
    if "\0" in text:
        raise ValueError("a name of a file holds no zero byte")
    return text


PathText = Annotated[str, AfterValidator(_no_zero_byte)]


_ANY_CLOCK = Clock(0)
"""To check rules by before the trace says when its time 0 was."""

Natural = Annotated[int, BeforeValidator(integral)]


def _parsed(parse: Callable[[str], Any]) -> AfterValidator:
    """Return a check that a text can be parsed; what is kept is its one spelling."""

    def check(text: str) -> str:
        try:
            return str(parse(text))
        except UsageError as error:
            raise ValueError(str(error)) from None

    return AfterValidator(check)


def _name_of_missing(text: str) -> str:
    rule = parse_estimate_missing(text)
    return rule.value if isinstance(rule, EstimateMissing) else rule.name


class PlatformSettings(Settings):
    """The machine: equal nodes, groups of nodes, a file that describes it, or a guess."""

    nodes: NodeCount | None = Field(default=None, description="How many equal nodes.")
    per_node: dict[str, Amount] | None = Field(
        default=None, description="Amount of each resource on each of the equal nodes."
    )
    groups: list[GroupDescription] | None = Field(default=None, min_length=1)
    partitions: list[PartitionDescription] | None = Field(
        default=None, description="Partitions of the groups."
    )
    memory: MemoryDescription | None = Field(
        default=None, description="Which resource of the groups is memory, and its unit."
    )
    start_time: Natural | None = Field(
        default=None, description="Unix time of time 0, for dates in rules."
    )
    file: PathText | None = Field(
        default=None,
        description="A platform file: ours, AccaSim's, Batsim's XML, or a slurm.conf.",
    )
    guess: Literal[True] | None = Field(
        default=None, description="Guess the machine from the header of an SWF trace."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> PlatformSettings:
        names = ("nodes", "groups", "file", "guess")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none of them"
            raise ValueError(f"one of nodes, groups and file says what the machine is; {found}")
        if self.per_node is not None and self.nodes is None:
            raise ValueError("per_node goes with nodes; a group has its own")
        for name in ("partitions", "memory", "start_time"):
            if getattr(self, name) is not None and self.groups is None:
                raise ValueError(f"{name} goes with groups; a file has its own")
        return self


class WorkloadSettings(Settings):
    """The jobs, how they are read, and which of them are left out."""

    swf: PathText | None = Field(
        default=None,
        description="A trace in the Standard Workload Format, plain or compressed; - is standard "
        "input.",
    )
    file: PathText | None = Field(
        default=None, description="A workload in any of the formats; - is standard input."
    )
    format: str = Field(
        default="auto",
        description="Of the file: auto, swf, jsonl, batsim, sacct, csv, parquet, or "
        "path/to/file.py:function for a reader of one's own.",
    )
    columns: dict[str, str] | None = Field(
        default=None, description="Of a table: the column's name by the field's, id = 'job'."
    )
    attributes: list[str] | None = Field(
        default=None, description="Columns of a table that travel to the dispatcher."
    )
    request: RequestMode | None = Field(
        default=None,
        description="nodes: an exclusive node per processor; processors: a chunk per processor. "
        "nodes, unless the platform says what a processor is.",
    )
    per_processor: dict[str, Amount] | None = Field(
        default=None, description="What a chunk asks of its node, with request = processors."
    )
    processors_per_node: Annotated[int, Field(gt=0, lt=2**20), BeforeValidator(integral)] | None = (
        Field(
            default=None,
            description="With request = nodes: so many processors are a node, rounded up.",
        )
    )
    size: Size = Field(
        default=Size.REQUESTED,
        description="Processors requested, or else allocated; or the other way round.",
    )
    select: Select = Field(
        default=Select.ALL,
        description="all: every line that can be simulated; archive: without status 2, 3 and 4.",
    )
    drop: list[Annotated[str, _parsed(lambda text: parse_rule(text, _ANY_CLOCK).name)]] | None = (
        Field(
            default=None,
            description="Cleaning rules, such as 'user=3 and proc=1', 'keep submit<30d', "
            "'window 10d 20d', 'sample 0.1'.",
        )
    )
    zero_runtime: Annotated[str, _parsed(lambda text: parse_zero_runtime(text).name)] = Field(
        default="keep", description="Runtimes of zero: keep, drop, raise, or raise:10s."
    )
    reorder: Annotated[str, _parsed(lambda text: parse_order(text).name)] | None = Field(
        default=None,
        description="Lines behind a later submission: as-is drops them, window:N finds their "
        "place among N jobs, sort sorts all.",
    )
    origin: Annotated[
        str | int,
        Field(description="The trace's instant that is time 0."),
        BeforeValidator(integral),
    ] = "0s"
    memory: Memory | None = Field(
        default=None,
        description="Requested memory: ignore, per-processor, or per-job. per-processor, if the "
        "platform says which resource is memory.",
    )
    memory_unit: Literal["bytes", "kilobytes", "megabytes"] = Field(
        default="kilobytes", description="In what the trace counts memory."
    )
    estimate: Annotated[str, _parsed(lambda text: parse_estimate(text).name)] = Field(
        default="trace", description="trace, exact, factor:F, or model:F."
    )
    estimate_missing: Annotated[str, _parsed(_name_of_missing)] = Field(
        default="runtime",
        description="The walltime of a job that asks for none: runtime, none, maximum, "
        "maximum:5h, factor:F, or model:F.",
    )
    limit: Annotated[int, Field(gt=0), BeforeValidator(integral)] | None = Field(
        default=None, description="Read so many jobs at most."
    )

    @field_validator("origin")
    @classmethod
    def _is_instant(cls, value: str | int) -> str:
        try:
            return f"{format_seconds(parse_duration(str(value)))}s"
        except UsageError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_workload(self) -> WorkloadSettings:
        own = split_reference(self.format) is not None
        if self.swf is None and self.file is None and not own:
            raise ValueError("which workload? one of swf and file says it")
        if self.swf is not None and self.file is not None:
            raise ValueError("one of swf and file says which workload it is; both do")
        if self.swf is not None and self.format not in ("auto", "swf"):
            raise ValueError("format goes with file; swf says it already")
        try:
            self.columns_of_table().require_sensible()
        except UsageError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _chunks(self) -> WorkloadSettings:
        if self.per_processor is not None and self.request is not RequestMode.PROCESSORS:
            raise ValueError("per_processor goes with request = processors; a node is taken whole")
        if self.per_processor == {}:
            raise ValueError("per_processor names at least one resource, such as core = 1")
        if self.processors_per_node is not None and self.request is RequestMode.PROCESSORS:
            raise ValueError("processors_per_node goes with request = nodes")
        return self

    def columns_of_table(self) -> Columns:
        """Return which column of a table is what."""
        return Columns(self.columns or {}, self.attributes or [])

    @property
    def path(self) -> str | None:
        """The workload's file."""
        return self.swf if self.swf is not None else self.file

    def opened(self) -> WorkloadFile:
        """Return the workload and its format."""
        path = None if self.path is None else Path(self.path)
        kind = "swf" if self.swf is not None else self.format
        return WorkloadFile(path, kind, self.columns_of_table())
