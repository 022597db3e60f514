"""Holds the dialogues side by side and lets the cases be judged."""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from parley_conformance.dialogue import Record
from parley_conformance.servers.hall import Hall, Host
from parley_conformance.servers.settings import PLAIN, SETTINGS, write_scenarios
from parley_conformance.stage import Broken, NotForThis, Patience, Stage, told
from parley_conformance.verdicts import Ending, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from parley_conformance.case import Case, Scene
    from parley_conformance.dialogue import Line
    from parley_conformance.process import Program


class NotJudged(Exception):
    """The kit could not judge; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case.

    Attributes:
        records: The dialogues that it was judged by.
    """

    case: Case
    finding: Finding
    records: Sequence[Record]

    @property
    def verdict(self) -> Verdict:
        """PASS and so on."""
        return self.finding.verdict

    @property
    def ending(self) -> Ending | None:
        """How the program ended after the dialogue in question."""
        return self.records[self.finding.scene].ending


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    Attributes:
        seed: Handed to the program in the welcome.
        workers: Dialogues at a time; 0 takes as many as this machine bears.
        fresh: A server is started anew for each dialogue.
        keys: Files of the server's public certificate and of the kit's own secret one.
        trace: Called with the dialogue's name and each line of it as it comes.
    """

    seed: int = 0
    workers: int = 0
    patience: Patience = field(default_factory=Patience)
    fresh: bool = False
    keys: tuple[str, str] | None = None
    trace: Callable[[str, Line], None] | None = None

    @property
    def threads(self) -> int:
        """Dialogues at a time: most of a dialogue's time is waiting for a program to start."""
        return self.workers or min(8, 2 * len(os.sched_getaffinity(0)))


class Results:
    """Judges each case as soon as its dialogues are over.

    Args:
        cases: Those to judge.
        report: Called with each result, in the order in which they come.
    """

    def __init__(self, cases: Sequence[Case], report: Callable[[Result], None]) -> None:
        self._cases = cases
        self._report = report
        self._records: dict[str, Record] = {}
        self._judged: dict[str, Result] = {}
        self._lock = threading.Lock()

    def add(self, record: Record) -> None:
        """Take in a dialogue, and judge the cases that waited for it."""
        with self._lock:
            self._records[record.scene] = record
            for case in self._cases:
                names = [scene.name for scene in case.scenes]
                if case.id in self._judged or not set(names) <= self._records.keys():
                    continue
                records = [self._records[name] for name in names]
                result = Result(case, case.verdict(records), records)
                self._judged[case.id] = result
                self._report(result)

    def in_order(self) -> list[Result]:
        """Return all results in the order of the cases."""
        return [self._judged[case.id] for case in self._cases]


def scenes_of(cases: Iterable[Case]) -> list[Scene[Any]]:
    """Return the dialogues that cases need, the longest first."""
    scenes = {scene.name: scene for case in cases for scene in case.scenes}
    return sorted(scenes.values(), key=lambda scene: -scene.weight)


def judge_dispatcher(
    program: Program,
    cases: Sequence[Case],
    options: Options,
    report: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Put a dispatcher to the test.

    Args:
        program: Started anew for each dialogue.
        cases: Of the dispatcher's side.
        options: How to run.
        report: Called with each result as it comes, from other threads too, one at a time.

    Returns:
        The results in the order of the cases.

    Raises:
        NotJudged: The program never says hello.
        NoProgram: It cannot be started.
    """
    results = Results(cases, report)
    scenes = scenes_of(cases)
    if not scenes:
        return []
    # Whoever is no dispatcher at all is told so once, and not a hundred times.
    first, rest = scenes[-1], scenes[:-1]
    record = hold_dialogue(first, program, options)
    if not any(record.of_program()):
        raise NotJudged(
            f"{record.fault or record.broke}; a dispatcher connects to {{endpoint}} in its "
            "arguments, or to PARLEY_ENDPOINT, and says hello"
        )
    results.add(record)

    def hold(scene: Scene[Stage]) -> None:
        results.add(hold_dialogue(scene, program, options))

    side_by_side([partial(hold, scene) for scene in rest], options.threads)
    return results.in_order()


def hold_dialogue(scene: Scene[Stage], program: Program, options: Options) -> Record:
    """Hold one dialogue with a dispatcher."""
    record = Record(scene.name, trace=options.trace)
    environment: Mapping[str, str] = scene.environment or {}
    stage = Stage(
        program, record, options.patience, seed=options.seed, environment=dict(environment)
    )
    try:
        with stage:
            try:
                scene.play(stage)
                stage.leave()
            except NotForThis as error:
                record.broke = str(error)
                record.note(record.broke)
            except Broken as error:
                record.broke = str(error)
                record.note(record.broke)
                # Whoever never spoke is not waited for.
                if any(record.of_program()):
                    stage.leave(failing=True)
    except Exception as error:  # noqa: BLE001 - the kit's own fault is an ERROR, never a FAIL
        record.fault = f"{type(error).__name__}: {error}"
        record.note("".join(traceback.format_exception(error)))
    record.took_ms = round((time.monotonic() - record.began) * 1000)
    return record


def side_by_side(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Carry out tasks in several threads; what one of them raises is raised here at the end."""
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    raised: list[BaseException] = []
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                raised.append(error)
                stopping.set()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(tasks)))]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while worker.is_alive():
                worker.join(0.2)
    finally:
        stopping.set()
    if raised:
        raise raised[0]


