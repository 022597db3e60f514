"""Writers of workloads: SWF, and Parley's own JSON Lines."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any, Protocol

from parley_server.errors import OutputError, UsageError, did_you_mean, one_line
from parley_server.quantities import MICROSECONDS, format_seconds
from parley_server.workload.files import COMPRESSED_ENDINGS, create, is_standard
from parley_server.workload.jsonlines import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parley_server.workload.entry import Entry

OUTPUTS = ("swf", "jsonl")
_FLUSH = 500
_UNUSED = 10**12
"""Numbers beyond this one stand for names."""


class Writer(Protocol):
    """Takes entries and turns each into a line.

    Attributes:
        lost: What the format cannot say, and how often it was there.
    """

    lost: dict[str, int]

    def begin(self, header: Mapping[str, str], notes: Sequence[str]) -> bytes:
        """Return what stands before the first job."""
        ...

    def line(self, entry: Entry) -> str:
        """Return the line of a job, without its end."""
        ...

    def end(self) -> bytes:
        """Return what stands behind the last job."""
        ...


class SwfWriter:
    """Lines of the Standard Workload Format.

    What has no number gets one, beyond all that traces use: jobs, users, groups, queues and so on
    by the order in which they come. What a number stands for is written before the first job that
    has it.
    """

    def __init__(self) -> None:
        self.lost: dict[str, int] = {}
        self._numbers: dict[str, dict[str, int]] = {
            column: {} for column in ("User", "Group", "Executable", "Queue", "Partition")
        }
        self._met: list[str] = []

    def begin(self, header: Mapping[str, str], notes: Sequence[str]) -> bytes:
        """Return the header as directives."""
        lines = [f"; {one_line(key)}: {one_line(value)}" for key, value in header.items() if key]
        lines += [f"; Note: {one_line(note)}" for note in notes]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def line(self, entry: Entry) -> str:
        """Return the 18 fields of a job."""
        if entry.more.request or entry.more.constraints or entry.more.attributes:
            self._lose(entry)
        name = entry.name
        line = (
            f"{name if type(name) is int else self._renumbered()} "
            f"{format_seconds(entry.submit)} {_raw(entry.wait)} {format_seconds(entry.runtime)} "
            f"{entry.allocated} {_raw(entry.cpu)} {_raw(entry.used_memory)} "
            f"{entry.requested} {format_seconds(entry.walltime)} {entry.memory} {entry.status} "
            f"{self._number('User', entry.user)} {self._number('Group', entry.group)} "
            f"{self._number('Executable', entry.application)} "
            f"{self._number('Queue', entry.queue)} {self._number('Partition', entry.partition)} "
            f"{entry.preceding} {entry.think}"
        )
        if self._met:
            line = "\n".join([*self._met, line])
            self._met.clear()
        return line

    def end(self) -> bytes:
        """Return nothing: every line stands for itself."""
        return b""

    def _renumbered(self) -> int:
        count = self.lost["name"] = self.lost.get("name", 0) + 1
        return _UNUSED + count

    def _number(self, column: str, name: str | None) -> str:
        if name is None:
            return "-1"
        if name.isdigit() and name.isascii():
            return name
        numbers = self._numbers[column]
        if name not in numbers:
            numbers[name] = _UNUSED + 1 + len(numbers)
            self._met.append(f"; {column}: {numbers[name]} {one_line(name)}")
        return str(numbers[name])

    def _lose(self, entry: Entry) -> None:
        for what in ("request", "constraints", "attributes"):
            if getattr(entry.more, what):
                self.lost[what] = self.lost.get(what, 0) + 1


class JsonLinesWriter:
    """Lines of Parley's own format, which says everything that an entry does."""

    def __init__(self) -> None:
        self.lost: dict[str, int] = {}

    def begin(self, header: Mapping[str, str], notes: Sequence[str]) -> bytes:
        """Return the first line: version and header."""
        told = dict(header)
        if notes:
            told["Cleaned"] = "; ".join(notes)
        first = {"parley": "workload", "version": VERSION, "header": told}
        return json.dumps(first).encode() + b"\n"

    def line(self, entry: Entry) -> str:
        """Return a job as an object; what is missing is left out."""
        values: dict[str, Any] = {"id": entry.name, "submit": _seconds(entry.submit)}
        times = {"runtime": entry.runtime, "walltime": entry.walltime}
        values |= {key: _seconds(time) for key, time in times.items() if time >= 0}
        counts = {
            "processors": entry.requested,
            "allocated": entry.allocated,
            "memory": entry.memory,
            "status": entry.status,
            "preceding": entry.preceding,
            "think_time": entry.think,
        }
        values |= {key: count for key, count in counts.items() if count >= 0}
        names = ("user", "group", "application", "queue", "partition")
        values |= {key: name for key in names if (name := getattr(entry, key)) is not None}
        raw = {"wait": entry.wait, "cpu_time": entry.cpu, "used_memory": entry.used_memory}
        values |= {key: text for key, kept in raw.items() if (text := _plain(kept)) is not None}
        more = entry.more
        if more.request is not None:
            values["request"] = [
                {
                    "chunks": group.chunks,
                    "per_chunk": dict(group.shape.per_chunk),
                    "exclusive": group.shape.exclusive,
                }
                for group in more.request
            ]
        if more.constraints:
            values["constraints"] = dict(more.constraints)
        if more.attributes:
            values["attributes"] = dict(more.attributes)
        return json.dumps(values)

    def end(self) -> bytes:
        """Return nothing: every line stands for itself."""
        return b""


