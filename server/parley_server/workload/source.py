"""A workload as a simulation takes it: read, cleaned, put in order, made into jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError
from parley_server.quantities import format_seconds
from parley_server.workload.build import JobBuilder
from parley_server.workload.clean import Cleaner, filters_in
from parley_server.workload.files import OneWay
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import EstimateMissing, Order, ReadingRules, Select
from parley_server.workload.seen import SeenNames
from parley_server.workload.sorting import Sorted
from parley_server.workload.swf import SwfReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from parley_server.engine import Job
    from parley_server.workload.entry import Entry
    from parley_server.workload.reader import Reader

    OpenReader = Callable[[ReadReport], Reader]


_VERSION_OF = (
    *("Version", "Computer", "Installation", "Conversion"),
    # When, and where, its time 0 was.
    *("UnixStartTime", "TimeZoneString"),
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a workload stands: plain data.

    Attributes:
        place: The reader's.
        waiting: Jobs held back, with the place of their lines.
    """

    place: object
    last_submit: int
    report: ReadReport
    seen: SeenNames
    waiting: tuple[tuple[int, int, Entry, str], ...]
    given: int


class WorkloadSource:
    """The jobs of one workload, one at a time; the engine's `Source`.

    A line that cannot be read is skipped and counted, never guessed at; memory does not grow
    with the workload.

    Args:
        open_reader: Opens the workload for reading from its start.
        rules: Which lines become jobs, and what they ask for.
        order: What becomes of lines out of order, where the rules do not say it.
        unix_start: Unix time of time 0, where the workload does not say it.

    Attributes:
        header: What is said of the whole workload, by key.
        report: What became of the lines so far.

    Raises:
        InputError: The file cannot be opened.
        UsageError: A cleaning rule is none.
    """

    def __init__(
        self,
        open_reader: OpenReader,
        rules: ReadingRules | None = None,
        *,
        order: Order | None = None,
        unix_start: int | None = None,
    ) -> None:
        self.rules = rules or ReadingRules()
        self.report = ReadReport()
        self._open_reader = open_reader
        self._order = self.rules.order or order or Order()
        self._default_order = order
        self._unix_start = unix_start
        self._reader = open_reader(self.report)
        self._builder: JobBuilder | None = None
        self._cleaner: Cleaner | None = None
        self._seen = SeenNames()
        self._last_submit = 0
        self._given = 0
        self._waiting: list[tuple[int, int, Entry, str]] = []
        self._sorted: Sorted | None = None
        self._exhausted = False
        # Where neither order nor cleaning comes between a line and its job: who makes that.
        self._plain: JobBuilder | None = None
        self._plainly: Iterator[Job] = iter(())
        self._kept_back: Entry | None = None

    @property
    def header(self) -> dict[str, str]:
        """What is said of the whole workload, by key, as far as it was read."""
        return self._reader.header

    def table(self) -> dict[str, Any]:
        """Return what a summary says of the reading: counts, and which version of a trace it was.

        The filters are those by which the archive, or we, cleaned the trace before.
        """
        table = self.report.table()
        header = self._reader.header
        trace = {key: header[key] for key in _VERSION_OF if key in header}
        filters = filters_in(getattr(self._reader, "notes", ()))
        if trace or filters:
            table["lines"]["trace"] = {**trace, **({"filters": filters} if filters else {})}
        return table

    @property
    def reader(self) -> Reader:
        """What reads the lines."""
        return self._reader

    @property
    def closed(self) -> bool:
        """Whether nothing is held open any more."""
        return self._reader.closed

    def next(self) -> Job | None:
        """Return the next job that the rules keep.

        Raises:
            InputError: The file is cut off or damaged, a job stands twice, the file holds no job
                at all, or a line is dropped under strict rules. The file is closed.
        """
        job = next(self._plainly, None)
        if job is not None:
            return job
        try:
            job = self._next()
        except BaseException:
            self.close()
            raise
        if job is not None and self._plain is not None:
            self._plainly = self._plain_jobs(self._plain)
        return job

    def _next(self) -> Job | None:
        limit, report = self.rules.limit, self.report
        if self._exhausted or (limit is not None and self._given >= limit):
            self.close()
            return None
        while (entry := self._in_order()) is not None:
            if entry.submit < self._last_submit:
                self._drop("out_of_order", entry)
                continue
            if entry.submit < self.rules.origin:
                self._drop("before_origin")
                continue
            self._last_submit = entry.submit
            builder = self._builder or self._make_builder()
            number = self._given
            self._given += 1
            report.kept += 1
            return builder.job(entry, builder.size(entry), number)
        self.close()
        if not self._given:
            raise InputError(self._nothing())
        return None

    def _plain_jobs(self, builder: JobBuilder) -> Iterator[Job]:
        """Yield jobs as long as nothing is to be said of their lines; keep the first other line."""
        read, plain, add, report = self._reader.read, builder.plain, self._seen.add, self.report
        limit, origin = self.rules.limit, self.rules.origin
        try:
            while (limit is None or self._given < limit) and (entry := read()) is not None:
                name, submit = entry[:2]
                job = None
                if submit >= self._last_submit and submit >= origin:
                    job = plain(entry, self._given)
                if job is None or not add(name):
                    self._kept_back = entry
                    return
                self._last_submit = submit
                self._given += 1
                report.kept += 1
                yield job
        except (Exception, KeyboardInterrupt):
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file; there is no further job. May be called twice."""
        self._exhausted = True
        self._plainly = iter(())
        if self._sorted is not None:
            self._sorted.close()
        self._reader.close()

    def position(self) -> Position:
        """Return where the source stands.

        Raises:
            OneWay: What was read cannot be read again.
        """
        return Position(
            self._reader.place(),
            self._last_submit,
            self.report.copy(),
            self._seen.copy(),
            tuple(self._waiting),
            self._given,
        )

    def reopen(self, position: object) -> WorkloadSource:
        """Return another source that continues at *position*; O(bytes before it) if compressed.

        Raises:
            OneWay: What was read cannot be read again.
        """
        if not isinstance(position, Position):
            raise TypeError(f"not a position in a workload: {position!r}")
        twin = WorkloadSource(
            self._open_reader, self.rules, order=self._default_order, unix_start=self._unix_start
        )
        try:
            twin.resume(position, self._reader)
        except BaseException:
            twin.close()
            raise
        return twin

    def resume(self, position: Position, reader: Reader) -> None:
        """Go to a position, in a source of which nothing was read yet."""
        if self._order.sort:
            # Sorted anew: what was merged so far has no place in the file.
            for _ in range(position.given):
                self.next()
            return
        self._reader.header.update(reader.header)
        self._reader.partition_names.update(reader.partition_names)
        self._reader.seek(position.place)
        self.report.restore(position.report)
        self._seen = position.seen.copy()
        self._last_submit = position.last_submit
        self._waiting = list(position.waiting)
        self._given = position.given

    # ------------------------------------------------------------------ order

    def _in_order(self) -> Entry | None:
        """Return the next line that the rules keep, as far in order as the rules demand."""
        order = self._order
        if order.sort:
            if self._sorted is None:
                self._sorted = Sorted(iter(self._accepted, None))
            return self._sorted.next()
        if not order.window:
            return self._accepted()
        waiting = self._waiting
        while len(waiting) < order.window + 1:
            entry = self._accepted()
            if entry is None:
                break
            # Lines of one instant keep their order.
            heappush(waiting, (entry.submit, self.report.lines, entry, self._reader.where()))
        return heappop(waiting)[2] if waiting else None

    def _accepted(self) -> Entry | None:
        """Return the next line of which a job is to be made."""
        read = self._reader.read
        while True:
            entry, self._kept_back = self._kept_back, None
            if entry is None and (entry := read()) is None:
                return None
            builder = self._builder or self._make_builder()
            rule = builder.refusal(entry, builder.size(entry))
            if rule is None and self._cleaner is not None:
                rule = self._cleaner.rule_against(entry)
            if rule is None and not self._order.window and not self._order.sort:
                # Told here, where the line is known.
                rule = self._too_early(entry)
            if rule is not None:
                self._drop(rule, entry)
                continue
            if not self._seen.add(entry.name):
                raise InputError(self._twice(entry.name))
            return entry

    def _too_early(self, entry: Entry) -> str | None:
        if entry.submit < self._last_submit:
            return "out_of_order"
        return "before_origin" if entry.submit < self.rules.origin else None

    def _make_builder(self) -> JobBuilder:
        """Return the maker of jobs; the header is known once a line was read."""
        rules, header = self.rules, self._reader.header
        if rules.drop:
            self._cleaner = Cleaner(
                rules.drop, header, unix_start=self._unix_start, seed=rules.seed
            )
        maximum = None
        if rules.estimate_missing is EstimateMissing.MAXIMUM:
            maximum = self._maximum()
        self._builder = JobBuilder(
            rules, self.report, self._reader.partition_names, maximum=maximum
        )
        straight = self._cleaner is None and not self._order.window and not self._order.sort
        if straight and self._builder.plainly:
            self._plain = self._builder
        return self._builder

    def _maximum(self) -> int:
        """Return the longest walltime that any line asks for, or else the header's MaxRuntime.

        Raises:
            OneWay: The workload cannot be read twice.
            InputError: There is none.
        """
        self._reader.place()
        scan = self._open_reader(ReadReport())
        try:
            longest = 0
            while (entry := scan.read()) is not None:
                longest = max(longest, entry.walltime)
        finally:
            scan.close()
        stated = self._reader.header.get("MaxRuntime", "")
        if longest <= 0 and stated.isascii() and stated.isdigit() and len(stated) < 10:
            longest = int(stated) * 1_000_000
        if longest <= 0:
            raise InputError(
                f"{self._reader.name}: no line asks for any time, so there is no maximum; "
                "write maximum:5h"
            )
        return longest

    # ------------------------------------------------------------------ trouble

    def _drop(self, rule: str, entry: Entry | None = None) -> None:
        report, where = self.report, self._reader.where()
        report.drop(rule)
        reason = "" if entry is None else self._reason(rule, entry)
        if reason:
            report.first_of.setdefault(rule, f"{where}{reason}")
        if self.rules.strict:
            raise InputError(
                f"{self._reader.name}: {where} is dropped by the rule {rule!r}, "
                f"and the rules are strict{reason}"
            )

    def _reason(self, rule: str, entry: Entry) -> str:
        """Return which field made a rule drop a line, and what was expected."""
        match rule:
            case "unknown_partition":
                partitions = self.rules.partitions
                known = ", ".join(sorted(partitions.names)) if partitions else ""
                return f": partition {str(entry.partition)[:64]!r}; there are: {known[:500]}"
            case "out_of_order":
                submit, last = format_seconds(entry.submit), format_seconds(self._last_submit)
                return f": submit time {submit} s, behind {last} s; --reorder sort would sort"
            case "no_runtime" if self.rules.strict:
                return ": run time is missing; expected seconds"
            case "no_processors" if self.rules.strict:
                return ": requested and allocated processors are missing; expected a positive one"
            case _:
                return ""

    def _twice(self, name: int | str) -> str:
        here = self._reader.where()
        first = self._place_of(name)
        hint = (
            "; lines of one job's parts are dropped by --select archive"
            if self.rules.select is Select.ALL
            else ""
        )
        stands = f"stands in {first} and again in {here}" if first else f"stands again in {here}"
        return f"{self._reader.name}: job {name} {stands}{hint}"

    def _place_of(self, name: int | str) -> str:
        """Return where a job was kept first, by reading again; empty where that is impossible."""
        try:
            self._reader.place()
        except OneWay:
            return ""
        twin = WorkloadSource(self._open_reader, replace(self.rules, order=Order()))
        try:
            while (entry := twin._accepted()) is not None:
                if entry.name == name:
                    return twin.reader.where()
        finally:
            twin.close()
        return ""

    def _nothing(self) -> str:
        report, name = self.report, self._reader.name
        if not report.lines:
            return f"{name}: the file is empty"
        if not report.dropped:
            return f"{name}: none of its {report.lines} lines is a job"
        parts = ", ".join(f"{count} {rule}" for rule, count in sorted(report.dropped.items()))
        told = report.first_malformed or next(iter(report.first_of.values()), None)
        first = f"; {told}" if told else ""
        return f"{name}: no line is a job that could be simulated ({parts}{first})"


class SwfSource(WorkloadSource):
    """The jobs of a trace in the Standard Workload Format.

    Args:
        path: The file, plain or compressed.
        rules: Which lines become jobs, and what they ask for.
    """

    def __init__(self, path: Path, rules: ReadingRules | None = None) -> None:
        strict = rules is not None and rules.strict
        super().__init__(lambda report: SwfReader(path, report, strict=strict), rules)
