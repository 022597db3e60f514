"""Sessions on a socket from an offer alone: no files, no scenario, no service."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack

from parley_conformance import ScriptedDispatcher
from parley_conformance.peer import NoAnswer
from parley_server.engine import ListSource, NodeGroup
from parley_server.errors import RunFailed
from parley_server.host.conduct import Conduct
from parley_server.host.router import Router
from parley_server.host.session import Offer, Session
from tests.scheduling import RULES, Kept
from tests.serving import wait_until
from tests.support import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from parley_server.errors import ParleyError

JOBS = [(0, 2, 10, 20), (5, 2, 10, 20), (6, 3, 10, 20), (40, 4, 10, 20)]
"""Submission, nodes, runtime, walltime; on four nodes the third job waits for the first."""

HASTE_US = 150_000
"""A deadline that a test can wait for, and an honest answer on a busy machine seldom misses."""


@dataclass
class HostedRun:
    """A session as the router hosts it, and how it ended."""

    session: Session
    sink: Kept
    transcript: None = None
    ended: bool = False
    failure: ParleyError | None = None

    def finished(self, failure: ParleyError | None) -> None:
        self.failure = failure
        self.ended = True


@dataclass
class Live:
    """A server in a thread of its own.

    Attributes:
        runs: Of each session, in order.
    """

    offer: Offer
    endpoint: str = ""
    runs: list[HostedRun] = field(default_factory=list)

    def open_hosted(self, hello: Any) -> HostedRun:
        sink = Kept()
        self.runs.append(HostedRun(Session(self.offer, sink), sink))
        return self.runs[-1]

    def reason(self, number: int = 0) -> str:
        """Return why a session failed, once it is over; `completed` if it did not."""
        assert wait_until(lambda: self.runs[number].ended)
        failure = self.runs[number].failure
        return "completed" if failure is None else failure.reason

    def records(self, number: int = 0) -> list[tuple[str, int | None, int | None, Any]]:
        """Return what became of each job, once the session is over."""
        assert wait_until(lambda: self.runs[number].ended)
        run = self.runs[number]
        run.sink.collect(run.session.simulation)
        return [(r.job.name, r.start, r.end, r.allocation) for r in run.sink.records]


@contextmanager
def hosting(
    conduct: Conduct | None = None,
    jobs: Sequence[Sequence[Any]] = JOBS,
    *,
    nodes: int = 4,
    at_once: int | None = None,
    **offered: Any,
) -> Iterator[Live]:
    offer = Offer(
        name="live",
        digest="0",
        rules=RULES,
        groups=[NodeGroup("n", nodes, {"core": 1})],
        open_source=lambda: ListSource(jobs_of(jobs)),
        conduct=conduct or Conduct(),
        audit=True,
        **offered,
    )
    live = Live(offer)
    router = Router("tcp://127.0.0.1:*", live.open_hosted, at_once=at_once)
    live.endpoint = router.endpoint
    stopping = threading.Event()
    faults: list[BaseException] = []

    def look() -> None:
        if stopping.is_set():
            raise KeyboardInterrupt

    def run() -> None:
        try:
            router.run(look)
        except KeyboardInterrupt:
            router.fail_all(RunFailed("interrupted", "the test is over"))
        except BaseException as error:  # noqa: BLE001 - whatever ends a server is for the test
            faults.append(error)
        finally:
            router.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield live
    finally:
        stopping.set()
        thread.join(60)
    assert not faults


class JsonDispatcher(ScriptedDispatcher):
    """A dispatcher that says the same as JSON."""

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any]:
        if not self._socket.poll(self._timeout_ms):
            raise NoAnswer("no answer in time")
        message: dict[str, Any] = json.loads(self._socket.recv_multipart()[-1])
        self.seq = message.get("seq") or self.seq
        if message["type"] == "welcome":
            self.session = {"session": message["session"], "epoch": message["epoch"]}
        return message


def is_silent(peer: ScriptedDispatcher, seconds: float) -> bool:
    """Whether the server says nothing for so long."""
    return not peer._socket.poll(round(seconds * 1000))


def raw(message: Mapping[str, Any]) -> bytes:
    return msgpack.packb(message)