def _raw(kept: bytes) -> str:
    """Return a field that decides nothing, as it stood."""
    return kept.decode("utf-8", "replace")


def _seconds(microseconds: int) -> int | float | str:
    """Return a time as JSON has it; as text where a float would not give it back."""
    if not microseconds % MICROSECONDS:
        return microseconds // MICROSECONDS
    text = format_seconds(microseconds)
    return float(text) if repr(float(text)) == text else text


def _plain(raw: bytes) -> int | float | str | None:
    """Return a number that decides nothing as JSON has it; None if it is missing or none."""
    text = raw.decode("utf-8", "replace")
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 <= value < 2**53:
        return None
    return int(value) if value.is_integer() else value


def output_format(path: Path, wanted: str | None) -> str:
    """Return the format to write: the one that is wanted, else that of the name's ending.

    Raises:
        UsageError: There is no such format, or nothing says which.
    """
    if wanted is not None:
        if wanted not in OUTPUTS:
            raise UsageError(
                f"{wanted!r} cannot be written{did_you_mean(wanted, OUTPUTS)}; "
                f"there are: {', '.join(OUTPUTS)}"
            )
        return wanted
    name = path.name
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    if name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    if name.endswith(".swf") or is_standard(path):
        return "swf"
    raise UsageError(f"{path}: which format? end its name in .swf or .jsonl, or say it with --to")


class Output:
    """A workload being written, in blocks.

    Args:
        path: The file; `-` is standard output; its ending says how it is compressed.
        kind: One of `OUTPUTS`.

    Raises:
        OutputError: It cannot be written.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.writer: Writer = SwfWriter() if kind == "swf" else JsonLinesWriter()
        self.count = 0
        self._path = path
        self._file: IO[bytes] = create(path)
        self._lines: list[str] = []

    def begin(self, header: Mapping[str, str], notes: Sequence[str] = ()) -> None:
        """Write what stands before the first job."""
        self._write(self.writer.begin(header, notes))

    def add(self, entry: Entry) -> None:
        """Write one job."""
        self._lines.append(self.writer.line(entry))
        self.count += 1
        if len(self._lines) >= _FLUSH:
            self._flush()

    def end(self, notes: Sequence[str] = ()) -> None:
        """Write what stands behind the last job, and close the file."""
        self._flush()
        closing = self.writer.end()
        if notes and isinstance(self.writer, SwfWriter):
            closing += self.writer.begin({}, notes)
        self._write(closing)
        self.close()

    def close(self) -> None:
        """Let go of the file. May be called twice."""
        try:
            self._file.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from None

    def _flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._write("\n".join(self._lines).encode("utf-8", "replace"))
            self._lines.clear()

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputError:
        name = "standard output" if is_standard(self._path) else self._path
        return OutputError(f"{name}: cannot be written: {error.strerror or error}")
