"""The Standard Workload Format of the Parallel Workloads Archive, read as a stream.

Source of the format: Feitelson, Chapin et al., "Benchmarks and standards for the evaluation of
parallel job schedulers", JSSPP 1999, and the archive's page on the format, version 2.2.
Dialects: 19 fields separated by tabs, of which an empty one is missing; 21 fields, which add the
nodes used, the queue's name and the request as the user wrote it (MetaCentrum's logs as Alea
ships them).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import islice, repeat
from typing import TYPE_CHECKING

from parley_server.errors import InputError
from parley_server.quantities import MICROSECONDS
from parley_server.workload.entry import (
    MOST_CHUNKS,
    MOST_SECONDS,
    NOTHING_MORE,
    Entry,
    Malformed,
    More,
)
from parley_server.workload.files import LONGEST_LINE, Blocks, after
from parley_server.workload.reader import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parley_server.workload.report import ReadReport

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

_COUNT = len(FIELDS)
_TIMES = frozenset({1, 3, 8})
_ANY_NUMBER = frozenset({9, 17})
_IGNORED = frozenset({2, 5, 6})
"""Columns that decide nothing and are kept as they stand: wait, CPU time, used memory."""

_LONGEST_HEADER = 1000
_MOST_NAMES = 65_536
_MOST_MEMORY = 2**62


class Dialect(Enum):
    """How the fields of a file's lines stand; the first line that fits one of them tells."""

    STANDARD = "18 fields"
    TABS = "19 fields, separated by tabs"
    NODES = "21 fields, with the nodes used"


@dataclass(frozen=True, slots=True)
class SwfPlace:
    """Where a reader of SWF stands: so many lines into the block at an offset; plain data."""

    offset: int
    index: int
    dialect: Dialect | None
    began: bool


class _Names(dict[bytes, str | None]):
    """Numbers of users, groups and queues as text, by how they stand; one object for each."""

    def __missing__(self, token: bytes) -> str | None:
        number = int(token)
        if len(self) >= _MOST_NAMES:
            self.clear()
        name = self[token] = str(number) if number >= 0 else None
        return name


class _Numbers(dict[bytes, int]):
    """Numbers by how they stand: where the same few recur, finding one costs a fifth of reading."""

    def __missing__(self, token: bytes) -> int:
        number = int(token)
        if len(self) >= _MOST_NAMES:
            self.clear()
        self[token] = number
        return number


