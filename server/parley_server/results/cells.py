"""Reads a run's CSV files in blocks into numpy arrays, in memory that does not grow with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parley_server.errors import InputError
from parley_server.quantities import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Whole = NDArray[np.int64]
    Places = NDArray[np.integer[Any]]
    Reals = NDArray[np.float64]
    Texts = NDArray[np.bytes_]

BLOCK = 4 << 20
"""Bytes that are taken apart at once."""

_COMMA, _LINE_END, _QUOTE, _POINT, _MINUS, _STAR, _ZERO = b',\n".-*0'
_DECIMALS = 6
_MOST_DIGITS = 18
"""What fits into 64 bits."""


_OF_ALLOCATIONS = np.isin(np.arange(256), np.frombuffer(b"0123456789 -*+", dtype=np.uint8))
"""Which letters an allocation is written in."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Allocations of many jobs, one entry for each run of nodes.

    Attributes:
        row: Whose it is: a place in the table of jobs, shape (spans,).
        first: Its lowest node, shape (spans,).
        last: Its highest node, shape (spans,).
        chunks: Chunks on each of its nodes, shape (spans,).
    """

    row: Places
    first: Places
    last: Places
    chunks: Places

    def placed(self, before: int) -> Spans:
        """Return the same in less room, with rows that count on from those before."""
        return Spans(
            (self.row + before).astype(np.int32),
            self.first.astype(np.int32),
            self.last.astype(np.int32),
            self.chunks.astype(np.int32),
        )


class Cells:
    """The cells of some whole rows.

    Attributes:
        rows: How many rows there are.
        first_line: The line of the file that the first of them begins in, from 1.
    """

    def __init__(self, path: Path, columns: Sequence[str], content: bytes, first_line: int) -> None:
        self._path = path
        self._columns = {name: place for place, name in enumerate(columns)}
        self._content = np.frombuffer(content, dtype=np.uint8)
        self.first_line = first_line
        ends = np.flatnonzero(
            (self._content == _COMMA) | (self._content == _LINE_END)
            if _QUOTE not in content
            else _outside_quotes(self._content)
            & ((self._content == _COMMA) | (self._content == _LINE_END))
        )
        width = len(columns)
        line_ends = np.flatnonzero(self._content[ends] == _LINE_END)
        expected = np.arange(1, len(line_ends) + 1) * width - 1
        if len(ends) % width or not np.array_equal(line_ends, expected):
            wrong = int(np.argmax(line_ends != expected)) if len(line_ends) else 0
            raise InputError(
                f"{path}: line {first_line + wrong}: has another number of columns than the "
                f"{width} that its first line names; was the file cut or edited?"
            )
        self.rows = len(line_ends)
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))[: len(ends)]
        self._ends = ends.reshape(-1, width)
        self._starts = starts.reshape(-1, width)

    def seconds(self, column: str) -> Reals:
        """Return a column of times in seconds, shape (rows,); an empty cell is NaN.

        Raises:
            InputError: A cell is no number.
        """
        values, empty = self._numbers(column)
        seconds = values / MICROSECONDS
        seconds[empty] = np.nan
        return seconds

    def whole(self, column: str, *, empty: int = 0) -> Whole:
        """Return a column of whole numbers, shape (rows,).

        Args:
            column: Its name.
            empty: What an empty cell stands for.

        Raises:
            InputError: A cell is no whole number.
        """
        values, missing = self._numbers(column)
        values //= MICROSECONDS
        values[missing] = empty
        return values

    def texts(self, column: str) -> Texts:
        """Return a column of texts in UTF-8, shape (rows,)."""
        place = self._columns[column]
        starts, ends = self._starts[:, place], self._ends[:, place]
        widths = ends - starts
        width = max(1, int(widths.max(initial=0)))
        # The longest cell tells how wide all are: one that is very long is not to cost gigabytes.
        if width * len(starts) > 16 * BLOCK:
            return np.array([self._text(*cell) for cell in zip(starts, ends, strict=True)])
        places = np.minimum(starts[:, None] + np.arange(width), len(self._content) - 1)
        letters = np.where(np.arange(width) < widths[:, None], self._content[places], 0)
        found = np.ascontiguousarray(letters.astype(np.uint8)).view(f"S{width}").reshape(-1)
        quoted = np.flatnonzero((widths > 0) & (letters[:, 0] == _QUOTE))
        for row in quoted:
            found[row] = self._text(starts[row], ends[row])
        return found

    def spans(self, column: str) -> Spans:
        """Return a column of allocations, such as `0-3*2 7*1`; rows count from 0.

        Raises:
            InputError: A cell is something else.
        """
        place = self._columns[column]
        starts, ends = self._starts[:, place], self._ends[:, place]
        widths = ends - starts
        offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(widths)[:-1]))
        row = np.repeat(np.arange(len(starts)), widths)
        letters = self._content[np.repeat(starts - offsets, widths) + np.arange(widths.sum())]
        digit = (letters - _ZERO) <= 9
        strange = ~_OF_ALLOCATIONS[letters]
        if strange.any():
            self._refuse(column, int(row[np.argmax(strange)]), "no allocation")
        same = np.concatenate(([False], row[1:] == row[:-1]))[: len(row)]
        before = np.where(same, np.concatenate(([0], letters[:-1]))[: len(row)], 0)
        begins = np.flatnonzero(digit & ~((before - _ZERO <= 9) & (before >= _ZERO)))
        numbers = _numbers_at(letters, digit, row, begins)
        role, whose = before[begins], row[begins]
        opening = (role != _MINUS) & (role != _STAR)
        span = np.cumsum(opening) - 1
        if len(span) and span.min() < 0:
            self._refuse(column, int(whose[0]), "no allocation")
        first = numbers[opening]
        last, chunks = first.copy(), np.ones_like(first)
        last[span[role == _MINUS]] = numbers[role == _MINUS]
        chunks[span[role == _STAR]] = numbers[role == _STAR]
        return Spans(whose[opening], first, last, chunks)

    def _numbers(self, column: str) -> tuple[Whole, NDArray[np.bool_]]:
        """Return a column in millionths, and which of its cells are empty."""
        place = self._columns[column]
        starts, ends = self._starts[:, place], self._ends[:, place]
        content, widths = self._content, ends - starts
        values = np.zeros(len(starts), dtype=np.int64)
        decimals = np.zeros(len(starts), dtype=np.int64)
        fraction = np.zeros(len(starts), dtype=bool)
        negative = (widths > 0) & (content[np.minimum(starts, len(content) - 1)] == _MINUS)
        starts = starts + negative
        digits = np.zeros(len(starts), dtype=np.int64)
        wrong = widths > _MOST_DIGITS
        most = min(int(widths.max(initial=0)), _MOST_DIGITS)
        for step in range(most):
            at = starts + step
            inside = at < ends
            letters = content[np.minimum(at, len(content) - 1)]
            digit = (letters - _ZERO <= 9) & inside
            point = (letters == _POINT) & inside
            wrong |= inside & ~digit & ~(point & ~fraction)
            fraction |= point
            values = np.where(digit, values * 10 + (letters - _ZERO), values)
            digits += digit
            decimals += digit & fraction
        wrong |= (decimals > _DECIMALS) | (digits - decimals > _MOST_DIGITS - _DECIMALS)
        wrong |= (widths > 0) & (digits == 0)
        if wrong.any():
            self._refuse(column, int(np.argmax(wrong)), "no number")
        values *= 10 ** (_DECIMALS - decimals)
        return np.where(negative, -values, values), widths == 0

    def _text(self, start: int, end: int) -> bytes:
        text = self._content[start:end].tobytes()
        if text.startswith(b'"'):
            return text[1:-1].replace(b'""', b'"')
        return text

    def _refuse(self, column: str, row: int, what: str) -> None:
        place = self._columns[column]
        text = self._text(self._starts[row, place], self._ends[row, place])[:40]
        raise InputError(
            f"{self._path}: line {self.first_line + row}: {column} is {what}: "
            f"{text.decode('utf-8', 'backslashreplace')!r}"
        )


def read_cells(path: Path, columns: Sequence[str], *, partial: bool = False) -> Iterator[Cells]:
    """Yield the rows of a file in blocks.

    Args:
        path: A CSV file as a run writes it; columns that are not asked for may be missing.
        columns: Those that must be there.
        partial: Leave out a last row that is not whole, as of a file that is being written.

    Raises:
        InputError: The file cannot be read, lacks a column, or has rows of another width.
    """
    try:
        with path.open("rb") as file:
            header = file.readline()
            names = _header(path, header, columns)
            line, rest = 2, b""
            while block := file.read(BLOCK):
                content = rest + block
                cut = _whole(content)
                rest = content[cut:]
                if cut:
                    cells = Cells(path, names, content[:cut], line)
                    line += cells.rows
                    yield cells
            if line == 2:
                yield Cells(path, names, b"", line)
            if rest and not partial:
                raise InputError(
                    f"{path}: line {line}: ends in the middle of a row: the file is cut off, or "
                    "still being written (--partial reads the rows before)"
                )
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _header(path: Path, header: bytes, columns: Sequence[str]) -> list[str]:
    if not header:
        raise InputError(f"{path}: is empty: the run broke off before it wrote anything")
    names = header.decode("utf-8", "backslashreplace").removesuffix("\n").split(",")
    missing = [name for name in columns if name not in names]
    if missing:
        raise InputError(
            f"{path}: has no column {missing[0]!r}: not a file of this version of Parley"
            + ("" if header.endswith(b"\n") else ", or cut off in its first line")
        )
    return names


def _whole(content: bytes) -> int:
    """Return how many bytes are whole rows."""
    if b'"' not in content:
        return content.rfind(b"\n") + 1
    letters = np.frombuffer(content, dtype=np.uint8)
    ends = np.flatnonzero(_outside_quotes(letters) & (letters == _LINE_END))
    return int(ends[-1]) + 1 if len(ends) else 0


def _outside_quotes(letters: Bytes) -> NDArray[np.bool_]:
    """Return which letters stand outside of quotes; a doubled quote opens and closes at once."""
    seen: Whole = np.cumsum(letters == _QUOTE, dtype=np.int64)
    outside: NDArray[np.bool_] = seen % 2 == 0
    return outside


def _numbers_at(letters: Bytes, digit: NDArray[np.bool_], row: Whole, begins: Whole) -> Whole:
    """Return the numbers that begin at some letters."""
    values = np.zeros(len(begins), dtype=np.int64)
    going = np.ones(len(begins), dtype=bool)
    step = 0
    while going.any() and step < _MOST_DIGITS:
        at = np.minimum(begins + step, len(letters) - 1)
        going &= (begins + step < len(letters)) & digit[at] & (row[at] == row[begins])
        values = np.where(going, values * 10 + (letters[at] - _ZERO), values)
        step += 1
    return values
