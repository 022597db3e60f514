"""An experiment from Python: what `parley experiment` does.

from parley_server import Experiment

experiment = Experiment(
    "seth",
    workloads=["HPC2N-2002-2.2-cln.swf.gz"],
    platforms=[240],
    policies=["fifo", "sjf", "ljf", "easy"],
    allocators=["first-fit", "best-fit"],
)
result = experiment.run(jobs=2)
print(result.table().text())
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import UsageError
from parley_server.experiments.definition import definition_of, read_definition
from parley_server.experiments.grid import cells_of
from parley_server.experiments.lock import DirectoryLock
from parley_server.experiments.result import DRAWN, ExperimentResult
from parley_server.experiments.runner import Runner, Work, analysis_digest
from parley_server.experiments.store import CELLS, RECORD, Store, read_record
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from parley_server.experiments.definition import ExperimentSettings
    from parley_server.experiments.grid import Cell
    from parley_server.experiments.runner import CellEnd, Progress
    from parley_server.experiments.store import CellRecord


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be done in a directory.

    Attributes:
        cells: All cells.
        work: Those that are to run, or to be measured anew.
        complete: Records of those that need nothing.
        changed: Names of complete cells that were of other settings; they are to run again.
        older: Names of complete cells that another version of Parley ran.
    """

    cells: Sequence[Cell]
    work: Sequence[Work]
    complete: Sequence[CellRecord]
    changed: Sequence[str]
    older: Sequence[str]


