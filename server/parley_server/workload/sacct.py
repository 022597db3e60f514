"""Slurm's accounting as `sacct --parsable2` prints it: a line of names, then fields between `|`.

Source of the fields: the manual page of sacct (JobID, Submit, ElapsedRaw, Timelimit, ReqCPUS,
ReqMem, State, ...).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, did_you_mean
from parley_server.quantities import MICROSECONDS
from parley_server.workload.entry import Malformed
from parley_server.workload.files import LONGEST_LINE
from parley_server.workload.reader import LineRecords
from parley_server.workload.values import duration, entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley_server.workload.entry import Entry

SEPARATOR = "|"

TRAVELLING = {
    "Account": "account",
    "JobName": "job_name",
    "QOS": "qos",
    "WCKey": "wckey",
    "ReqTRES": "req_tres",
    "Reservation": "reservation",
    "Licenses": "licenses",
    "Comment": "comment",
}
"""Columns that are known at submission and travel to the dispatcher; no other does."""

_STATUS = {
    "COMPLETED": 1,
    "CANCELLED": 5,
    "REVOKED": 5,
    "DEADLINE": 0,
    "FAILED": 0,
    "TIMEOUT": 0,
    "NODE_FAIL": 0,
    "BOOT_FAIL": 0,
    "OUT_OF_MEMORY": 0,
    "PREEMPTED": 0,
}
"""SWF's status of each final state; a job in any other state has none."""

_CANCELLED = 5
_UNFINISHED = frozenset({"PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED"})
_NEVER = frozenset({"", "None", "Unknown"})
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)([cn]?)", re.ASCII)
_KILOBYTES = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}
_STEP = re.compile(r"[^.]+\..+")


class SacctReader(LineRecords):
    """The jobs of a file of accounting; lines of a job's steps are passed over.

    Times without a zone are taken as UTC, and time 0 is Unix time's. A job that has not ended, or
    never started, has no runtime.
    """

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every line, None for one that is no job."""
        lines = (line.decode("utf-8-sig", "replace") for line in self.blocks.lines())
        first = next(lines, None)
        if first is None:
            return
        self.report.lines += 1
        self.report.comments += 1
        names = first.rstrip().split(SEPARATOR)
        _require(names, self.name)
        yield None
        for line in lines:
            self.report.lines += 1
            try:
                yield self._entry(names, line)
            except Malformed as error:
                self.trouble.malformed(self.where(), str(error))
                yield None

    def _entry(self, names: list[str], line: str) -> Entry | None:
        if not line.strip():
            self.report.comments += 1
            return None
        if len(line) >= LONGEST_LINE:
            raise Malformed(f"longer than {LONGEST_LINE} bytes")
        columns = line.split(SEPARATOR)
        if len(columns) == len(names) + 1 and not columns[-1]:
            # With --parsable every line ends in a separator.
            columns.pop()
        if len(columns) != len(names):
            raise Malformed(f"{len(columns)} fields where the first line names {len(names)}")
        row = dict(zip(names, columns, strict=True))
        if _STEP.fullmatch(row["JobID"]):
            self.report.comments += 1
            self.report.ignore("job_step")
            return None
        return entry_of(_values(row), key=lambda name: _COLUMNS.get(name, name))


_COLUMNS = {
    "id": "JobID",
    "submit": "Submit",
    "runtime": "ElapsedRaw",
    "walltime": "Timelimit",
    "processors": "ReqCPUS",
    "allocated": "AllocCPUS",
    "memory": "ReqMem",
}


def _require(names: list[str], source: str) -> None:
    for wanted in (
        ("JobID",),
        ("Submit",),
        ("ElapsedRaw", "Elapsed"),
        ("ReqCPUS", "AllocCPUS", "NCPUS"),
    ):
        if not any(name in names for name in wanted):
            hint = did_you_mean(wanted[0], names)
            raise InputError(
                f"{source}: line 1: field {' or '.join(wanted)} is missing{hint}; expected what "
                "sacct --parsable2 --format=JobID,Submit,ElapsedRaw,Timelimit,ReqCPUS,State prints"
            )


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the job of a line by our names."""
    values: dict[str, Any] = {
        "id": row["JobID"],
        "submit": row["Submit"],
        "runtime": _runtime(row),
        "processors": row.get("ReqCPUS"),
        "allocated": row.get("AllocCPUS") or row.get("NCPUS"),
        "walltime": _walltime(row),
        "user": row.get("User"),
        "group": row.get("Group"),
        "partition": row.get("Partition"),
        "memory": _memory(row),
        "status": _STATUS.get(_state(row)),
        "attributes": {name: row[column] for column, name in TRAVELLING.items() if row.get(column)},
        "constraints": _constraints(row.get("Constraints", "")),
    }
    if row["Submit"].strip() in _NEVER:
        raise Malformed(f"field 'Submit' is {row['Submit'][:32]!r}: expected an instant")
    return values