class SwfReader:
    """The lines of one SWF file, a block of them at a time; memory does not grow with the file.

    A block of plain lines is read column by column; one that holds anything else, line by line.

    Args:
        path: The file, plain or compressed; `-` is standard input.
        report: Where lines are counted.
        strict: A malformed line is an error.

    Attributes:
        header: The directives before the first job (`; Key: value`), by key; the first of a
            name.
        notes: All header lines, in order, as (key, value); without a key, what stands there; and
            filters with their counts, wherever they stand.
        partition_names: What the header calls partitions, by number.
        other_width: Lines met that had not 18 fields.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, path: Path, report: ReadReport, *, strict: bool = False) -> None:
        self.header: dict[str, str] = {}
        self.notes: list[tuple[str, str]] = []
        self.partition_names: dict[str, str] = {}
        self.other_width = 0
        self.report = report
        self.blocks = Blocks(path)
        self.trouble = Trouble(self.blocks.name, report, strict=strict)
        self.dialect: Dialect | None = None
        self._names = _Names()
        self._numbers = _Numbers()
        self._items: Iterator[Entry | bytes | Malformed] = iter(())
        self._began = False
        self._block_at = 0
        self._index = 0

    @property
    def name(self) -> str:
        """The file as messages name it."""
        return self.blocks.name

    @property
    def closed(self) -> bool:
        """Whether the file was let go."""
        return self.blocks.closed

    def close(self) -> None:
        """Let go of the file; there is no further line."""
        self._items = iter(())
        self.blocks.close()

    def where(self) -> str:
        """Return where the line that was read last stands."""
        return f"line {self.report.lines}"

    def read(self) -> Entry | None:
        """Return the next line that could be read, or None at the end.

        Raises:
            InputError: The file cannot be read on, or strict reading met a malformed line.
        """
        report = self.report
        item = next(self._items, None)
        if type(item) is Entry:
            self._index += 1
            report.lines += 1
            self._began = True
            return item
        return self._read_on(item)

    def _read_on(self, item: Entry | bytes | Malformed | None) -> Entry | None:
        """Return the next line from *item* on, which is None at the end of a block."""
        report = self.report
        while True:
            if item is None:
                if not self._next_block():
                    return None
            else:
                self._index += 1
                report.lines += 1
                if type(item) is Entry:
                    self._began = True
                    return item
                if isinstance(item, Malformed):
                    self.trouble.malformed(self.where(), str(item))
                elif isinstance(item, bytes):
                    self._on_comment(item)
            item = next(self._items, None)

    def place(self) -> object:
        """Return where `read` stands.

        Raises:
            OneWay: It is standard input.
        """
        self.blocks.require_again()
        return SwfPlace(self._block_at, self._index, self.dialect, self._began)

    def seek(self, place: object) -> None:
        """Go on at a place; O(bytes before it) if the file is compressed."""
        if not isinstance(place, SwfPlace):
            raise TypeError(f"not a place in an SWF file: {place!r}")
        self.blocks.seek(place.offset)
        self.dialect, self._began = place.dialect, place.began
        self._block_at, self._index, self._items = place.offset, 0, iter(())
        missing = place.index
        # A file that has become shorter ends where it ends; blocks need not be cut as before.
        while missing and self._next_block():
            self._index = sum(1 for _ in islice(self._items, missing))
            missing -= self._index

    # ------------------------------------------------------------------ blocks

    def _next_block(self) -> bool:
        offset = self.blocks.offset
        try:
            block = self.blocks.next()
        except InputError as error:
            raise InputError(f"{self.name}: {after(self.report.lines, str(error))}") from None
        if block is None:
            return False
        self._block_at, self._index = offset, 0
        self._items = self._columns(block) or self._lines(block)
        return True

    def _columns(self, block: bytes) -> Iterator[Entry] | None:
        """Read a block of nothing but plain lines; None if anything else is in it."""
        # Fractions make a line slow; the marks below must not stand in a token by themselves.
        if b";" in block or b"_" in block or (len(block) == LONGEST_LINE and block[-1:] != b"\n"):
            return None
        lines = block.count(b"\n")
        text = block.replace(b"\n", b" ;\n")
        if block[-1:] != b"\n":
            text, lines = text + b" ;", lines + 1
        tokens = text.split()
        step = _COUNT + 1
        if len(tokens) != lines * step or tokens[_COUNT::step].count(b";") != lines:
            return None
        if self.dialect is None:
            self.dialect = Dialect.STANDARD
        elif self.dialect is not Dialect.STANDARD:
            return None
        try:
            return self._entries([tokens[index::step] for index in range(_COUNT)])
        except ValueError:
            return None

    def _entries(self, columns: list[list[bytes]]) -> Iterator[Entry] | None:
        """Return the entries of columns; None, or a ValueError, if they are not all plain."""
        numbers = {index: list(map(int, columns[index])) for index in (0, 1, 3)}
        recurring = self._numbers.__getitem__
        for index in (4, 7, 8, 9, 10, 16, 17):
            numbers[index] = list(map(recurring, columns[index]))
        if (
            min(numbers[0]) < 0
            or min(numbers[1]) < 0
            or max(max(numbers[index]) for index in _TIMES) > MOST_SECONDS
            or max(*numbers[4], *numbers[7]) > MOST_CHUNKS
            or max(numbers[9]) > _MOST_MEMORY
        ):
            return None
        names = self._names.__getitem__
        # As Entry(...) would, without the call of Python that this is.
        fields = zip(
            numbers[0],
            [seconds * MICROSECONDS for seconds in numbers[1]],
            [seconds * MICROSECONDS for seconds in numbers[3]],
            numbers[4],
            numbers[7],
            [seconds * MICROSECONDS for seconds in numbers[8]],
            numbers[9],
            numbers[10],
            list(map(names, columns[11])),
            list(map(names, columns[12])),
            list(map(names, columns[13])),
            list(map(names, columns[14])),
            list(map(names, columns[15])),
            numbers[16],
            numbers[17],
            columns[2],
            columns[5],
            columns[6],
            repeat(NOTHING_MORE),
        )
        return map(tuple.__new__, repeat(Entry), fields)

    def _lines(self, block: bytes) -> Iterator[Entry | bytes | Malformed]:
        if len(block) == LONGEST_LINE and block[-1:] != b"\n":
            if block[:1] == b";" or not block.strip():
                yield block
            else:
                yield Malformed(f"longer than {LONGEST_LINE} bytes; is this a text file?")
            return
        lines = block.removesuffix(b"\n").split(b"\n")
        if self.dialect is None:
            # One odd line must not speak for all.
            self.dialect = _prevailing(lines)
        for line in lines:
            if line[:1] == b";" or not line.strip():
                yield line
                continue
            try:
                yield self._parse(line)
            except Malformed as error:
                yield error

    # ------------------------------------------------------------------ lines

    def _on_comment(self, line: bytes) -> None:
        self.report.comments += 1
        if line[:1] != b";" or len(self.notes) >= _LONGEST_HEADER:
            return
        key, colon, value = line.lstrip(b"; \t").partition(b":")
        name, said = (part.decode("utf-8", "replace").strip() for part in (key, value))
        if not colon:
            name, said = "", name
        if name == "Partition":
            # Before the first job, or, in what we write, before the first job of it.
            number, _, called = said.partition(" ")
            self.partition_names.setdefault(number, called.strip())
        if not self._began:
            self.notes.append((name, said))
            if colon:
                self.header.setdefault(name, said)
        elif said.endswith("removed)"):
            # A cleaning that streams knows its counts at the end.
            self.notes.append((name, said))

    def _parse(self, text: bytes) -> Entry:
        """Return the fields of a line.

        Raises:
            Malformed: It is not a line of the format.
        """
        if len(text) >= LONGEST_LINE:
            raise Malformed(f"longer than {LONGEST_LINE} bytes; is this a text file?")
        columns = self._split(text)
        more = self._more(columns)
        # int() would take 1_000 for a thousand.
        if any(b"_" in column for column in columns[:_COUNT]):
            raise Malformed(_not_a_number(columns))
        return _slowly(columns, more)

    def _split(self, text: bytes) -> list[bytes]:
        columns = text.split()
        self.other_width += len(columns) != _COUNT
        dialect = _dialect_of(text, columns)
        if dialect is Dialect.TABS or (
            dialect is Dialect.STANDARD and self.dialect is Dialect.TABS
        ):
            dialect = Dialect.TABS
            if len(columns) != _COUNT:
                columns = _tabbed(text)
        if dialect is None or dialect is not self.dialect:
            if b"\0" in text:
                raise Malformed("zero bytes in the line; is this a text file?")
            wanted = (self.dialect or Dialect.STANDARD).value.split()[0]
            whose = "format" if wanted == str(_COUNT) else "file"
            raise Malformed(f"{len(columns)} fields where the {whose} has {wanted}")
        return columns

    def _more(self, columns: list[bytes]) -> More:
        """Return what stands beyond the format's own fields, of which some never travel."""
        if self.dialect is Dialect.NODES:
            # The nodes a job was given are known only afterwards.
            self.report.ignore("nodes")
            queue, request = (part.decode("utf-8", "replace") for part in columns[19:21])
            return More(attributes={"queue": queue, "request": request})
        if len(columns) > _COUNT and columns[_COUNT] != b"-1":
            self.report.ignore("field_19")
        return NOTHING_MORE


