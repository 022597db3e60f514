"""What of a run is judged: all of it, or the part between its warm-up and its cool-down.

A machine that starts empty treats its first jobs better than it treats those that follow, and one
that drains wastes nodes that nobody asks for: both ends are cut off by a rule, the same for every
run that is compared. Jobs are judged that were submitted within what is left; the utilisation and
the queue are clipped to it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from parley_server.errors import UsageError
from parley_server.quantities import MICROSECONDS, parse_duration
from parley_server.results.steps import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parley_server.results.run_directory import JobTable, RunDirectory

    Reals = NDArray[np.float64]

_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")

DRAIN = "drain"
"""A cool-down that begins with the last submission."""


@dataclass(frozen=True, slots=True)
class Window:
    """A rule for what to cut off.

    Attributes:
        warmup: From the first submission on: a duration such as `24h`, or a share of the makespan
            such as `10%`.
        cooldown: Up to the last end: likewise, or `drain`, all after the last submission.

    Raises:
        UsageError: One of them is something else.
    """

    warmup: str = "0s"
    cooldown: str = "0s"

    def __post_init__(self) -> None:
        _seconds(self.warmup, 1.0)
        if self.cooldown != DRAIN:
            _seconds(self.cooldown, 1.0)

    def bounds(self, jobs: JobTable) -> tuple[float, float]:
        """Return the window over some jobs, seconds; NaN if none of them ran to an end."""
        if not np.isfinite(jobs.end).any():
            return math.nan, math.nan
        first, last = float(jobs.submit.min()), float(np.nanmax(jobs.end))
        begin = first + _seconds(self.warmup, last - first)
        if self.cooldown == DRAIN:
            return begin, float(jobs.submit.max())
        return begin, last - _seconds(self.cooldown, last - first)

    @property
    def whole(self) -> bool:
        """Whether nothing is cut off."""
        return self.cooldown != DRAIN and not (
            _seconds(self.warmup, 1.0) or _seconds(self.cooldown, 1.0)
        )

    def __str__(self) -> str:
        if self.whole:
            return "whole run"
        return f"without warm-up of {self.warmup} and cool-down of {self.cooldown}"


class Sample:
    """The judged part of a run.

    Args:
        run: The run.
        window: What to cut off; None is nothing.

    Raises:
        InputError: The run's files cannot be read.
        UsageError: Nothing is left.
    """

    def __init__(self, run: RunDirectory, window: Window | None = None) -> None:
        self.run = run
        self.window = window or WHOLE
        self.begin: float
        self.end: float
        self.begin, self.end = self.window.bounds(run.jobs)
        if self.begin >= self.end and not self.window.whole:
            raise UsageError(f"{run.path}: nothing is left of the run {self.window}")

    @cached_property
    def jobs(self) -> JobTable:
        """The jobs that ran to an end, each with its last attempt, submitted in the window."""
        table = self.run.jobs
        rows = table.ended
        if not self.window.whole:
            rows &= (table.submit >= self.begin) & (table.submit < self.end)
        return table[rows]

    def used(self, resource: str | None = None) -> Steps:
        """Return how much of a resource jobs hold over time, all attempts.

        Args:
            resource: Its name; None is the machine's leading one.

        Raises:
            UsageError: The run's rules do not tell how much of it a job holds.
        """
        table, kind = self.run.jobs, resource or self.run.leading_resource
        if kind not in table.amounts:
            known = ", ".join(sorted(table.amounts)) or "none"
            raise UsageError(
                f"{self.run.path}: how much {kind} each job holds is not recorded (known: {known})"
            )
        ran = np.isfinite(table.start)
        return Steps.of_intervals(
            table.start[ran], self._until(table.end[ran]), table.amounts[kind][ran]
        )

    @cached_property
    def queue(self) -> Steps:
        """How many jobs wait over time; rejected ones are left out."""
        begins, ends, _ = self._waiting
        return Steps.of_intervals(begins, ends, np.ones(len(begins)))

    @cached_property
    def queued_amount(self) -> Steps:
        """How much of the leading resource waits to be given over time, of jobs that ran."""
        return Steps.of_intervals(*self._waiting)

    @cached_property
    def running(self) -> Steps:
        """How many jobs run over time."""
        table = self.run.jobs
        ran = np.isfinite(table.start)
        return Steps.of_intervals(
            table.start[ran], self._until(table.end[ran]), np.ones(int(ran.sum()))
        )

    @property
    def _waiting(self) -> tuple[Reals, Reals, Reals]:
        """When each attempt waited, and for how much."""
        table = self.run.jobs
        waited = np.isfinite(table.start) | table.state.is_any("SUBMITTED")
        begins, ends = table.submit.copy(), self._until(table.start)
        if (table.attempt > 1).any():
            # Another attempt waits from the end of the one before it.
            order = np.lexsort((table.attempt, table.job_id))
            follows = order[1:][table.job_id[order[1:]] == table.job_id[order[:-1]]]
            before = order[:-1][table.job_id[order[1:]] == table.job_id[order[:-1]]]
            begins[follows] = np.fmax(begins[follows], table.end[before])
        amounts = table.amounts.get(self.run.leading_resource, np.zeros(len(table)))
        return begins[waited], ends[waited], amounts[waited]

    def _until(self, ends: Reals) -> Reals:
        """Return ends, with the end of the run for what it broke off."""
        return np.where(np.isfinite(ends), ends, self.run.end)


def _seconds(text: str, whole: float) -> float:
    """Return a duration in seconds; a share is of *whole*."""
    share = _SHARE.fullmatch(text.strip())
    if share is not None:
        return float(share[1]) / 100 * whole
    try:
        return parse_duration(text) / MICROSECONDS
    except UsageError:
        raise UsageError(
            f"{text!r} cuts off nothing; write a duration such as 24h, a share such as 10%, or "
            f"{DRAIN} for a cool-down"
        ) from None


WHOLE = Window()
"""Nothing is cut off."""