def _state(row: Mapping[str, str]) -> str:
    """Return the state without `by 1000` or the mark of a name that was cut off."""
    return row.get("State", "").partition(" ")[0].rstrip("+")


def _runtime(row: Mapping[str, str]) -> str | None:
    """Return how long a job ran; None if it has not ended or never began."""
    if _state(row) in _UNFINISHED or row.get("Start", "1").strip() in _NEVER:
        return None
    elapsed = (row.get("ElapsedRaw") or row.get("Elapsed") or "").strip()
    # Cancelled in the queue; Slurm then says that it took no time.
    if _STATUS.get(_state(row)) == _CANCELLED and not elapsed.strip("0:"):
        return None
    return elapsed


def _walltime(row: Mapping[str, str]) -> Any:
    raw = row.get("TimelimitRaw", "").strip()
    if raw.isascii() and raw.isdigit():
        # Whole minutes.
        return f"{raw[:15]}m"
    text = row.get("Timelimit", "").strip()
    if text in {"", "UNLIMITED", "Partition_Limit", "INVALID"}:
        return None
    limit = _limit(text)
    if limit is None:
        raise Malformed(
            f"field 'Timelimit' is {text[:32]!r}: expected [days-]hours:minutes:seconds"
        )
    return (
        Fraction(limit, MICROSECONDS).__float__() if limit % MICROSECONDS else limit // MICROSECONDS
    )


def _limit(text: str) -> int | None:
    """Return microseconds; Slurm also says `days-hours` and `days-hours:minutes`."""
    days, dash, rest = text.partition("-")
    if dash and rest.count(":") < 2:
        text = f"{days}-{rest}{':00' * (2 - rest.count(':'))}"
    return duration(text)


def _memory(row: Mapping[str, str]) -> int | None:
    """Return kilobytes a processor: a job's are shared out, rounded up."""
    text = row.get("ReqMem", "").strip()
    if not text or text in {"0", "?"}:
        return None
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise Malformed(f"field 'ReqMem' is {text[:32]!r}: expected an amount such as 4G or 2000Mc")
    total = Fraction(match[1]) * _KILOBYTES[match[2] or "M"]
    processors = _positive(row, "ReqCPUS") or _positive(row, "AllocCPUS") or _positive(row, "NCPUS")
    match match[3]:
        case "c":
            share = total
        case "n":
            share = total * (_positive(row, "NNodes") or 1) / (processors or 1)
        case _:
            share = total / (processors or 1)
    return -int(-share // 1)


def _positive(row: Mapping[str, str], name: str) -> int:
    text = row.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _constraints(text: str) -> dict[str, str]:
    """Return features that nodes must have: `a&b`; other combinations are not understood."""
    text = text.strip().strip("()")
    if not text:
        return {}
    parts = [part.strip() for part in text.split("&")]
    if not all(re.fullmatch(r"[\w.-]{1,64}", part, re.ASCII) for part in parts):
        raise Malformed(f"field 'Constraints' is {text[:48]!r}: expected features joined by &")
    return dict.fromkeys(parts, "true")
