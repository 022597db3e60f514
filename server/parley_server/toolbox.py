"""What the commands on workloads do, for Python as well: look, clean, convert, transform."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from parley_server.errors import InputError, UsageError
from parley_server.platform import PlatformDescription, guessed, read_platform
from parley_server.workload.clean import Cleaner, header_filters
from parley_server.workload.files import is_standard, require_again
from parley_server.workload.flurry import FlurryDetector, Thresholds
from parley_server.workload.information import Collector, Information, offered_load
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import ZeroRuntime, parse_order, parse_zero_runtime
from parley_server.workload.sorting import Sorted
from parley_server.workload.swf import SwfReader
from parley_server.workload.transform import merged, scaled, tiled
from parley_server.workload.write import Output, output_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from parley_server.workload.entry import Entry
    from parley_server.workload.formats import WorkloadFile
    from parley_server.workload.reader import Reader

    Watch = Callable[[int], None] | None

_PARTIAL = frozenset({2, 3, 4})
_RULE_FILE_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class ToolReport:
    """What became of a workload's lines.

    Attributes:
        name: Where the jobs were written.
        written: How many.
        dropped: Lines that were not, by the rule that dropped them; a rule that dropped none has
            a zero.
        changed: Values that a rule changed, by rule.
        lost: Values that the format written cannot say.
    """

    name: str
    written: int
    dropped: Mapping[str, int]
    changed: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    first_malformed: str | None = None


class _Reading:
    """The entries of a workload, with its reader to look at and to close."""

    def __init__(self, workload: WorkloadFile, *, strict: bool, watch: Watch = None) -> None:
        self.workload = workload
        self.kind = workload.resolved()
        self.reader: Reader = workload.open(ReadReport(), strict=strict)
        self._watch = watch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def __iter__(self) -> Iterator[Entry]:
        watch = self._watch
        if watch is None:
            yield from iter(self.reader.read, None)
            return
        for count, entry in enumerate(iter(self.reader.read, None), 1):
            watch(count)
            yield entry

    def require_jobs(self, count: int) -> None:
        """Do nothing if there was a job.

        Raises:
            InputError: There was none.
        """
        if count:
            return
        report, name = self.reader.report, self.reader.name
        if not report.lines:
            raise InputError(f"{name}: the file is empty")
        first = f"; {report.first_malformed}" if report.first_malformed else ""
        raise InputError(f"{name}: none of its {report.lines} lines is a job{first}")


def information(
    workload: WorkloadFile,
    *,
    processors: int | None = None,
    platform: Path | None = None,
    thresholds: Thresholds | None = None,
    strict: bool = False,
    watch: Watch = None,
) -> Information:
    """Return what a workload holds.

    Args:
        workload: The workload.
        processors: Of the machine that the load is offered to.
        platform: Its description, or `guess`; its cores are the processors.
        thresholds: Look for flurries, by these.
        strict: A malformed line is an error.
        watch: Called with the number of jobs done.

    Raises:
        InputError: The workload cannot be read, or holds no job.
        UsageError: The machine is none.
    """
    collector, detector = Collector(), FlurryDetector(thresholds)
    with _Reading(workload, strict=strict, watch=watch) as entries:
        for entry in entries:
            collector.add(entry)
            if thresholds is not None:
                detector.add(entry)
        found = collector.information(entries.reader, entries.kind)
        if not collector.jobs:
            entries.require_jobs(0)
        header = entries.reader.header
    machine = _machine(platform, header, found["name"])
    if machine is not None:
        processors = _processors(machine)
        found["machine"] = machine.note or machine.name
    if processors is not None:
        found["load"] = offered_load(found, processors)
        found.setdefault("machine", f"{processors} processors")
    if thresholds is not None:
        found["flurries"] = [
            {
                "rule": flurry.rule,
                "user": flurry.user,
                "jobs": flurry.jobs,
                "first_submit": flurry.first / 1e6,
                "last_submit": flurry.last / 1e6,
                "alike": flurry.alike,
            }
            for flurry in detector.flurries()
        ]
    return found


def _machine(
    platform: Path | None, header: Mapping[str, str], name: str
) -> PlatformDescription | None:
    if platform is None:
        return None
    return guessed(header, name) if str(platform) == "guess" else read_platform(platform)


def _processors(machine: PlatformDescription) -> int:
    """Return how many of a trace's processors a machine has."""
    unit = machine.equivalence.get("processor", {}).get("core", 1)
    return machine.capacity.get("core", machine.node_count) // unit


def guess_machine(path: Path) -> PlatformDescription:
    """Return the machine that an SWF trace's header lets one guess.

    Raises:
        InputError: The file cannot be read, or its header says nothing.
    """
    reader = SwfReader(path, ReadReport())
    try:
        reader.read()
    finally:
        reader.close()
    return guessed(reader.header, str(path))