def _tabbed(text: bytes) -> list[bytes]:
    """Return fields between tabs; an empty one is missing."""
    return [part.strip() or b"-1" for part in text.split(b"\t")]


def _dialect_of(text: bytes, columns: list[bytes]) -> Dialect | None:
    """Return which dialect a line would fit, by its width."""
    if len(columns) == _COUNT:
        return Dialect.STANDARD
    if len(columns) == 21 and columns[_COUNT][:1] == b"{":
        return Dialect.NODES
    if text.count(b"\t") in (_COUNT - 1, _COUNT):
        return Dialect.TABS
    return None


def _prevailing(lines: list[bytes]) -> Dialect | None:
    """Return the dialect that most lines fit; the standard, if as many fit that."""
    found: Counter[Dialect] = Counter()
    for line in lines:
        if line[:1] != b";":
            dialect = _dialect_of(line, line.split())
            if dialect is not None:
                found[dialect] += 1
    return max(Dialect, key=found.__getitem__) if found else None


def _slowly(columns: list[bytes], more: More) -> Entry:
    """Read a line with fractions in it; the fields that count things must still be whole."""
    read: dict[int, int] = {}
    for index in range(_COUNT):
        if index in _IGNORED:
            continue
        try:
            read[index] = int(columns[index]) * (MICROSECONDS if index in _TIMES else 1)
        except ValueError:
            read[index] = _whole(index, columns[index])
    _check(read)
    names = (str(read[index]) if read[index] >= 0 else None for index in (11, 12, 13, 14, 15))
    user, group, application, queue, partition = names
    return Entry(
        read[0],
        read[1],
        read[3],
        read[4],
        read[7],
        read[8],
        read[9],
        read[10],
        user,
        group,
        application,
        str(more.attributes.get("queue", queue)) if more.attributes else queue,
        partition,
        read[16],
        read[17],
        columns[2],
        columns[5],
        columns[6],
        _without_queue(more),
    )