def judge_server(
    program: Program,
    cases: Sequence[Case],
    options: Options,
    scratch: Path,
    report: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Put a server to the test.

    Args:
        program: Started once for most dialogues, and anew for those that need one alone; always
            anew with `options.fresh`.
        cases: Of the server's side.
        options: How to run.
        scratch: An empty folder for scenarios, and for what the server leaves behind.
        report: Called with each result as it comes, from other threads too, one at a time.

    Returns:
        The results in the order of the cases.

    Raises:
        NotJudged: The program never answers a hello.
        NoProgram: It cannot be started.
    """
    hosts = Hosts(program, scratch, options)
    results = Results(cases, report)
    scenes = scenes_of(cases)
    if not scenes:
        return []
    with hosts.common() as host:
        hosts.require_server(host)
        shared = [scene for scene in scenes if not scene.alone and not options.fresh]
        again: list[Scene[Any]] = []

        def hold(scene: Scene[Hall]) -> None:
            record = hold_hall(scene, host, options)
            amiss = bool(record.broke or "breach" in record.facts)
            if host.alive and not (scene.timed and amiss):
                results.add(record)
            else:
                again.append(scene)

        side_by_side([partial(hold, scene) for scene in shared], options.threads)

    def hold_alone(scene: Scene[Hall]) -> None:
        with hosts.own() as host:
            results.add(hold_hall(scene, host, options))

    # A server that died under one of many dialogues is judged by each of them alone; and what
    # hangs on the clock may have gone amiss because this machine was busy with the others.
    rest = [*again, *(scene for scene in scenes if scene not in shared)]
    side_by_side([partial(hold_alone, scene) for scene in rest], options.threads)
    return results.in_order()


class Hosts:
    """Starts servers, each with a scratch folder of its own."""

    def __init__(self, program: Program, scratch: Path, options: Options) -> None:
        self._program = program
        self._scratch = scratch
        self._options = options
        self._count = 0
        self._lock = threading.Lock()
        folder = scratch / "scenarios"
        folder.mkdir()
        self._scenarios = write_scenarios(folder)

    @contextmanager
    def own(self) -> Iterator[Host]:
        """Start a server and end it."""
        with self._lock:
            self._count += 1
            folder = self._scratch / f"server-{self._count}"
        folder.mkdir()
        options = self._options
        host = Host(self._program, self._scenarios, folder, options.patience, options.keys)
        try:
            host.start()
            yield host
        finally:
            host.close()

    common = own

    def require_server(self, host: Host) -> None:
        """Find out whether it is a server at all.

        Raises:
            NotJudged: It is not.
        """
        record = Record("greeting")
        with Hall(host, record, PLAIN, self._options.patience) as hall:
            caller = hall.call()
            caller.lenient = True
            try:
                line = caller.hello()
            except Broken as error:
                raise NotJudged(
                    f"no answer to a hello at {host.endpoint}: {error}{told(host.output())}"
                ) from None
            if line.kind == "error" and line.body.get("code") == "scenario.unknown":
                raise NotJudged(
                    "it does not offer the scenario 'plain'; what it is to offer: "
                    "parley conform scenarios FOLDER"
                )


def hold_hall(scene: Scene[Hall], host: Host, options: Options) -> Record:
    """Hold one dialogue with a server."""
    record = Record(scene.name, trace=options.trace)
    try:
        with Hall(host, record, SETTINGS[scene.setting], options.patience) as hall:
            try:
                scene.play(hall)
            except Broken as error:
                record.broke = str(error)
                record.note(record.broke)
    except Exception as error:  # noqa: BLE001 - the kit's own fault is an ERROR, never a FAIL
        record.fault = f"{type(error).__name__}: {error}"
        record.note("".join(traceback.format_exception(error)))
    record.output = host.output()
    record.took_ms = round((time.monotonic() - record.began) * 1000)
    return record
