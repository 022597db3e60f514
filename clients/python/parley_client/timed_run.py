"""Timed runs: every job is tried for a short while first, so that what fails at once is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley_client.durations import Duration, microseconds
from parley_client.easy import HeadOnNodes
from parley_client.estimates import FOREVER, estimated_end, planned_end, planned_length
from parley_client.orders import OrderLike, in_order
from parley_client.releases import Releases
from parley_client.rules import Ask, Rule, kinds_of
from parley_client.slots import OneReservation

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley_client.job import Job, RunningJob
    from parley_client.view import View


class TimedRun(Rule):
    """Give every job a short test run; one that is not over by then starts anew later, by EASY.

    A job whose estimate is no longer than the quantum runs to its end at once. Any other is
    stopped when the quantum is over, loses what it has done, and joins the main queue, which
    EASY serves. At each decision: jobs of the main queue in order, up to the first that does not
    fit; test runs, by submission, that do not delay it; the rest of the main queue, likewise.

    Args:
        order: In which order jobs of the main queue are taken.
        quantum: How long a test run is.
        interval: Decide only at multiples of this; None is at every instant.
        examine: Look at no more than so many jobs of the main queue at a time; None is all.

    Cost: O(queue * log queue) a pass.

    Source: Thebe, Bunde and Leung, Scheduling restartable jobs with short test runs, JSSPP 2009;
    that test runs respect the head's reservation is ours.
    """

    name = "timed-run"
    ask: Ask = "always"
    counts_slots = True

    def __init__(
        self,
        *,
        order: OrderLike = "fifo",
        quantum: Duration = "5m",
        interval: Duration | None = None,
        examine: int | None = None,
    ) -> None:
        super().__init__(order=order, interval=interval, examine=examine)
        self.quantum_us = microseconds(quantum, "quantum")

    # ------------------------------------------------------------------ following the view

    def _begin(self, view: View) -> None:
        self._kinds = kinds_of(view)
        self._releases = Releases()
        self._ends: dict[int, int] = {}
        # By number: until when a test run may last, and who has had one.
        self._testing: dict[int, int] = {}
        self._tested: set[int] = set()
        self._timers: set[int] = set()
        self._trying = False
        for running in view.running.values():
            # Nobody remembers which of them are test runs.
            self._tested.add(running.job.number)
            self.started(running)

    def joined(self, job: Job) -> None:
        """Count a job."""
        self._kinds.add(job)

    def left(self, job: Job) -> None:
        """Forget a job."""
        self._kinds.remove(job)

    def started(self, running: RunningJob) -> None:
        """Take note of when a job is to end, or its test run."""
        number, end = running.job.number, estimated_end(running)
        if self._trying and planned_length(running.job) > self.quantum_us:
            end = self._testing[number] = running.start_us + self.quantum_us
        self._ends[number] = end
        self._releases.add(end, running.job.chunks)

    def ended(self, running: RunningJob) -> None:
        """Forget a job."""
        self._kinds.remove(running.job)
        number = running.job.number
        self._testing.pop(number, None)
        self._releases.remove(self._ends.pop(number), running.job.chunks)

    # ------------------------------------------------------------------ deciding

    def _act(self, view: View) -> None:
        self._stop_tests(view)
        if len(view.queue):
            start, reserve = self._starters(view)
            main = [job for job in view.queue if job.number in self._tested]
            behind: list[Job] = []
            for job in in_order(main, self.order, view.now_us)[: self.examine]:
                if behind or not start(job, planned_length(job)):
                    behind.append(job)
            if behind:
                reserve(behind[0])
            self._trying = True
            for job in view.queue:
                if job.number not in self._tested:
                    start(job, min(self.quantum_us, planned_length(job)))
            self._trying = False
            for job in behind[1:]:
                start(job, planned_length(job))
        self._set_timers(view)

    def _stop_tests(self, view: View) -> None:
        for number, until in list(self._testing.items()):
            if until <= view.now_us:
                # It leaves its nodes at this very instant, which is told with the next request.
                del self._testing[number]
                self._tested.add(number)
                view.requeue(view.running[number].job)

    def _set_timers(self, view: View) -> None:
        self._timers = {at for at in self._timers if at > view.now_us}
        for at in sorted({*self._testing.values()} - self._timers):
            self._timers.add(at)
            view.wake(at)

    def _starters(self, view: View) -> tuple[Callable[[Job, int], bool], Callable[[Job], object]]:
        """Return what starts a job for so long if it may, and what keeps a place for one."""
        if not self._kinds.uniform():
            ahead = HeadOnNodes(view, end_of=self._end_of)
            return ahead.start, ahead.reserve
        shape = next(iter(view.queue)).shape
        room = OneReservation(view.cluster.available(shape), self._releases, view.now_us)

        def start(job: Job, length: int) -> bool:
            if length > room.longest(job.chunks):
                return False
            view.start(job)
            room.take(job.chunks, length)
            return True

        return start, lambda job: room.reserve(job.chunks, planned_length(job))

    def _end_of(self, running: RunningJob, now_us: int) -> int:
        """Return when a running job is taken to leave its nodes."""
        return min(self._testing.get(running.job.number, FOREVER), planned_end(running, now_us))
