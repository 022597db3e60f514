"""The Standard Workload Format of the Parallel Workloads Archive, read as a stream.

Source of the format: Feitelson, Chapin et al., "Benchmarks and standards for the evaluation of
parallel job schedulers", JSSPP 1999, and the archive's page on the format, version 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from parley_server.engine import ChunkGroup, Job, Shape
from parley_server.errors import InputError
from parley_server.quantities import MICROSECONDS
from parley_server.workload.files import CORRUPT, open_workload
from parley_server.workload.report import ReadReport
from parley_server.workload.rules import EstimateMissing, ReadingRules, RequestMode, Select
from parley_server.workload.seen import SeenNumbers

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""What stands in each column, in the archive's words."""

_PARTIAL = frozenset({2, 3, 4})
"""Statuses of lines that tell of a part of a job, or of one cancelled in a part."""

_LONGEST_LINE = 1 << 16
_LONGEST_HEADER = 1000
_MOST_SECONDS = (2**53 - 1) // MICROSECONDS
_MOST_CHUNKS = 2**31


class Malformed(Exception):
    """A line that is no job; the text says which field and what is wrong with it."""


class _Line(NamedTuple):
    """The fields of a line that decide anything; times in microseconds."""

    name: int
    submit: int
    runtime: int
    allocated: int
    requested: int
    walltime: int
    status: int
    user: int
    group: int
    queue: int
    partition: int
    preceding: int
    think: int


@dataclass(frozen=True, slots=True)
class SwfPosition:
    """Where a reader stands: plain data."""

    offset: int
    last_submit: int
    report: ReadReport
    seen: SeenNumbers


