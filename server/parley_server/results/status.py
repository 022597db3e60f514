"""How a run stands while it goes on: what its directory says of it, and whoever watches it reads.

It is written over once a second and is gone when the run is over; nothing that is simulated
depends on it, and nothing of the run's results is in it alone.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any, NotRequired

import psutil
from typing_extensions import TypedDict

from parley_server.errors import InputError
from parley_server.results.summary import counts_table, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from parley_server.engine import Cluster, Simulation
    from parley_server.results.summary import RunDescription

STATUS_NAME = "status.json"
"""What the file is called in a run's directory."""


class ResourceStatus(TypedDict):
    """One resource of the machine: amounts, of all nodes together."""

    held: int
    in_service: int
    capacity: int


class RefusalStatus(TypedDict):
    """A decision that was refused."""

    instant: float
    decision: int
    code: str
    message: str


class RequestStatus(TypedDict):
    """How often the dispatcher was asked, and how long it took lately; null: it was not asked."""

    count: int
    latency_us: float | None


class ProcessStatus(TypedDict):
    """The process that simulates."""

    host: str
    pid: int
    began: float
    wall_seconds: float
    cpu_seconds: float
    memory_bytes: int


class Status(TypedDict):
    """The content of `status.json`.

    Times are seconds; `written` and `process.began` are Unix time. `lately` is over the time since
    the status before: jobs that ended and simulated seconds, each for a second of wall time.
    """

    name: str
    directory: str
    dispatcher: dict[str, Any]
    written: float
    simulated_time: float
    workload_exhausted: bool
    jobs: dict[str, int]
    lately: dict[str, float]
    resources: dict[str, ResourceStatus]
    requests: RequestStatus
    process: ProcessStatus
    refused: int
    refusals: list[RefusalStatus]
    end: NotRequired[str]


class StatusFile:
    """Tells once in a while how a run stands.

    Args:
        directory: Of the run.
        description: What is run.
        publish: Is given each status as well.
    """

    def __init__(
        self,
        directory: Path,
        description: RunDescription,
        *,
        publish: Callable[[Status], None] | None = None,
    ) -> None:
        self.path = directory / STATUS_NAME
        self._scratch = directory / f"{STATUS_NAME}.part"
        self._directory = str(directory.absolute())
        self._description = description
        self._publish = publish
        self._process = psutil.Process()
        self._host = socket.gethostname()
        self._began = time.perf_counter()
        self._before = _Progress(self._began)
        self._usable = True
        self.remove()

    def write(
        self,
        simulation: Simulation,
        *,
        requests: int,
        dispatcher_us: int,
        refused: int,
        refusals: Iterable[tuple[int, int, str, str]],
        end: str | None = None,
    ) -> None:
        """Put the status in the place of the one before, if there is room for it.

        Args:
            simulation: How it stands.
            requests: How often the dispatcher was asked so far.
            dispatcher_us: How long it took in all.
            refused: How many of its replies held a decision that was refused.
            refusals: The last of those: instant, the decision's id, code, and message.
            end: Why the run is over, if it is.
        """
        status = self._status(simulation, requests, dispatcher_us)
        status["refused"] = refused
        status["refusals"] = [
            {"instant": seconds(at) or 0, "decision": name, "code": code, "message": text}
            for at, name, code, text in refusals
        ]
        if end is not None:
            status["end"] = end
        elif self._usable:
            try:
                self._scratch.write_text(json.dumps(status) + "\n", encoding="utf-8")
                self._scratch.replace(self.path)
            except OSError:
                # Results go on as long as they can; that nobody can watch is no reason to end.
                self._usable = False
        if self._publish is not None:
            self._publish(status)

    def remove(self) -> None:
        """Take the file away; the run is over, or has not begun."""
        for path in (self.path, self._scratch):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                # Where nothing can be removed, nothing could be written.
                self._usable = False

    def _status(self, simulation: Simulation, requests: int, dispatcher_us: int) -> Status:
        counts, clock = simulation.counts, time.perf_counter()
        now = _Progress(clock, counts.ended, simulation.now, requests, dispatcher_us)
        lately, latency = now.since(self._before)
        self._before = now
        description = self._description
        return {
            "name": description.name,
            "directory": self._directory,
            "dispatcher": dict(description.dispatcher),
            "written": time.time(),
            "simulated_time": seconds(simulation.now) or 0,
            "workload_exhausted": simulation.exhausted,
            "jobs": {**counts_table(counts), "ended": counts.ended},
            "lately": lately,
            "resources": _resources(simulation.cluster, description.capacity),
            "requests": {"count": requests, "latency_us": latency},
            "process": {
                "host": self._host,
                "pid": os.getpid(),
                "began": self._process.create_time(),
                "wall_seconds": round(clock - self._began, 3),
                "cpu_seconds": round(time.process_time(), 3),
                "memory_bytes": self._process.memory_info().rss,
            },
            "refused": 0,
            "refusals": [],
        }


class _Progress:
    """How far a run was at an instant of wall time."""

    def __init__(
        self, clock: float, ended: int = 0, now: int = 0, requests: int = 0, spent_us: int = 0
    ) -> None:
        self._clock = clock
        self._ended = ended
        self._now = now
        self._requests = requests
        self._spent_us = spent_us

    def since(self, before: _Progress) -> tuple[dict[str, float], float | None]:
        """Return what was done for each second since then, and how long one reply took."""
        passed = max(self._clock - before._clock, 1e-6)
        lately = {
            "jobs_per_second": (self._ended - before._ended) / passed,
            "simulated_per_second": (self._now - before._now) / 1e6 / passed,
        }
        asked = self._requests - before._requests
        spent = self._spent_us - before._spent_us
        return lately, spent / asked if asked else None


def _resources(cluster: Cluster, capacity: Mapping[str, int]) -> dict[str, ResourceStatus]:
    """Return how much of each resource is held; what only marks partitions is none."""
    return {
        kind: {
            "held": cluster.in_service[number] - cluster.free[number],
            "in_service": cluster.in_service[number],
            "capacity": cluster.capacity[number],
        }
        for number, kind in enumerate(cluster.kinds)
        if kind in capacity
    }


def read_status(path: Path) -> Status | None:
    """Return what a status file says; None if it is not there.

    Raises:
        InputError: It cannot be read, or is none.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return parse_statuses(content, source=str(path), many=False)[0]


def parse_statuses(content: bytes, *, source: str, many: bool) -> list[Status]:
    """Return the status in a JSON text, or all of an array of them.

    Raises:
        InputError: The text is something else.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - a run only writes them

    try:
        if many:
            return TypeAdapter(list[Status]).validate_json(content)
        return [TypeAdapter(Status).validate_json(content)]
    except ValidationError:
        raise InputError(f"{source}: not the status of a run") from None


def still_there(status: Status) -> bool:
    """Whether the process that wrote a status is alive, as far as this machine can tell."""
    process = status["process"]
    if process["host"] != socket.gethostname():
        return True
    try:
        found = psutil.Process(process["pid"])
        # Numbers of processes are used again.
        return abs(found.create_time() - process["began"]) < 1 and found.is_running()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
