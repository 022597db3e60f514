"""What a workload holds, and what a reader meets in it: one pass, bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from parley_server.quantities import MICROSECONDS, format_seconds

if TYPE_CHECKING:
    from parley_server.workload.entry import Entry
    from parley_server.workload.reader import Reader

_MOST_NAMES = 200_000
_MOST_SIZES = 100_000


class Met(TypedDict):
    """What a reader meets: counts of lines."""

    malformed: int
    runtime_negative: int
    runtime_zero: int
    no_requested_processors: int
    no_processors: int
    no_requested_time: int
    requested_time_below_runtime: int
    memory_requested: int
    memory_used_only: int
    memory_none: int
    out_of_order: int
    lines_of_other_width: int


class Quartiles(TypedDict):
    """Of the sizes of jobs, in processors, by counting them."""

    min: int
    quarter: int
    median: int
    three_quarters: int
    max: int
    mean: float
    serial: float
    powers_of_two: float


class Information(TypedDict):
    """The content of `parley workload info --json`; times are seconds.

    Attributes are counts of lines that could be read, whatever a run would drop of them.
    """

    name: str
    format: str
    header: dict[str, str]
    lines: int
    comments: int
    jobs: int
    first_submit: float | None
    last_submit: float | None
    span: float | None
    span_days: float | None
    distinct_submit_times: int | None
    users: int
    groups: int
    applications: int
    queues: int
    partitions: int
    biggest_request: int
    sizes: Quartiles | None
    runtime_mean: float | None
    runtime_max: float | None
    interarrival_mean: float | None
    runtime_accuracy: float | None
    wait_mean: float | None
    statuses: dict[str, int]
    core_seconds: float
    load: NotRequired[float | None]
    machine: NotRequired[str]
    met: Met
    ignored: dict[str, int]
    dropped: dict[str, int]
    first_malformed: NotRequired[str]
    flurries: NotRequired[list[dict[str, Any]]]


class Collector:
    """Counts what entries hold."""

    def __init__(self) -> None:
        self.jobs = 0
        self._first: int | None = None
        self._last = -1
        self._latest = -1
        self._distinct = 0
        self._disorder = 0
        self._names: tuple[set[str], ...] = (set(), set(), set(), set(), set())
        self._sizes: Counter[int] = Counter()
        self._statuses: Counter[int] = Counter()
        self._met: Counter[str] = Counter()
        self._runtime = 0
        self._ran = 0
        self._longest = -1
        self._work = 0
        self._accuracy = 0.0
        self._accurate = 0
        self._wait = 0.0
        self._waited = 0

    def add(self, entry: Entry) -> None:
        """Count one line."""
        self.jobs += 1
        submit, runtime, walltime = entry.submit, entry.runtime, entry.walltime
        if submit != self._last:
            self._distinct += 1
            if submit < self._last:
                self._disorder += 1
            self._last = submit
        self._latest = max(self._latest, submit)
        if self._first is None or submit < self._first:
            self._first = submit
        met, size = self._met, entry.requested
        if size <= 0:
            size = entry.allocated
            met["no_requested_processors"] += 1
            if size <= 0:
                met["no_processors"] += 1
        if len(self._sizes) < _MOST_SIZES or size in self._sizes:
            self._sizes[size] += 1
        if runtime <= 0:
            met["runtime_zero" if not runtime else "runtime_negative"] += 1
        if walltime <= 0:
            met["no_requested_time"] += 1
        elif walltime < runtime:
            met["requested_time_below_runtime"] += 1
        if entry.memory > 0:
            met["memory_requested"] += 1
        elif entry.used_memory[:1] != b"-":
            # A job that used none says so with a zero.
            met["memory_used_only"] += 1
        else:
            met["memory_none"] += 1
        if runtime >= 0:
            self._ran += 1
            self._runtime += runtime
            self._longest = max(self._longest, runtime)
            if size > 0:
                self._work += runtime * size
            if walltime > 0:
                self._accuracy += runtime / walltime
                self._accurate += 1
        self._count_names(entry)
        self._statuses[entry.status] += 1
        self._count_wait(entry.wait)

    def _count_names(self, entry: Entry) -> None:
        users, groups, applications, queues, partitions = self._names
        users.add(entry.user or "")
        groups.add(entry.group or "")
        applications.add(entry.application or "")
        queues.add(entry.queue or "")
        partitions.add(entry.partition or "")
        if len(users) > _MOST_NAMES or len(applications) > _MOST_NAMES:
            for names in self._names:
                while len(names) > _MOST_NAMES:
                    names.pop()

    def _count_wait(self, raw: bytes) -> None:
        try:
            wait = float(raw)
        except ValueError:
            return
        if 0 <= wait < 2**53:
            self._wait += wait
            self._waited += 1

    def information(self, reader: Reader, kind: str) -> Information:
        """Return everything that was counted."""
        first, report = self._first, reader.report
        span = None if first is None else self._latest - first
        users, groups, applications, queues, partitions = (
            len(names - {""}) for names in self._names
        )
        malformed = report.dropped.get("malformed", 0)
        information: Information = {
            "name": reader.name,
            "format": kind,
            "header": dict(reader.header),
            "lines": report.lines,
            "comments": report.comments,
            "jobs": self.jobs,
            "first_submit": _seconds(first),
            "last_submit": None if first is None else _seconds(self._latest),
            "span": _seconds(span),
            "span_days": None if span is None else round(span / 86_400e6, 4),
            # Behind an earlier line an instant may have been met before.
            "distinct_submit_times": None if self._disorder else self._distinct,
            "users": users,
            "groups": groups,
            "applications": applications,
            "queues": queues,
            "partitions": partitions,
            "biggest_request": max(self._sizes, default=0),
            "sizes": self._quartiles(),
            "runtime_mean": _ratio(self._runtime / MICROSECONDS, self._ran),
            "runtime_max": _seconds(self._longest) if self._longest >= 0 else None,
            "interarrival_mean": _ratio((span or 0) / MICROSECONDS, self.jobs - 1),
            "runtime_accuracy": _ratio(self._accuracy, self._accurate),
            "wait_mean": _ratio(self._wait, self._waited),
            "statuses": {str(key): self._statuses[key] for key in sorted(self._statuses)},
            "core_seconds": self._work / MICROSECONDS,
            "met": {
                "malformed": malformed,
                "runtime_negative": self._met["runtime_negative"],
                "runtime_zero": self._met["runtime_zero"],
                "no_requested_processors": self._met["no_requested_processors"],
                "no_processors": self._met["no_processors"],
                "no_requested_time": self._met["no_requested_time"],
                "requested_time_below_runtime": self._met["requested_time_below_runtime"],
                "memory_requested": self._met["memory_requested"],
                "memory_used_only": self._met["memory_used_only"],
                "memory_none": self._met["memory_none"],
                "out_of_order": self._disorder,
                "lines_of_other_width": getattr(reader, "other_width", 0),
            },
            "ignored": dict(sorted(report.ignored.items())),
            "dropped": dict(sorted(report.dropped.items())),
        }
        if report.first_malformed is not None:
            information["first_malformed"] = report.first_malformed
        return information

    def _quartiles(self) -> Quartiles | None:
        sizes = sorted(size for size in self._sizes if size > 0)
        total = sum(self._sizes[size] for size in sizes)
        if not total:
            return None
        powers = sum(self._sizes[size] for size in sizes if not size & (size - 1))
        return {
            "min": sizes[0],
            "quarter": self._at(sizes, total, 1),
            "median": self._at(sizes, total, 2),
            "three_quarters": self._at(sizes, total, 3),
            "max": sizes[-1],
            "mean": sum(size * self._sizes[size] for size in sizes) / total,
            "serial": self._sizes[1] / total,
            "powers_of_two": powers / total,
        }

    def _at(self, sizes: list[int], total: int, quarters: int) -> int:
        """Return the least size that so many quarters of all jobs do not exceed."""
        below = 0
        for size in sizes:
            below += self._sizes[size]
            if below * 4 >= total * quarters:
                return size
        return sizes[-1]


def offered_load(information: Information, processors: int) -> float | None:
    """Return the work that the jobs bring, over what the machine could do in the span."""
    span = information["span"]
    if not span or processors <= 0:
        return None
    return information["core_seconds"] / (span * processors)


def _seconds(microseconds: int | None) -> float | None:
    if microseconds is None:
        return None
    text = format_seconds(microseconds)
    return float(text) if "." in text else int(text)


def _ratio(total: float, count: int) -> float | None:
    return total / count if count > 0 else None
