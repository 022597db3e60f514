"""A dispatcher on the wire that decides at random, in process or behind a socket."""

from __future__ import annotations

import random
from typing import Any


class Whimsical:
    """Starts, rejects, kills, wakes, annotates: rightly, wrongly, and not at all.

    It knows no more than it was told, and what it does hangs on the seed and on that alone, so
    that it does the same whichever way the messages travel.
    """

    def __init__(self, seed: int, *, state: str = "events", ask: str = "always") -> None:
        self._draw = random.Random(seed)
        self._state, self._ask = state, ask
        self._pending: list[int] = []
        self._running: list[int] = []
        self._nodes = 0

    def hello(self) -> Any:
        return {
            "versions": ["1.0"],
            "client": {"name": "whimsical", "version": "0"},
            "capabilities": {"state": self._state},
            "ask": self._ask,
        }

    def begin(self, welcome: Any) -> None:
        self._nodes = welcome["platform"]["node_count"]

    def decide(self, request: Any) -> Any:
        for event in request["events"]:
            if event["kind"] == "job.submitted":
                self._pending.append(event["job"]["job"])
            elif event["kind"] == "job.ended":
                self._running = [job for job in self._running if job != event["job"]]
        decisions = [self._decision(index) for index in range(self._draw.randrange(5))]
        return {"decisions": decisions, "state_version": request["state_version"]}

    def _decision(self, index: int) -> Any:
        draw = self._draw
        job = draw.choice([*self._pending, *self._running, 0, 99])
        match draw.randrange(12):
            case 0:
                return {"id": index, "kind": "reject", "job": job}
            case 1:
                return {"id": index, "kind": "kill", "job": job}
            case 2:
                at = draw.randrange(50) * 1_000_000
                return {"id": index, "kind": "wake", "timer": draw.randrange(3), "at_us": at}
            case 3:
                return {"id": index, "kind": "annotate", "job": job, "expected_start_us": 5}
            case 4:
                return {"id": index, "kind": "dance", "job": job}
            case 5:
                first = draw.randrange(-1, self._nodes + 1)
                span = [first, first + draw.randrange(3), draw.randrange(3)]
                return {"id": index, "kind": "start", "job": job, "allocation": [[span]]}
            case _:
                if self._pending:
                    job = self._pending.pop(draw.randrange(len(self._pending)))
                    self._running.append(job)
                return {"id": index, "kind": "start", "job": job}