class SwfSource:
    """The jobs of one SWF file, a line at a time.

    A line that cannot be read is skipped and counted, never guessed at; memory does not grow
    with the file.

    Args:
        path: The file, plain or compressed.
        rules: Which lines become jobs, and what they ask for.

    Attributes:
        header: The directives before the first job (`; Key: value`), by key.
        report: What became of the lines so far.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, path: Path, rules: ReadingRules | None = None) -> None:
        self.path = path
        self.rules = rules or ReadingRules()
        self.header: dict[str, str] = {}
        self.report = ReadReport()
        self._seen = SeenNumbers()
        self._offset = 0
        self._last_submit = 0
        self._requests: dict[int, tuple[ChunkGroup, ...]] = {}
        self._file = open_workload(path)
        self._exhausted = False

    def next(self) -> Job | None:
        """Return the next job that the rules keep.

        Raises:
            InputError: The file is cut off or damaged, a job number stands twice, the file
                holds no job at all, or a line is dropped under strict rules. The file is closed.
        """
        try:
            return self._next()
        except InputError:
            self.close()
            raise

    def _next(self) -> Job | None:
        limit = self.rules.limit
        if self._exhausted or (limit is not None and self.report.kept >= limit):
            self.close()
            return None
        while (line := self._read_line()) is not None:
            if line[:1] == b";" or not line.strip():
                self._on_comment(line)
                continue
            job = self._on_line(line)
            if job is not None:
                return job
        self.close()
        if not self.report.kept:
            raise InputError(self._nothing())
        return None

    def close(self) -> None:
        """Let go of the file; there is no further job. May be called twice."""
        self._exhausted = True
        self._file.close()

    def position(self) -> SwfPosition:
        """Return where the reader stands."""
        return SwfPosition(self._offset, self._last_submit, self.report.copy(), self._seen.copy())

    def reopen(self, position: object) -> SwfSource:
        """Return another reader that continues at *position*; O(bytes before it) if compressed."""
        if not isinstance(position, SwfPosition):
            raise TypeError(f"not a position in an SWF file: {position!r}")
        twin = SwfSource(self.path, self.rules)
        twin.header = dict(self.header)
        twin.report = position.report.copy()
        twin._seen = position.seen.copy()
        twin._last_submit = position.last_submit
        twin._offset = position.offset
        twin._file.seek(position.offset)
        return twin

    # ------------------------------------------------------------------ lines

    def _read_line(self) -> bytes | None:
        line = part = self._read_part()
        while len(part) == _LONGEST_LINE and part[-1:] != b"\n":
            # The rest of a line beyond all reason is read over, and not kept.
            part = self._read_part()
        if not line:
            return None
        self.report.lines += 1
        return line

    def _read_part(self) -> bytes:
        try:
            part = self._file.readline(_LONGEST_LINE)
        except CORRUPT as error:
            raise InputError(
                f"{self.path}: cut off or damaged after line {self.report.lines}: {error}"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        self._offset += len(part)
        return part

    def _on_comment(self, line: bytes) -> None:
        self.report.comments += 1
        if self.report.kept or len(self.header) >= _LONGEST_HEADER:
            return
        key, colon, value = line.lstrip(b"; ").partition(b":")
        if colon and line[:1] == b";":
            self.header.setdefault(
                key.decode("utf-8", "replace").strip(), value.decode("utf-8", "replace").strip()
            )

    def _on_line(self, text: bytes) -> Job | None:
        try:
            line = _parse(text)
        except Malformed as error:
            self._on_malformed(str(error))
            return None
        size = line.requested if line.requested > 0 else line.allocated
        rule = self._rule_against(line, size)
        if rule is not None:
            self._drop(rule)
            return None
        if not self._seen.add(line.name):
            raise InputError(self._twice(line.name))
        self._last_submit = line.submit
        return self._job(line, size)

    def _rule_against(self, line: _Line, size: int) -> str | None:
        """Return the rule that drops a line, if there is one."""
        if line.runtime < 0:
            return "no_runtime"
        if size <= 0:
            return "no_processors"
        if line.status in _PARTIAL and self.rules.select is Select.ARCHIVE:
            return "status"
        if line.submit < self._last_submit:
            return "out_of_order"
        return None

    def _drop(self, rule: str) -> None:
        self.report.drop(rule)
        if self.rules.strict:
            raise InputError(
                f"{self.path}: line {self.report.lines} is dropped by the rule {rule!r}, "
                "which --strict makes an error"
            )

    def _on_malformed(self, reason: str) -> None:
        if self.report.first_malformed is None:
            self.report.first_malformed = f"line {self.report.lines}: {reason}"
        if self.rules.strict:
            raise InputError(f"{self.path}: line {self.report.lines}: {reason}")
        self.report.drop("malformed")

    # ------------------------------------------------------------------ jobs

    def _job(self, line: _Line, size: int) -> Job:
        report, rules = self.report, self.rules
        number = report.kept
        report.kept += 1
        if line.preceding > 0:
            report.ignored["preceding_job"] = report.ignored.get("preceding_job", 0) + 1
        if line.think > 0:
            report.ignored["think_time"] = report.ignored.get("think_time", 0) + 1
        runtime, walltime, source = line.runtime, self._walltime(line), "trace"
        if line.walltime <= 0:
            source = rules.estimate_missing.value
            report.filled[f"walltime_{source}"] = report.filled.get(f"walltime_{source}", 0) + 1
        factor = rules.estimate.factor
        if factor is not None:
            if rules.cut_at_walltime and walltime is not None:
                runtime = min(runtime, walltime)
            walltime = min(-int(-runtime * factor // 1), _MOST_SECONDS * MICROSECONDS)
            source = rules.estimate.name
        return Job(
            number,
            str(line.name),
            line.submit,
            runtime,
            walltime,
            self._requests.get(size) or self._request(size),
            source,
            str(line.user) if line.user >= 0 else None,
            str(line.group) if line.group >= 0 else None,
            str(line.queue) if line.queue >= 0 else None,
            str(line.partition) if line.partition >= 0 else None,
        )

    def _walltime(self, line: _Line) -> int | None:
        if line.walltime > 0:
            return line.walltime
        return line.runtime if self.rules.estimate_missing is EstimateMissing.RUNTIME else None

    def _request(self, size: int) -> tuple[ChunkGroup, ...]:
        """Return the one object that stands for so many processors."""
        if self.rules.request is RequestMode.NODES:
            shape = Shape.of(self.rules.per_node, exclusive=True)
        else:
            shape = Shape.of(self.rules.per_processor, exclusive=False)
        request = (ChunkGroup(size, shape),)
        # Sizes recur; a file of nothing but different ones must not fill the memory all the same.
        if len(self._requests) >= 65_536:
            self._requests.clear()
        self._requests[size] = request
        return request

    # ------------------------------------------------------------------ trouble

    def _twice(self, name: int) -> str:
        here = self.report.lines
        first = self._line_of(name)
        hint = (
            "; lines of one job's parts are dropped by --select archive"
            if self.rules.select is Select.ALL
            else ""
        )
        return f"{self.path}: job {name} stands in line {first} and again in line {here}{hint}"

    def _line_of(self, name: int) -> int:
        """Return the first line that was kept for a job, by reading the file again."""
        twin = SwfSource(self.path, self.rules)
        try:
            while (job := twin.next()) is not None:
                if job.name == str(name):
                    break
        finally:
            twin.close()
        return twin.report.lines

    def _nothing(self) -> str:
        report = self.report
        if not report.lines:
            return f"{self.path}: the file is empty"
        if not report.dropped:
            return f"{self.path}: none of its {report.lines} lines is a job"
        parts = ", ".join(f"{count} {rule}" for rule, count in sorted(report.dropped.items()))
        first = f"; {report.first_malformed}" if report.first_malformed else ""
        return f"{self.path}: no line is a job that could be simulated ({parts}{first})"


def _parse(text: bytes) -> _Line:
    """Return the fields of a line.

    Raises:
        Malformed: It is not a line of the format.
    """
    if len(text) == _LONGEST_LINE and text[-1:] != b"\n":
        raise Malformed(f"longer than {_LONGEST_LINE} bytes; is this a text file?")
    columns = text.split()
    if len(columns) != len(FIELDS):
        if b"\0" in text:
            raise Malformed("zero bytes in the line; is this a text file?")
        raise Malformed(f"{len(columns)} fields where the format has {len(FIELDS)}")
    # int() would take 1_000 for a thousand.
    if b"_" in text:
        raise Malformed(_not_a_number(columns))
    try:
        line = _Line(
            int(columns[0]),
            int(columns[1]) * MICROSECONDS,
            int(columns[3]) * MICROSECONDS,
            int(columns[4]),
            int(columns[7]),
            int(columns[8]) * MICROSECONDS,
            int(columns[10]),
            int(columns[11]),
            int(columns[12]),
            int(columns[14]),
            int(columns[15]),
            int(columns[16]),
            int(columns[17]),
        )
    except ValueError:
        line = _parse_slowly(columns)
    if line.name < 0 or line.submit < 0:
        field = 0 if line.name < 0 else 1
        raise Malformed(f"field {field + 1}, the {FIELDS[field]}, is negative")
    if max(line.submit, line.runtime, line.walltime) > _MOST_SECONDS * MICROSECONDS:
        raise Malformed(f"a time beyond {_MOST_SECONDS} s")
    if max(line.allocated, line.requested) > _MOST_CHUNKS:
        raise Malformed(f"more than {_MOST_CHUNKS} processors")
    return line


def _parse_slowly(columns: list[bytes]) -> _Line:
    """Read a line with fractions in it; the fields that count things must still be whole."""
    times = {1, 3, 8}
    read: dict[int, int] = {}
    for index in (0, 1, 3, 4, 7, 8, 10, 11, 12, 14, 15, 16, 17):
        text = columns[index].decode("utf-8", "replace")
        value = _number(text)
        if value is None:
            raise Malformed(
                f"field {index + 1}, the {FIELDS[index]}, is {text[:32]!r}, not a number"
            )
        if index in times:
            # A missing value is -1, whatever it is multiplied by.
            read[index] = int(value * MICROSECONDS)
        elif value == int(value) or index == 17:
            read[index] = int(value)
        else:
            raise Malformed(
                f"field {index + 1}, the {FIELDS[index]}, is {text[:32]!r}, not a whole number"
            )
    return _Line(*read.values())


def _number(text: str) -> Decimal | None:
    """Return a number of a sane size, or None."""
    if not text.isascii():
        return None
    try:
        value = Decimal(text)
        return value if value.is_finite() and abs(value) < 2**63 else None
    except ArithmeticError:
        return None


def _not_a_number(columns: list[bytes]) -> str:
    index = next(index for index, column in enumerate(columns) if b"_" in column)
    text = columns[index].decode("utf-8", "replace")
    return f"field {index + 1}, the {FIELDS[index]}, is {text[:32]!r}, not a number"
