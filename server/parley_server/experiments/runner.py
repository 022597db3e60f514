"""Runs the cells of an experiment, some at a time, and keeps what became of each."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from parley_server.errors import ExitStatus, InputError, OutputError
from parley_server.experiments.process import GuardedProcess, told_of
from parley_server.experiments.store import blank_record, finite
from parley_server.version import __version__
from parley_server.workload.files import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from parley_server.experiments.definition import AnalysisSettings
    from parley_server.experiments.grid import Cell
    from parley_server.experiments.process import Usage
    from parley_server.experiments.store import CellRecord, Store

_SAMPLE_S = 0.01
"""How often memory is looked at: as AccaSim's benchmark does (Galleguillos et al., 2020)."""

_PYTHON = (sys.executable, "-P", "-m")
"""Nothing is imported from wherever the experiment is called, be it a file called random.py."""

_OUTPUT = "measured.part"
_ERRORS = "stderr.txt"
_SCENARIO = "cell.toml"
_MOST_SHOWN = 400

_LEAST_FREE = 65_536
"""Bytes; where less is left, no process can even say why it failed."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done for a cell: the run and its metrics, or the metrics alone."""

    cell: Cell
    record: CellRecord | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment is.

    Attributes:
        total: All cells.
        complete: Those that are, including those that were before.
        failed: Those that failed this time.
        running: Names of the cells that run now, and for how many seconds.
        seconds_left: An estimate from the cells that are complete; None if there are none yet.
    """

    total: int
    complete: int
    failed: int
    running: Sequence[tuple[str, float]]
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class CellEnd:
    """A cell has ended.

    Attributes:
        number: Which of those to be run it is, counted from 1.
        count: How many are to be run.
    """

    record: CellRecord
    number: int
    count: int


def analysis_digest(analysis: AnalysisSettings) -> str:
    """Return what tells whether metrics were computed by the same rules."""
    from parley_server.own_code import split_reference  # noqa: PLC0415 - only here

    own = [split_reference(reference) for reference in analysis.metrics]
    content = [analysis.model_dump(), [digest_of(part[0]) for part in own if part is not None]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class Runner:
    """Works off cells, so many at a time, each in processes of its own.

    Args:
        store: Where results go.
        analysis: By which rules metrics are computed.
        lock: Descriptor of the lock on the directory.
        jobs: How many cells at a time.
        time_limit: Seconds after which a cell is taken to hang.
        already: Records of cells that are complete.
        ended: Is told of each cell that has ended.
        progress: Is told a few times a second how far it is.
        poll: Called many times a second; what it raises ends everything.
    """

    def __init__(
        self,
        store: Store,
        analysis: AnalysisSettings,
        *,
        lock: int,
        jobs: int,
        time_limit: float,
        already: Iterable[CellRecord] = (),
        ended: Callable[[CellEnd], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
        poll: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._analysis = analysis
        self._analysis_digest = analysis_digest(analysis)
        self._lock = lock
        self._jobs = jobs
        self._time_limit = time_limit
        self._ended = ended
        self._progress = progress
        self._poll = poll
        self._complete = list(already)
        self._failed: list[CellRecord] = []
        self._active: list[_Active] = []
        self._shown = 0.0
        self._unwritable: CellRecord | None = None

    def run(self, work: Sequence[Work]) -> list[CellRecord]:
        """Do all the work; return the records of the cells that failed.

        Raises:
            OutputError: Results cannot be written; what was not begun is left for another time.
            KeyboardInterrupt: As `poll` raises it; the cells that ran are ended.
        """
        self._waiting = deque(work)
        self._count = len(work)
        try:
            while self._active or (self._waiting and self._unwritable is None):
                self._step()
        finally:
            for active in self._active:
                active.process.end()
            for active in self._active:
                active.process.wait()
        if self._unwritable is not None:
            raise OutputError(
                f"{self._unwritable['name']}: {self._unwritable['message']}; "
                f"{len(self._waiting)} cells were not begun: the same command goes on when there "
                "is room"
            )
        return self._failed

    # ------------------------------------------------------------------ within

    def _step(self) -> None:
        while self._waiting and len(self._active) < self._jobs and self._unwritable is None:
            self._active.append(self._begin(self._waiting.popleft()))
        time.sleep(_SAMPLE_S)
        for active in list(self._active):
            usage = active.process.poll()
            if usage is not None:
                self._active.remove(active)
                self._take(active, usage)
            elif active.process.seconds > self._time_limit and not active.overdue:
                active.overdue = True
                active.process.end()
            elif active.phase == "run":
                active.process.sample()
        if self._poll is not None:
            self._poll()
        if self._progress is not None and time.monotonic() - self._shown > 0.25:
            self._shown = time.monotonic()
            self._progress(self._so_far())

    def _begin(self, work: Work) -> _Active:
        cell = work.cell
        directory = self._store.cell_directory(cell.name)
        if work.record is not None:
            return self._measure(_Active(cell, directory, work.record))
        record = blank_record(cell, parley=__version__)
        record["status"], record["began"] = "running", time.time()
        self._store.note(record)
        self._store.forget(cell.name)
        scenario = directory / _SCENARIO
        try:
            directory.mkdir(parents=True, exist_ok=True)
            scenario.write_text(cell.scenario_toml, encoding="utf-8")
            command = [*_PYTHON, "parley_server.cli.main", "run", str(scenario)]
            active = _Active(cell, directory, record)
            active.process = GuardedProcess(
                [*command, "--out", str(directory), "--force", "--quiet"],
                output=directory / _OUTPUT,
                errors=directory / _ERRORS,
                lock=self._lock,
            )
        except OSError as error:
            raise OutputError(
                f"{directory}: cannot be written: {error.strerror or error}"
            ) from None
        return active

    def _measure(self, active: _Active) -> _Active:
        analysis = self._analysis
        active.phase = "measure"
        try:
            active.process = GuardedProcess(
                [
                    *(*_PYTHON, "parley_server.experiments.measuring"),
                    *(str(active.directory), analysis.warmup, analysis.cooldown, *analysis.metrics),
                ],
                output=active.directory / _OUTPUT,
                errors=active.directory / _ERRORS,
                lock=self._lock,
            )
        except OSError as error:
            raise OutputError(
                f"{active.directory}: cannot be written: {error.strerror or error}"
            ) from None
        return active

    def _take(self, active: _Active, usage: Usage) -> None:
        """Go on with a cell of which a process has ended."""
        if active.overdue:
            self._fail(active, f"ended: it took longer than {self._time_limit:g} s (time_limit)")
        elif usage.status != ExitStatus.COMPLETE:
            self._fail(active, _last_words(active.directory / _ERRORS) or told_of(usage.status))
        elif active.phase == "run":
            try:
                self._note_costs(active, usage)
            except InputError as error:
                self._fail(active, str(error))
                return
            self._active.append(self._measure(active))
        else:
            self._succeed(active)

    def _note_costs(self, active: _Active, usage: Usage) -> None:
        """Note what a run that is complete has cost; its metrics are still to come.

        Raises:
            InputError: Its rows are gone.
        """
        record = active.record
        record["wall_seconds"] = usage.wall_seconds
        record["metrics"] = _costs(active.directory, usage)
        record["jobs_sha256"] = digest_of(active.directory / "jobs.csv")

    def _succeed(self, active: _Active) -> None:
        record = active.record
        try:
            metrics: dict[str, Any] = json.loads((active.directory / _OUTPUT).read_bytes())
        except (OSError, ValueError) as error:
            self._fail(active, f"its metrics cannot be read: {error}")
            return
        record["status"], record["message"] = "complete", ""
        record["analysis"] = self._analysis_digest
        # What the run cost was measured while it ran.
        record["metrics"] = {**metrics, **_costs_in(record)}
        self._complete.append(record)
        self._save(active)

    def _fail(self, active: _Active, message: str) -> None:
        record = active.record
        record["status"], record["message"] = "failed", message
        record["metrics"] = _costs_in(record)
        self._failed.append(record)
        if _disk_full(active.directory):
            record["message"] = f"{message}; the disk is full"
            self._unwritable = record
        elif _reason(active.directory) == "output_error" or "cannot be written" in message:
            self._unwritable = record
        self._save(active)

    def _save(self, active: _Active) -> None:
        for name in (_OUTPUT, _ERRORS):
            path = active.directory / name
            try:
                if name == _OUTPUT or not path.stat().st_size:
                    path.unlink(missing_ok=True)
            except OSError:
                # It is in nobody's way.
                continue
        try:
            self._store.save(active.record)
        except OutputError:
            # A disk that is full has been told of already.
            if self._unwritable is None:
                raise
        if self._ended is not None:
            number = self._count - len(self._waiting) - len(self._active)
            self._ended(CellEnd(active.record, number, self._count))

    def _so_far(self) -> Progress:
        return Progress(
            total=len(self._complete) + len(self._failed) + len(self._active) + len(self._waiting),
            complete=len(self._complete),
            failed=len(self._failed),
            running=[(active.cell.name, active.process.seconds) for active in self._active],
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        """Return how long the rest will take if cells take what those of their row took."""
        took: dict[Any, list[float]] = {}
        for record in self._complete:
            wall = record["wall_seconds"]
            if wall is not None:
                key = tuple(record[name] for name in ("workload", "platform", "policy"))
                took.setdefault(key, []).append(wall)
                took.setdefault(None, []).append(wall)
        if not took:
            return None

        def expected(cell: Cell) -> float:
            found = took.get((cell.row.workload, cell.row.platform, cell.row.policy), took[None])
            return sum(found) / len(found)

        left = sum(expected(work.cell) for work in self._waiting)
        left += sum(
            max(expected(active.cell) - active.process.seconds, 0.0)
            for active in self._active
            if active.phase == "run"
        )
        return left / self._jobs


class _Active:
    """A cell on its way."""

    process: GuardedProcess

    def __init__(self, cell: Cell, directory: Path, record: CellRecord) -> None:
        self.cell = cell
        self.directory = directory
        self.record = record
        self.phase: Literal["run", "measure"] = "run"
        self.overdue = False


def _costs(directory: Path, usage: Usage) -> dict[str, float | None]:
    """Return what a run cost, as seen from outside and from within; MB are of 10^6 bytes."""
    measured: dict[str, Any] = {}
    try:
        measured = json.loads((directory / "summary.json").read_bytes())["measured"]
    except (OSError, ValueError, KeyError):
        # It is told when the metrics are computed from the same directory.
        measured = {}
    dispatcher_mb = usage.dispatcher_memory_peak / 1e6
    return {
        "process.wall_seconds": finite(usage.wall_seconds),
        "process.cpu_seconds": finite(usage.cpu_seconds),
        "process.dispatcher_seconds": measured.get("dispatcher_seconds"),
        "process.memory_mean": finite(usage.memory_mean / 1e6),
        "process.memory_peak": finite(usage.memory_peak / 1e6),
        "process.dispatcher_memory_peak": finite(dispatcher_mb) if dispatcher_mb else None,
    }


def _costs_in(record: CellRecord) -> dict[str, float | None]:
    """Return what is noted of the costs of a run; nothing before it is complete."""
    metrics = record["metrics"].items()
    return {name: value for name, value in metrics if name.startswith("process.")}


def _disk_full(directory: Path) -> bool:
    try:
        return shutil.disk_usage(directory).free < _LEAST_FREE
    except OSError:
        return False


def _reason(directory: Path) -> str:
    try:
        return str(json.loads((directory / "summary.json").read_bytes())["end"]["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _last_words(path: Path) -> str:
    """Return the last line that a process said, without our own name before it."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last.removeprefix("parley: ").strip()[:_MOST_SHOWN]