# ---------------------------------------------------------------------- cleaning


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """What is to be left out of a workload.

    Attributes:
        rules: Conditions, as `parley_server.workload.clean` has them.
        flurries: Drop what the detector finds.
        select: `all`, or `archive`: without status 2, 3 and 4.
        zero_runtime: `keep`, `drop` or `raise:1s`.
        simulatable: Drop lines without runtime or processors.
        seed: For samples.
        strict: A dropped line is an error.
    """

    rules: Sequence[str] = ()
    flurries: bool = False
    select: str = "all"
    zero_runtime: str = "keep"
    simulatable: bool = False
    seed: int = 0
    strict: bool = False


def rules_of(texts: Sequence[str]) -> list[str]:
    """Return rules: those given, those of files (`@FILE`), those a header names (`header:FILE`).

    Raises:
        InputError: A file cannot be read, or its header names no filter.
    """
    rules: list[str] = []
    for text in texts:
        if text.startswith("header:"):
            rules += _filters(Path(text.removeprefix("header:")))
        elif text.startswith("@"):
            rules += _rules_in(Path(text[1:]))
        else:
            rules.append(text)
    return rules


def _filters(path: Path) -> list[str]:
    reader = SwfReader(path, ReadReport())
    try:
        # A cleaning that streams has written them behind the jobs.
        while reader.read() is not None:
            pass
    finally:
        reader.close()
    try:
        return header_filters(reader.notes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _rules_in(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            content = file.read(_RULE_FILE_LIMIT)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    lines = (
        line.partition("#")[0].strip() for line in content.decode("utf-8", "replace").split("\n")
    )
    return [line for line in lines if line]


class _Sieve:
    """Drops and changes entries by settings, and counts."""

    def __init__(
        self, settings: CleaningSettings, entries: _Reading, flurries: Sequence[str]
    ) -> None:
        if settings.select not in ("all", "archive"):
            raise UsageError(f"{settings.select!r} is no selection; write all or archive")
        self._settings = settings
        self._entries = entries
        self._zero: ZeroRuntime = parse_zero_runtime(settings.zero_runtime)
        self._texts = [*settings.rules, *flurries]
        self._cleaner: Cleaner | None = None
        self.dropped: dict[str, int] = {}
        self.changed: dict[str, int] = {}

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            if self._cleaner is None:
                self._begin()
            rule = self._rule_against(entry)
            if rule is not None:
                self._drop(rule)
            elif self._zero.least and not entry.runtime:
                self.changed["zero_runtime"] = self.changed.get("zero_runtime", 0) + 1
                yield entry._replace(runtime=self._zero.least)
            else:
                yield entry

    def _begin(self) -> None:
        header = self._entries.reader.header
        self._cleaner = Cleaner(self._texts, header, seed=self._settings.seed)
        # A rule that drops nothing is told as well.
        self.dropped |= {rule.name: 0 for rule in self._cleaner.rules}

    def _rule_against(self, entry: Entry) -> str | None:
        settings = self._settings
        if settings.simulatable:
            if entry.runtime < 0:
                return "no_runtime"
            if entry.size <= 0:
                return "no_processors"
        if settings.select == "archive" and entry.status in _PARTIAL:
            return "status"
        if self._zero.drop and not entry.runtime:
            return "zero_runtime"
        return None if self._cleaner is None else self._cleaner.rule_against(entry)

    def _drop(self, rule: str) -> None:
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
        if self._settings.strict:
            reader = self._entries.reader
            raise InputError(
                f"{reader.name}: {reader.where()} is dropped by the rule {rule!r}, "
                "and the rules are strict"
            )

    def notes(self) -> list[str]:
        """Return what was dropped in the words of the archive's headers."""
        return [f"{rule} ({count} jobs removed)" for rule, count in self.dropped.items()]


def cleaned(
    workload: WorkloadFile,
    out: Path,
    to: str | None,
    settings: CleaningSettings,
    *,
    watch: Watch = None,
) -> ToolReport:
    """Write a workload without the lines that rules drop.

    Behind the jobs stands which rule dropped how many, as comments of SWF.

    Raises:
        InputError: The workload cannot be read, or holds no job, or a line is dropped under
            strict rules.
        UsageError: A rule is none.
        OutputError: It cannot be written.
    """
    flurries = _found_flurries(workload) if settings.flurries else []
    with _Reading(workload, strict=settings.strict, watch=watch) as entries:
        sieve = _Sieve(settings, entries, flurries)
        output = _write(sieve, entries, out, to, notes=sieve.notes)
        # Even where nothing is left, a line was read.
        entries.require_jobs(output.count + sum(sieve.dropped.values()))
        return _report(output, entries.reader, out, sieve.dropped, sieve.changed)


def _found_flurries(workload: WorkloadFile) -> list[str]:
    if workload.path is not None:
        require_again(workload.path)
    detector = FlurryDetector()
    with _Reading(workload, strict=False) as entries:
        for entry in entries:
            detector.add(entry)
    return [flurry.rule for flurry in detector.flurries()]


# ---------------------------------------------------------------------- writing


def _write(
    jobs: Iterable[Entry],
    entries: _Reading,
    out: Path,
    to: str | None,
    *,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Output:
    """Write jobs; the header is known once the first of them was read."""
    kind = output_format(out, to)
    _require_apart(entries.workload.path, out)
    stream = iter(jobs)
    first = next(stream, None)
    output = Output(out, kind)
    try:
        output.begin(entries.reader.header)
        if first is not None:
            output.add(first)
        for entry in stream:
            output.add(entry)
        output.end(notes())
    finally:
        output.close()
    return output


def _require_apart(source: Path | None, out: Path) -> None:
    if source is None or is_standard(out) or is_standard(source):
        return
    try:
        same = out.samefile(source)
    except OSError:
        return
    if same:
        raise UsageError(f"{out}: that is the workload that is read; write to another file")


def _report(
    output: Output,
    reader: Reader,
    out: Path,
    dropped: Mapping[str, int] | None = None,
    changed: Mapping[str, int] | None = None,
) -> ToolReport:
    return ToolReport(
        "standard output" if is_standard(out) else str(out),
        output.count,
        {**reader.report.dropped, **(dropped or {})},
        changed or {},
        output.writer.lost,
        reader.report.first_malformed,
    )


def converted(
    workload: WorkloadFile,
    out: Path,
    to: str | None,
    *,
    order: str = "as-is",
    jobs: int | None = None,
    strict: bool = False,
    watch: Watch = None,
) -> ToolReport:
    """Write a workload in another format, or its first *jobs*.

    Raises:
        InputError: The workload cannot be read, or holds no job.
        UsageError: The format or the order is none.
        OutputError: It cannot be written.
    """
    rule = parse_order(order)
    if rule.window:
        raise UsageError("a conversion keeps the order (as-is) or sorts (sort)")
    with _Reading(workload, strict=strict, watch=watch) as entries:
        stream: Iterator[Entry] = iter(entries)
        if rule.sort:
            ordered = Sorted(stream)
            stream = iter(ordered.next, None)
        output = _write(islice(stream, jobs), entries, out, to)
        entries.require_jobs(output.count)
        return _report(output, entries.reader, out)


def scaled_to(
    workload: WorkloadFile,
    out: Path,
    to: str | None,
    load: Fraction,
    *,
    strict: bool = False,
    watch: Watch = None,
) -> ToolReport:
    """Write a workload whose span is divided by *load*.

    Raises:
        InputError: The workload cannot be read, or holds no job.
        OutputError: It cannot be written.
    """
    with _Reading(workload, strict=strict, watch=watch) as entries:
        output = _write(scaled(entries, load), entries, out, to)
        entries.require_jobs(output.count)
        return _report(output, entries.reader, out)


def tiled_to(
    workload: WorkloadFile,
    out: Path,
    to: str | None,
    *,
    jobs: int | None = None,
    times: int | None = None,
    strict: bool = False,
    watch: Watch = None,
) -> ToolReport:
    """Write a workload again and again.

    Raises:
        InputError: The workload cannot be read, or holds no job.
        OneWay: It is standard input, and more than one copy is wanted.
        OutputError: It cannot be written.
    """
    with _Reading(workload, strict=strict) as entries:
        copies = 0

        def read() -> Iterator[Entry]:
            nonlocal copies
            copies += 1
            if copies == 1:
                yield from entries
                return
            entries.reader.place()
            with _Reading(workload, strict=strict) as again:
                yield from again

        stream = tiled(read, jobs=jobs, times=times)
        if watch is not None:
            stream = _counted(stream, watch)
        output = _write(stream, entries, out, to)
        return _report(output, entries.reader, out)


def _counted(stream: Iterable[Entry], watch: Callable[[int], None]) -> Iterator[Entry]:
    for count, entry in enumerate(stream, 1):
        watch(count)
        yield entry


def merged_into(
    workloads: Sequence[WorkloadFile],
    out: Path,
    to: str | None,
    *,
    apart: bool = False,
    strict: bool = False,
    watch: Watch = None,
) -> ToolReport:
    """Write several workloads as one.

    Raises:
        InputError: A workload cannot be read, is not in order, or none holds a job.
        OutputError: It cannot be written.
    """
    for workload in workloads:
        _require_apart(workload.path, out)
    readings = [_Reading(workload, strict=strict) for workload in workloads]
    try:
        stream: Iterable[Entry] = merged([_ascending(each) for each in readings], apart=apart)
        if watch is not None:
            stream = _counted(stream, watch)
        output = _write(stream, readings[0], out, to)
        readings[0].require_jobs(output.count)
        dropped: dict[str, int] = {}
        for each in readings:
            for rule, count in each.reader.report.dropped.items():
                dropped[rule] = dropped.get(rule, 0) + count
        return _report(output, readings[0].reader, out, dropped)
    finally:
        for each in readings:
            each.reader.close()


def _ascending(entries: _Reading) -> Iterator[Entry]:
    last = 0
    for entry in entries:
        if entry.submit < last:
            reader = entries.reader
            raise InputError(
                f"{reader.name}: {reader.where()} is submitted before the line before it; "
                "sort it first: parley workload convert --reorder sort"
            )
        last = entry.submit
        yield entry