class Experiment:
    """A grid of cells and where they go.

    Args:
        name: What it is called; also the name of its directory.
        workloads: Files, or tables of a scenario's workload settings with a name.
        platforms: Numbers of nodes, files, or tables of a scenario's platform settings.
        policies: Names, `FILE.py:NAME`, or tables with policy, parameters, name and so on. Cells
            are processes of their own, so an object cannot be passed.
        allocators: Each goes with each policy.
        commands: Dispatchers of one's own, by name.
        seeds: For all that is random.
        repetitions: How often the same is done again, to measure its cost.
        out: Where everything goes, in the place of a directory by the name.
        time_limit: Seconds, or text such as `4h`: after that a cell is taken to hang.
        scenario: Tables of a scenario that all cells share: `{"run": {"on_overrun": "kill"}}`.
        analysis: `warmup`, `cooldown` and `metrics`, as in a file.

    Raises:
        UsageError: A setting is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        workloads: Sequence[Any] | None = None,
        platforms: Sequence[Any] | None = None,
        policies: Sequence[Any] = (),
        allocators: Sequence[str] = ("first-fit",),
        commands: Mapping[str, Sequence[str]] | None = None,
        seeds: Sequence[int] = (0,),
        repetitions: int = 1,
        out: str | Path | None = None,
        time_limit: str | int = "24h",
        scenario: Mapping[str, Any] | None = None,
        analysis: Mapping[str, Any] | None = None,
    ) -> None:
        self._tables: dict[str, Any] = {
            "name": name,
            "time_limit": time_limit,
            "scenario": dict(scenario or {}),
            "analysis": dict(analysis or {}),
        }
        if out is not None:
            self._tables["out"] = str(out)
        self._grid: dict[str, Any] = {
            "policies": _texts(policies),
            "allocators": list(allocators),
            "commands": [
                {"name": label, "command": list(command)}
                for label, command in (commands or {}).items()
            ],
            "seeds": list(seeds),
            "repetitions": repetitions,
        }
        if workloads is not None:
            self._grid["workloads"] = _texts(workloads)
        if platforms is not None:
            self._grid["platforms"] = _texts(platforms)
        self._folder = Path.cwd()
        self._read: ExperimentSettings | None = None
        self._source = "experiment"

    @classmethod
    def read(cls, path: str | Path, *, out: str | Path | None = None) -> Experiment:
        """Return the experiment that a TOML file describes.

        Args:
            path: The file.
            out: Where everything goes, in the place of what the file says.

        Raises:
            InputError: It cannot be read.
            UsageError: A setting is wrong.
        """
        read = read_definition(Path(path))
        if out is not None:
            read = read.model_copy(update={"out": str(Path(out).absolute())})
        experiment = cls(read.name)
        experiment._read, experiment._source = read, str(path)
        return experiment

    def add_policies(self, policies: Sequence[Any], allocators: Sequence[str]) -> None:
        """Add every combination of some policies and allocators.

        Raises:
            UsageError: The experiment was read from a file.
        """
        tables = [
            {**({"policy": policy} if isinstance(policy, str) else policy)} for policy in policies
        ]
        self._mine("policies").extend({**table, "allocators": list(allocators)} for table in tables)

    def add_command(self, name: str, command: Sequence[str]) -> None:
        """Add a dispatcher in a process of its own.

        Raises:
            UsageError: The experiment was read from a file.
        """
        self._mine("commands").append({"name": name, "command": list(command)})

    @property
    def settings(self) -> ExperimentSettings:
        """All settings.

        Raises:
            UsageError: One is wrong.
        """
        if self._read is not None:
            return self._read
        tables = {**self._tables, "grid": self._grid}
        tables.setdefault("out", self._tables["name"])
        return definition_of(tables, self._folder)

    @property
    def directory(self) -> Path:
        """Where everything goes."""
        return self.settings.directory

    def outlook(self) -> Outlook:
        """Find out what is to be done; nothing runs and nothing is written.

        Raises:
            UsageError: A name in the grid stands for nothing.
            InputError: A file cannot be read.
        """
        settings = self.settings
        return _outlook(settings, cells_of(settings, source=self._source))

    def run(
        self,
        *,
        jobs: int = 1,
        force: bool = False,
        plots: bool = True,
        begun: Callable[[Outlook], None] | None = None,
        ended: Callable[[CellEnd], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
        poll: Callable[[], None] | None = None,
    ) -> ExperimentResult:
        """Run all cells that are not complete, then write the tables and the plots.

        Args:
            jobs: How many cells at a time.
            force: Run cells again that are complete but of other settings.
            plots: Draw them.
            begun: Is told what is to be done, before the first cell runs.
            ended: Is told of each cell that has ended.
            progress: Is told a few times a second how far it is.
            poll: Called many times a second; what it raises ends the experiment.

        Returns:
            What there is. Cells that failed are among its `records`; a run of another time tries
            them again.

        Raises:
            UsageError: A name in the grid stands for nothing, another experiment runs in the
                directory, or complete cells are of other settings.
            InputError: A file cannot be read.
            OutputError: Results cannot be written.
        """
        if jobs < 1:
            raise UsageError(f"{jobs} cells at a time are none; jobs is 1 at least")
        settings = self.settings
        # Whatever is wrong is told before there is a directory.
        cells = cells_of(settings, source=self._source)
        with DirectoryLock(settings.directory) as lock:
            outlook = _outlook(settings, cells)
            self._require_unchanged(outlook, force=force)
            if begun is not None:
                begun(outlook)
            with Store(settings.directory, create=True) as store:
                facts = {"name": settings.name, "parley": __version__}
                facts["definition"] = settings.model_dump_json()
                store.define(outlook.cells, facts, parley=__version__)
                runner = Runner(
                    store,
                    settings.analysis,
                    lock=lock.descriptor,
                    jobs=jobs,
                    time_limit=settings.time_limit_s,
                    already=outlook.complete,
                    ended=ended,
                    progress=progress,
                    poll=poll,
                )
                runner.run(outlook.work)
            result = ExperimentResult(settings.directory)
            result.write_tables()
            if plots and not result.drawn:
                result.draw(poll=poll)
                with Store(settings.directory) as store:
                    store.note_fact(DRAWN, result.content)
        return result

    def _require_unchanged(self, outlook: Outlook, *, force: bool) -> None:
        """Refuse to replace what was computed.

        Raises:
            UsageError: Complete cells are of other settings, and *force* was not said.
        """
        if outlook.changed and not force:
            shown = ", ".join(outlook.changed[:3]) + (", ..." if outlook.changed[3:] else "")
            raise UsageError(
                f"{self.directory}: {len(outlook.changed)} of {len(outlook.cells)} cells are "
                f"complete, but of other settings, inputs or code ({shown}); --force runs them "
                "again, another --out keeps both"
            )

    def _mine(self, axis: str) -> list[Any]:
        if self._read is not None:
            raise UsageError("the experiment was read from a file; what it runs stands there")
        entries: list[Any] = self._grid[axis]
        return entries


def _outlook(settings: ExperimentSettings, cells: Sequence[Cell]) -> Outlook:
    """Return what is to be done of some cells, by what their directories say."""
    analysis = analysis_digest(settings.analysis)
    work, complete, changed, older = [], [], [], []
    for cell in cells:
        record = read_record(settings.directory / CELLS / cell.name / RECORD)
        # A run may be complete although its metrics failed.
        if record is None or not record["jobs_sha256"]:
            work.append(Work(cell))
            continue
        if record["digest"] != cell.digest:
            changed.append(cell.name)
            work.append(Work(cell))
            continue
        if record["parley"] != __version__:
            older.append(cell.name)
        if record["status"] == "complete" and record["analysis"] == analysis:
            complete.append(record)
        else:
            work.append(Work(cell, record))
    return Outlook(cells, work, complete, changed, older)


def _texts(entries: Sequence[Any]) -> list[Any]:
    """Return entries as a file has them: a path is text."""
    for entry in entries:
        if not isinstance(entry, str | int | dict | Path):
            raise UsageError(
                f"{type(entry).__name__} is no entry of a grid: cells are processes of their own; "
                "name a policy by FILE.py:NAME"
            )
    return [str(entry) if isinstance(entry, Path) else entry for entry in entries]
