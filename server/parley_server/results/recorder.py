"""Writes a run's directory while the run goes on."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psutil

from parley_server.errors import OutputError, ParleyError, UsageError
from parley_server.quantities import MICROSECONDS, format_seconds
from parley_server.results.columns import (
    DECISION_COLUMNS,
    JOB_COLUMNS,
    TIMING_COLUMNS,
    instant_row,
    job_row,
    quoted,
)
from parley_server.results.rows import RowFile
from parley_server.results.spill import Spill
from parley_server.results.summary import RunDescription, counts_table, seconds, write_summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parley_server.engine import JobRecord, Simulation

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where everything of a run lies."""

    directory: Path
    jobs: Path
    decisions: Path
    timing: Path
    summary: Path
    scenario: Path
    journal: Path

    @classmethod
    def below(cls, directory: Path) -> RunFiles:
        """Return the paths of a run in *directory*."""
        return cls(
            directory,
            directory / "jobs.csv",
            directory / "decisions.csv",
            directory / "timing.csv",
            directory / "summary.json",
            directory / "scenario.toml",
            directory / "journal.jsonl",
        )

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file of a run; the journal is there only if one was wanted."""
        results = (self.jobs, self.decisions, self.timing, self.summary)
        return (*results, self.scenario, self.journal)


def prepare_directory(directory: Path, *, force: bool = False) -> RunFiles:
    """Make a directory ready for a run.

    Args:
        directory: Made if it does not exist, with those above it.
        force: Remove the files of another run that lies there; nothing else is touched.

    Raises:
        UsageError: Another run lies there, or it cannot be written.
    """
    files = RunFiles.below(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        present = [path for path in files.all if path.exists()]
        if present and not force:
            raise UsageError(
                f"{directory}: holds another run ({present[0].name}); "
                "--force replaces it, or choose another --out"
            )
        for path in present:
            path.unlink()
        probe = directory / ".parley-probe"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        raise UsageError(f"{directory}: is a file; --out takes a directory") from None
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror or error}") from None
    return files


def reopen_directory(directory: Path) -> RunFiles:
    """Make the directory of a run that broke off ready to go on; its journal stays.

    Raises:
        UsageError: No run lies there.
    """
    files = RunFiles.below(directory)
    if not files.scenario.is_file():
        raise UsageError(f"{directory}: holds no run to be resumed (no {files.scenario.name})")
    return files


class Recorder:
    """Takes what a session leaves behind and puts it into files.

    Rows come by instant of their end, then reading order; rows are held back for as long as
    another of the same instant may follow.

    Args:
        files: Where to write.
        description: What the run is of.
        resumed: The run is repeated from its journal: rows about time are kept, as it cannot be
            measured again; all others are made anew.

    Raises:
        OutputError: A file cannot be created.
    """

    def __init__(
        self, files: RunFiles, description: RunDescription, *, resumed: bool = False
    ) -> None:
        self.files = files
        self._description = description
        self._workload_name = quoted(description.workload_name)
        self._held: list[JobRecord] = []
        self._spill = Spill(files.directory)
        self._request = 0
        self._times: list[tuple[int, int, int, int, int]] = []
        self._flushed_ns = 0
        self._memory = 0
        self._closed = False
        self._process = psutil.Process()
        self._began = time.perf_counter()
        self._cpu_began = time.process_time()
        self._spent_us = {"dispatcher": 0, "server": 0, "wire": 0}
        try:
            files.scenario.write_text(description.scenario_toml, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{files.scenario}: cannot be written: {error.strerror}") from None
        self._jobs = RowFile(files.jobs, ",".join(JOB_COLUMNS))
        self._decisions = RowFile(files.decisions, ",".join(DECISION_COLUMNS))
        self._timing = RowFile(files.timing, ",".join(TIMING_COLUMNS), append=resumed)

    # ------------------------------------------------------------------ while the run goes on

    def collect(self, simulation: Simulation) -> None:
        """Take the records and instants that wait in the simulation.

        Raises:
            OutputError: They cannot be written.
        """
        held, released = self._held, []
        until = held[-1].end if held else None
        for record in simulation.take_records():
            # The end is what comes fourth; a name would cost a call.
            if record[3] != until:
                released += held if len(held) < 2 else self._in_reading_order()
                held.clear()
                until = record[3]
            held.append(record)
        self._write_jobs(released)
        self._decisions.extend([instant_row(instant) for instant in simulation.take_instants()])
        self._write_times()

    def skip_requests(self, count: int) -> None:
        """Count requests on from here: so many were answered before the run broke off."""
        self._request = count

    def timed(self, now: int, *, dispatcher_us: int, server_us: int, wire_us: int) -> None:
        """Note where the wall time of one request went."""
        self._times.append((now, dispatcher_us, server_us, wire_us, self._memory))
        self._memory = 0

    @property
    def asked(self) -> tuple[int, int]:
        """How many requests there were so far, and how long the dispatcher took, microseconds."""
        waiting = self._times
        thought_us = sum(dispatcher_us for _, dispatcher_us, *_ in waiting)
        return self._request + len(waiting), self._spent_us["dispatcher"] + thought_us

    def tick(self, clock_ns: int, simulation: Simulation) -> None:
        """Once a second, hand everything to the operating system and look at the memory.

        What the simulation still keeps is taken first: where a dispatcher thinks for long, few
        records come, and they must not wait for more.

        Raises:
            OutputError: It cannot be written.
        """
        if clock_ns - self._flushed_ns < _SECOND_NS:
            return
        self._flushed_ns = clock_ns
        self._memory = self._process.memory_info().rss
        self.collect(simulation)
        self._jobs.flush()
        self._decisions.flush()
        self._timing.flush()

    def _in_reading_order(self) -> list[JobRecord]:
        """Return the records of one instant as their rows are to come."""
        return sorted(self._held, key=lambda record: (record.job.number, record.attempt))

    def _write_jobs(self, records: Sequence[JobRecord]) -> None:
        name = self._workload_name
        # By position: of a name each of these would cost a call.
        self._spill.note(
            [(record[0].submit, record[2], record[3] if record[6] else None) for record in records]
        )
        self._jobs.extend([job_row(record, name) for record in records])

    def _write_times(self) -> None:
        times, spent = self._times, self._spent_us
        for index, part in enumerate(("dispatcher", "server", "wire"), start=1):
            spent[part] += sum(map(itemgetter(index), times))
        rows = [
            f"{request},{format_seconds(now) if now % MICROSECONDS else now // MICROSECONDS},"
            f"{dispatcher_us},{server_us},{wire_us},{memory or ''}"
            for request, (now, dispatcher_us, server_us, wire_us, memory) in enumerate(
                times, start=self._request + 1
            )
        ]
        self._request += len(times)
        times.clear()
        self._timing.extend(rows)

    # ------------------------------------------------------------------ when it is over

    def close(
        self,
        simulation: Simulation | None,
        reading: Mapping[str, Any] | None,
        failure: ParleyError | None = None,
        *,
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Write what is left, and the summary; return the summary.

        Args:
            simulation: None if the run broke off before there was one.
            reading: What became of the workload's lines so far, as `lines` and `dropped`.
            failure: Why the run broke off, if it did.
            reason: One word for how it ended, in the place of the failure's own.

        Raises:
            OutputError: Something cannot be written; the rows before are whole.
        """
        if self._closed:
            raise RuntimeError("the run is closed")
        self._closed = True
        trouble: OutputError | None = None
        try:
            self._write_rest(simulation)
        except OutputError as error:
            trouble = error
        for file in (self._jobs, self._decisions, self._timing):
            try:
                file.close()
            except OutputError as error:
                trouble = trouble or error
        ended = reason or _reason(simulation, failure or trouble)
        summary = self._summary(simulation, reading, ended, failure or trouble)
        write_summary(self.files.summary, summary)
        if trouble is not None and failure is None:
            raise trouble
        return summary

    def _write_rest(self, simulation: Simulation | None) -> None:
        if simulation is None:
            return
        self.collect(simulation)
        self._write_jobs(self._in_reading_order())
        if simulation.end is None:
            self._decisions.write(instant_row(simulation.current_instant()))
        self._write_jobs(list(simulation.unfinished()))

    def _summary(
        self,
        simulation: Simulation | None,
        reading: Mapping[str, Any] | None,
        reason: str,
        failure: ParleyError | None,
    ) -> dict[str, Any]:
        from parley_server.results.statistics import (  # noqa: PLC0415 - numpy, when it is needed
            described,
        )

        description = self._description
        statistics: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            statistics = described(self._spill)
        self._spill.close()
        makespan_us = statistics.pop("makespan_us", None)
        end: dict[str, Any] = {
            "reason": reason,
            "complete": reason == "completed",
            "simulated_time": seconds(simulation.now) if simulation else 0,
        }
        if failure is not None:
            end["message"] = str(failure)
        utilisation = {}
        if simulation is not None and makespan_us:
            utilisation = {
                kind: held / (description.capacity[kind] * makespan_us)
                for kind, held in simulation.held.items()
                # Partitions and attributes are marked as resources, and are none.
                if kind in description.capacity
            }
        return {
            "parley": dict(description.versions),
            "scenario": {"name": description.name, "digest": description.digest},
            "end": end,
            "inputs": [dict(entry) for entry in description.inputs],
            "platform": {
                "node_count": description.node_count,
                "capacity": dict(description.capacity),
                **({} if description.note is None else {"note": description.note}),
            },
            "dispatcher": dict(description.dispatcher),
            "rules": dict(description.rules),
            "lines": {},
            "dropped": {},
            **(reading or {}),
            "jobs": counts_table(simulation.counts) if simulation else {},
            **statistics,
            "makespan": seconds(makespan_us),
            "utilisation": utilisation.get(_leading(utilisation)),
            "utilisation_by_resource": utilisation,
            "measured": self._measured(simulation),
        }

    def _measured(self, simulation: Simulation | None) -> Mapping[str, Any]:
        wall = time.perf_counter() - self._began
        ended = simulation.counts.ended if simulation else 0
        return {
            "wall_seconds": round(wall, 6),
            "cpu_seconds": round(time.process_time() - self._cpu_began, 6),
            "jobs_per_second": round(ended / wall, 1) if wall else None,
            "requests": self._request,
            "dispatcher_seconds": self._spent_us["dispatcher"] / 1e6,
            "server_seconds": self._spent_us["server"] / 1e6,
            "wire_seconds": self._spent_us["wire"] / 1e6,
            "memory_bytes": self._process.memory_info().rss,
        }


def _reason(simulation: Simulation | None, failure: ParleyError | None) -> str:
    if failure is not None:
        return failure.reason
    if simulation is None or simulation.end is None:
        return "broken_off"
    return simulation.end.value


def _leading(utilisation: Mapping[str, float]) -> str:
    """Return the resource that `utilisation` is of: cores where there are any."""
    return "core" if "core" in utilisation else min(utilisation, default="")