def _without_queue(more: More) -> More:
    """Return what is left when the queue's name stands where queues stand."""
    if not more.attributes:
        return more
    return More(attributes={"request": more.attributes["request"]})


def _check(read: dict[int, int]) -> None:
    if read[0] < 0 or read[1] < 0:
        field = 0 if read[0] < 0 else 1
        raise Malformed(f"field {field + 1}, the {FIELDS[field]}, is negative")
    for index in sorted(_TIMES):
        if read[index] > MOST_SECONDS * MICROSECONDS:
            raise Malformed(
                f"field {index + 1}, the {FIELDS[index]}, is a time beyond {MOST_SECONDS} s"
            )
    for index in (4, 7):
        if read[index] > MOST_CHUNKS:
            raise Malformed(
                f"field {index + 1}, the {FIELDS[index]}, is more than {MOST_CHUNKS} processors"
            )
    if read[9] > _MOST_MEMORY:
        raise Malformed(f"field 10, the {FIELDS[9]}, is more than any machine has")


def _whole(index: int, token: bytes) -> int:
    text = token.decode("utf-8", "replace")
    value = number(text)
    if value is None:
        raise Malformed(f"field {index + 1}, the {FIELDS[index]}, is {text[:32]!r}, not a number")
    if index in _TIMES:
        # A missing value is -1, whatever it is multiplied by.
        return int(value * MICROSECONDS)
    if value == int(value) or index in _ANY_NUMBER:
        return int(value)
    raise Malformed(f"field {index + 1}, the {FIELDS[index]}, is {text[:32]!r}, not a whole number")


def number(text: str) -> Decimal | None:
    """Return a number of a sane size, or None."""
    if not text.isascii() or "_" in text:
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
