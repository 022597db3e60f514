"""From the line of a trace to the job that is simulated, by written rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley_server.engine import ChunkGroup, Job, Shape
from parley_server.markers import attribute_marker, partition_marker
from parley_server.workload.entry import MOST_SECONDS, NOTHING_MORE
from parley_server.workload.rules import (
    Estimate,
    EstimateMissing,
    Memory,
    ReadingRules,
    RequestMode,
    Select,
    Size,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley_server.workload.entry import Entry, More
    from parley_server.workload.report import ReadReport

_PARTIAL = frozenset({2, 3, 4})
"""Statuses of lines that tell of a part of a job, or of one cancelled in a part."""

_LONGEST = MOST_SECONDS * 1_000_000
_MOST_REQUESTS = 8192
_MOST_AMOUNT = 2**40


class JobBuilder:
    """Makes jobs of entries.

    Args:
        rules: How.
        report: Where what was filled in or has no effect is counted.
        partition_names: The trace's own words for its partitions, by number.
        maximum: The walltime of jobs that ask for none, if that is the rule.
    """

    def __init__(
        self,
        rules: ReadingRules,
        report: ReadReport,
        partition_names: Mapping[str, str],
        *,
        maximum: int | None = None,
    ) -> None:
        self._rules = rules
        self._report = report
        self._aliases = partition_names
        self._requests: dict[object, tuple[ChunkGroup, ...]] = {}
        self._attributes: dict[str, Mapping[str, object]] = {}
        self._shapes: dict[object, Shape] = {}
        self._by_size = rules.memory.mode is Memory.IGNORE and rules.partitions is None
        self._by_allocation = rules.size is Size.ALLOCATED
        self._refused = _PARTIAL if rules.select is Select.ARCHIVE else frozenset[int]()
        missing = rules.estimate_missing
        self._missing: Estimate | EstimateMissing = missing
        self._missing_name = missing.value if isinstance(missing, EstimateMissing) else missing.name
        if missing is EstimateMissing.MAXIMUM:
            self._missing = Estimate("maximum", fixed=maximum)

    @property
    def plainly(self) -> bool:
        """Whether `plain` makes a job as `job` does of lines of which nothing is to be said."""
        return self._by_size and self._rules.estimate.name == "trace"

    def size(self, entry: Entry) -> int:
        """Return the processors of a job; not positive if the line has none."""
        if self._rules.size is Size.ALLOCATED and entry.allocated > 0:
            return entry.allocated
        return entry.requested if entry.requested > 0 else entry.allocated

    def refusal(self, entry: Entry, size: int) -> str | None:
        """Return the rule that drops a line of which no job can be made, if there is one."""
        rules = self._rules
        if entry.runtime < 0:
            return "no_runtime"
        if size <= 0 and entry.more.request is None:
            return "no_processors"
        if rules.select is Select.ARCHIVE and entry.status in _PARTIAL:
            return "status"
        if rules.zero_runtime.drop and not entry.runtime:
            return "zero_runtime"
        if rules.partitions is not None and self._partition(entry) is False:
            return "unknown_partition"
        return None

    def plain(self, entry: Entry, number: int) -> Job | None:
        """Return the job of a line of which nothing is to be said, as nearly all are; else None.

        Neither does anything refuse it, nor is anything filled in or left out.
        """
        (
            name,
            submit,
            runtime,
            _,
            size,
            walltime,
            _,
            status,
            user,
            group,
            application,
            queue,
            partition,
            preceding,
            think,
            _,
            _,
            _,
            more,
        ) = entry
        if size <= 0 or self._by_allocation:
            size = self.size(entry)
        if (
            runtime <= 0
            or walltime <= 0
            or size <= 0
            or preceding > 0
            or think > 0
            or status in self._refused
            or more is not NOTHING_MORE
        ):
            return None
        return Job(
            number,
            str(name),
            submit - self._rules.origin,
            runtime,
            walltime,
            self._requests.get(size) or self._plain(size),
            "trace",
            user,
            group,
            queue,
            partition,
            _NONE if application is None else self._told(more, application),
        )

    def job(self, entry: Entry, size: int, number: int) -> Job:
        """Return the job of an entry that nothing refuses."""
        rules, report = self._rules, self._report
        if entry.preceding > 0:
            report.ignore("preceding_job")
        if entry.think > 0:
            report.ignore("think_time")
        runtime, name = entry.runtime, str(entry.name)
        if not runtime and rules.zero_runtime.least:
            runtime = rules.zero_runtime.least
            report.fill("zero_runtime")
        walltime: int | None = entry.walltime
        source = "trace"
        if entry.walltime <= 0:
            source = self._missing_name
            walltime = self._walltime(runtime, name)
            report.fill(f"walltime_{source}")
        if rules.estimate.name != "trace":
            if rules.cut_at_walltime and walltime is not None:
                runtime = min(runtime, walltime)
            walltime = min(rules.estimate.walltime(runtime, name, rules.seed), _LONGEST)
            source = rules.estimate.name
        more = entry.more
        if self._by_size and not more.constraints and more.request is None:
            request = self._requests.get(size) or self._plain(size)
        else:
            request = self._request(entry, size)
        return Job(
            number,
            name,
            entry.submit - rules.origin,
            runtime,
            walltime,
            request,
            source,
            entry.user,
            entry.group,
            entry.queue,
            entry.partition,
            self._told(more, entry.application),
        )

    def _walltime(self, runtime: int, name: str) -> int | None:
        match self._missing:
            case EstimateMissing.NONE:
                return None
            case Estimate() as estimate:
                return min(estimate.walltime(runtime, name, self._rules.seed), _LONGEST)
            case _:
                return runtime

    def _told(self, more: More, application: str | None) -> Mapping[str, object]:
        """Return the attributes of a job; where that is its program alone, one object for all."""
        if more.attributes:
            beside = {} if application is None else {"application": application}
            return {**beside, **more.attributes}
        if application is None:
            return _NONE
        kept = self._attributes.get(application)
        if kept is None:
            if len(self._attributes) >= _MOST_REQUESTS:
                self._attributes.clear()
            kept = self._attributes[application] = {"application": application}
        return kept

    # ------------------------------------------------------------------ requests

    def _partition(self, entry: Entry) -> str | bool | None:
        """Return the partition of a job, None if it may go anywhere, False if it is unknown."""
        partitions = self._rules.partitions
        if partitions is None:
            return None
        if entry.partition is None:
            return partitions.default
        if entry.partition in partitions.names:
            return entry.partition
        named = self._aliases.get(entry.partition)
        return named if named in partitions.names and named is not None else False

    def _plain(self, size: int) -> tuple[ChunkGroup, ...]:
        """Return the one object that stands for so many processors."""
        return self._keep(size, self._chunks(size, {}))

    def _request(self, entry: Entry, size: int) -> tuple[ChunkGroup, ...]:
        partition = self._partition(entry)
        memory = entry.memory if self._rules.memory.mode is not Memory.IGNORE else -1
        constraints = tuple(sorted(entry.more.constraints.items()))
        stated = entry.more.request
        told: object = None
        if stated is not None:
            told = (stated[0].chunks, stated[0].shape.per_chunk, stated[0].shape.exclusive)
        key = (size, told, memory, partition, constraints)
        kept = self._requests.get(key)
        if kept is not None:
            return kept
        beside: dict[str, int] = {}
        chunks = self._count(size) if stated is None else stated[0].chunks
        if memory > 0:
            # Where the format says what a chunk asks for, memory is among it.
            amount = self._rules.memory.amount(memory, chunks)
            if stated is None and amount:
                beside[self._rules.memory.resource] = min(amount, _MOST_AMOUNT)
        if isinstance(partition, str):
            beside[partition_marker(partition)] = 1
        for attribute, value in constraints:
            beside[attribute_marker(attribute, value)] = 1
        if stated is None:
            return self._keep(key, self._chunks(size, beside))
        group = stated[0]
        shape = self._shape(
            {**dict(group.shape.per_chunk), **beside}, exclusive=group.shape.exclusive
        )
        return self._keep(key, (ChunkGroup(group.chunks, shape),))

    def _count(self, size: int) -> int:
        if self._rules.request is RequestMode.NODES:
            return -(-size // self._rules.processors_per_node)
        return size

    def _chunks(self, size: int, beside: Mapping[str, int]) -> tuple[ChunkGroup, ...]:
        rules = self._rules
        exclusive = rules.request is RequestMode.NODES
        wanted = rules.per_node if exclusive else rules.per_processor
        shape = self._shape({**wanted, **beside}, exclusive=exclusive)
        return (ChunkGroup(self._count(size), shape),)

    def _shape(self, per_chunk: Mapping[str, int], *, exclusive: bool) -> Shape:
        """Return the one object of a shape: whoever places chunks keeps an index for each."""
        key = (tuple(sorted(per_chunk.items())), exclusive)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_REQUESTS:
                self._shapes.clear()
            shape = self._shapes[key] = Shape.of(per_chunk, exclusive=exclusive)
        return shape

    def _keep(self, key: object, request: tuple[ChunkGroup, ...]) -> tuple[ChunkGroup, ...]:
        # Sizes recur; a file of nothing but different ones must not fill the memory all the same.
        if len(self._requests) >= _MOST_REQUESTS:
            self._requests.clear()
        self._requests[key] = request
        return request


_NONE: Mapping[str, object] = {}
