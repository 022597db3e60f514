"""Batsim's workloads: one JSON document with `jobs` and the `profiles` that they refer to.

Read twice as a stream, for profiles stand behind the jobs: first how long each profile takes,
which is kept, then the jobs, which are not. Source of the format: Batsim's documentation of its
input workload (`nb_res`, `jobs` with id, subtime, walltime, res, profile; profile type `delay`).
"""

from __future__ import annotations

import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from parley_server.errors import InputError
from parley_server.quantities import MICROSECONDS
from parley_server.workload.entry import MOST_SECONDS, Malformed
from parley_server.workload.files import OneWay, corrupt, is_standard, open_workload
from parley_server.workload.reader import Records
from parley_server.workload.values import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley_server.workload.entry import Entry
    from parley_server.workload.report import ReadReport

_OWN = frozenset({"id", "subtime", "walltime", "res", "profile", "user"})
_RESULTS = frozenset(
    {
        *("runtime", "execution_time", "starting_time", "start_time", "finish_time", "end_time"),
        *("waiting_time", "turnaround_time", "stretch", "success", "final_state", "state"),
        *("allocated_resources", "consumed_energy", "metadata", "return_code", "status"),
        *("wait", "allocated", "cpu_time", "used_memory"),
    }
)
"""What Batsim writes of a job when it is over; it never travels."""

_MOST_KINDS = 50
_DEEPEST = 8


class BatsimReader(Records):
    """The jobs of one workload of Batsim; only those whose profile is a delay can be simulated."""

    def __init__(self, path: Path, report: ReadReport, *, strict: bool = False) -> None:
        self._spooled = is_standard(path)
        self._content: IO[bytes] | None = None
        super().__init__(path, report, strict=strict)
        self.trouble.name = "standard input" if self._spooled else str(path)

    def place(self) -> object:
        """Return how many jobs were read."""
        if self._spooled:
            raise OneWay("standard input is read once, and this needs what was read before")
        return super().place()

    def where(self) -> str:
        """Return which of the jobs was read last, from 0 on."""
        return f"jobs[{self.report.lines - 1}]"

    def close(self) -> None:
        """Let go of the file."""
        super().close()
        if self._content is not None:
            self._content.close()

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every job, None for one that cannot be read or simulated."""
        delays = self._delays()
        for job in self._items("jobs.item"):
            self.report.lines += 1
            try:
                yield self._entry(job, delays)
            except Malformed as error:
                self.trouble.malformed(self.where(), str(error))
                yield None

    def _entry(self, job: Any, delays: Mapping[str, Decimal | str]) -> Entry | None:
        if not isinstance(job, dict):
            raise Malformed('expected a job such as {"id": 1, "subtime": 0, "res": 4, ...}')
        profile = job.get("profile")
        delay = delays.get(str(profile))
        if profile is None or delay is None:
            raise Malformed(
                f"field 'profile' is {str(profile)[:48]!r}: expected one of the profiles"
            )
        if isinstance(delay, str):
            self._unsimulated(delay)
            return None
        values: dict[str, Any] = {
            "id": job.get("id"),
            "submit": job.get("subtime"),
            "runtime": delay,
            "processors": job.get("res"),
            "walltime": job.get("walltime"),
            "user": job.get("user"),
            "attributes": {
                name: value
                for name, value in job.items()
                if name not in _OWN and name not in _RESULTS
            },
        }
        names = {"submit": "subtime", "processors": "res"}
        return entry_of(values, key=lambda name: names.get(name, name))

    def _unsimulated(self, kind: str) -> None:
        """Count a job whose profile says more than a time."""
        known = f"profile {kind}"
        if known not in self.report.dropped and len(self.report.dropped) >= _MOST_KINDS:
            known = "profile of other types"
        self.report.drop(known)
        if self.trouble.strict:
            raise InputError(
                f"{self.name}: {self.where()}: a profile of type {kind!r} cannot be simulated; "
                "expected delay"
            )

    # ------------------------------------------------------------------ profiles

    def _delays(self) -> dict[str, Decimal | str]:
        """Return how long each profile takes, seconds, or its type if that cannot be known."""
        delays: dict[str, Decimal | str] = {}
        composed: dict[str, Mapping[str, Any]] = {}
        for name, profile in self._items("profiles", pairs=True):
            if not isinstance(profile, dict):
                delays[name] = "none"
                continue
            kind = str(profile.get("type"))[:48]
            delays[name] = kind
            if kind == "delay" and _is_time(profile.get("delay")):
                delays[name] = Decimal(profile["delay"])
            elif kind in ("composed", "sequence", "composition"):
                composed[name] = profile
        for name in composed:
            total = _composed(name, composed, delays, 0)
            if total is not None:
                delays[name] = total
        return delays

    # ------------------------------------------------------------------ JSON

    def _items(self, prefix: str, *, pairs: bool = False) -> Iterator[Any]:
        """Yield what stands in an array, or the pairs of an object, one at a time.

        Raises:
            InputError: The document is damaged.
        """
        import ijson  # noqa: PLC0415 - only for such a workload

        read = ijson.kvitems if pairs else ijson.items
        with self._open() as file:
            try:
                yield from read(file, prefix)
            except (ijson.JSONError, ValueError, ArithmeticError, RecursionError) as error:
                said = " ".join(str(error).split())[:120]
                raise InputError(f"{self.name}: not a workload of Batsim: {said}") from None
            except corrupt() as error:
                raise InputError(f"{self.name}: cut off or damaged: {error}") from None
            except OSError as error:
                raise InputError(f"{self.name}: {error.strerror or error}") from None

    def _open(self) -> IO[bytes]:
        if not self._spooled:
            return open_workload(self.path)
        if self._content is None:
            # Read twice: what comes once is kept in a file without a name.
            self._content = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
            shutil.copyfileobj(open_workload(self.path), self._content)
        self._content.seek(0)
        return open(self._content.fileno(), "rb", closefd=False)


def _is_time(value: Any) -> bool:
    return (
        isinstance(value, (int, Decimal))
        and not isinstance(value, bool)
        and 0 <= value <= MOST_SECONDS
    )


def _composed(
    name: str,
    composed: Mapping[str, Mapping[str, Any]],
    delays: Mapping[str, Decimal | str],
    depth: int,
) -> Decimal | None:
    """Return how long a sequence of delays takes; None if it is of anything else."""
    profile = composed[name]
    parts, repeat = profile.get("seq"), profile.get("repeat", profile.get("nb", 1))
    if not isinstance(parts, list) or type(repeat) is not int or repeat < 0 or depth > _DEEPEST:
        return None
    total = Decimal(0)
    for part in parts:
        delay = delays.get(str(part))
        if isinstance(delay, str) and str(part) in composed:
            delay = _composed(str(part), composed, delays, depth + 1)
        if not isinstance(delay, Decimal):
            return None
        total += delay
    total *= repeat
    return total if total * MICROSECONDS <= MOST_SECONDS * MICROSECONDS else None
