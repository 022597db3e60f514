"""A standing server in this process or another, and an honest dispatcher for it."""

from __future__ import annotations

import gc
import subprocess
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from parley_conformance import ScriptedDispatcher
from parley_protocol.codec import read_server_message
from parley_server.api import load_scenario
from parley_server.service import Service
from tests.support import PARLEY, summary_of, write_swf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from parley_server.errors import ParleyError

PATIENCE = 10.0
SECOND = 1_000_000

JOBS = [(0, 10, 2, 20), (5, 10, 2, 20), (6, 10, 3, 20), (40, 10, 4, 20)]
"""On four nodes the third job waits for the first."""


class Server:
    """A standing server in a thread of its own."""

    def __init__(self, folder: Path, scenarios: Sequence[Any], **options: Any) -> None:
        self.out = folder / "served"
        self.ended: dict[str, ParleyError | None] = {}
        self.fault: BaseException | None = None
        self._stop = threading.Event()
        self._service = Service(
            scenarios,
            "tcp://127.0.0.1:*",
            self.out,
            report=lambda directory, failure: self.ended.update({directory.name: failure}),
            poll=self._poll,
            **options,
        )
        self.endpoint = self._service.endpoint
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        del self._service

    def wait_for(self, *names: str) -> None:
        """Wait until the results of these runs are written."""
        wait_until(lambda: set(names) <= self.ended.keys() or self.fault is not None)
        assert self.fault is None
        assert set(names) <= self.ended.keys()

    def reason(self, name: str = "1") -> str:
        """Return why a run ended, once its results are written."""
        self.wait_for(name)
        reason: str = summary_of(self.out / name)["end"]["reason"]
        return reason

    def jobs_csv(self, name: str = "1") -> bytes:
        """Return the rows of a run that is complete."""
        assert self.reason(name) == "completed"
        return (self.out / name / "jobs.csv").read_bytes()

    def _poll(self) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _run(self) -> None:
        try:
            self._service.run()
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever ends a server is for the test
            self.fault = error


def scenario_on(
    folder: Path, jobs: Sequence[Any] = JOBS, *, nodes: int = 4, name: str = "small", **run: Any
) -> Any:
    trace = write_swf(folder / f"{name}.swf", jobs)
    settings: dict[str, Any] = {
        "platform": {"nodes": nodes},
        "workload": {"swf": str(trace)},
        "run": {"name": name, **run},
    }
    return load_scenario(None, settings)


@contextmanager
def serving(folder: Path, *scenarios: Any, **options: Any) -> Iterator[Server]:
    server = Server(folder, scenarios or [scenario_on(folder)], **options)
    try:
        yield server
    finally:
        server.close()
        # What stays open is to be found here, not in the midst of another test.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    assert server.fault is None


@contextmanager
def serve_command(
    folder: Path, *more: str, deadline: str = "60s", jobs: Sequence[Any] = JOBS, **options: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command `parley serve` as a child process, and where it listens."""
    write_swf(folder / "small.swf", jobs)
    scenario = folder / "small.toml"
    scenario.write_text(
        '[platform]\nnodes = 1000\n[workload]\nswf = "small.swf"\n'
        f'[run]\nname = "small"\ndeadline = "{deadline}"\n'
    )
    arguments = ["serve", str(scenario), "--bind", "tcp://127.0.0.1:*", "--out", folder / "served"]
    process = subprocess.Popen(
        [*PARLEY, *map(str, arguments), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix("listening at ").strip()
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


# ---------------------------------------------------------------------- an honest dispatcher

SNAPSHOT = {"capabilities": {"state": "snapshot"}}


def decide(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Start what fits, strictly in order, from nothing but the state in the request."""
    state = request["body"]["state"]
    free = sum((last - first + 1) * amounts["core"] for first, last, amounts, _ in state["nodes"])
    decisions = []
    for job in state["pending"]:
        free -= sum(group["chunks"] for group in job["request"])
        if free < 0:
            break
        decisions.append({"kind": "start", "job": job["job"]})
    return decisions


def go_on(peer: ScriptedDispatcher, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Decide to the end; return the requests, and the last message."""
    messages = [request]
    while messages[-1]["type"] == "decision.request":
        messages.append(peer.reply(messages[-1], decide(messages[-1])))
    return messages


def instants(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [
        message["body"]["now_us"] // SECOND
        for message in messages
        if message["type"] == "decision.request"
    ]


def assert_completes(peer: ScriptedDispatcher, request: dict[str, Any]) -> None:
    end = go_on(peer, request)[-1]
    assert end["type"] == "session.end"
    assert end["body"]["reason"] == "completed"
    assert end["body"]["stats"]["completed"] == len(JOBS)


def assert_refused(
    answer: Mapping[str, Any], code: str, *, fatal: bool = False, path: str | None = None
) -> None:
    """The answer is an error of this code, and itself a message of the protocol."""
    read_server_message(dict(answer))
    assert answer["type"] == "error"
    assert answer["body"]["code"] == code
    assert answer["body"]["fatal"] is fatal
    if path is not None:
        assert answer["body"].get("path") == path
