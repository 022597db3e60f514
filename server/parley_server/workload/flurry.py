"""Flurries: weeks in which one user submits far more than anybody usually does.

A user's week is a flurry if all of these hold:

* it has at least `minimum` jobs (200);
* it is more than `share` of all jobs of that week (0.5);
* it is more than `factor` times the median of all users' weeks that have any job (10).

Source of the phenomenon and of cleaning by user: Feitelson and Tsafrir, Workload sanitation for
performance evaluation, ISPASS 2006. The thresholds are ours, to be set.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from parley_server.quantities import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley_server.workload.entry import Entry

WEEK = 7 * 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What makes a week a flurry; the module says how."""

    share: float = 0.5
    factor: float = 10.0
    minimum: int = 200


@dataclass(frozen=True, slots=True)
class Flurry:
    """One user's flurry, over as many weeks in a row as it lasted.

    Attributes:
        first: Instant of its first job, microseconds.
        last: Instant of its last job.
        jobs: How many.
        alike: The share of its jobs that have the size and program of its first one.
    """

    user: str
    first: int
    last: int
    jobs: int
    size: int
    application: str | None
    alike: float

    @property
    def rule(self) -> str:
        """The cleaning rule that drops it."""
        user = self.user if self.user.isalnum() else f'"{self.user}"'
        first = self.first // MICROSECONDS
        last = -(-self.last // MICROSECONDS)
        return f"user={user} and (submit>={first} and submit<={last})"


@dataclass(slots=True)
class _Week:
    """What one user submitted in one week."""

    first: int
    last: int
    size: int
    application: str | None
    jobs: int = 0
    alike: int = 0


class FlurryDetector:
    """Counts jobs by week and user; memory grows with these, not with the jobs."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()
        self._weeks: dict[int, dict[str, _Week]] = {}

    def add(self, entry: Entry) -> None:
        """Count one job; one without a user belongs to nobody."""
        if entry.user is None:
            return
        users = self._weeks.setdefault(entry.submit // WEEK, {})
        week = users.get(entry.user)
        if week is None:
            week = users[entry.user] = _Week(
                entry.submit, entry.submit, entry.size, entry.application
            )
        week.jobs += 1
        week.first = min(week.first, entry.submit)
        week.last = max(week.last, entry.submit)
        if entry.size == week.size and entry.application == week.application:
            week.alike += 1

    def flurries(self) -> list[Flurry]:
        """Return what was found, by instant of the first job, then user."""
        found: list[Flurry] = []
        counts = [week.jobs for users in self._weeks.values() for week in users.values()]
        if not counts:
            return found
        usual = median(counts)
        weeks: dict[str, list[tuple[int, _Week]]] = {}
        for number in sorted(self._weeks):
            users = self._weeks[number]
            total = sum(week.jobs for week in users.values())
            for user, week in users.items():
                if self._stands_out(week.jobs, total, usual):
                    weeks.setdefault(user, []).append((number, week))
        for user, numbered in weeks.items():
            found += _joined(user, numbered)
        return sorted(found, key=lambda flurry: (flurry.first, flurry.user))

    def _stands_out(self, jobs: int, total: int, usual: float) -> bool:
        limits = self._thresholds
        return (
            jobs >= limits.minimum and jobs > limits.share * total and jobs > limits.factor * usual
        )


def _joined(user: str, weeks: Iterable[tuple[int, _Week]]) -> list[Flurry]:
    """Return one flurry for as many weeks in a row as it lasted."""
    runs: list[list[_Week]] = []
    before = None
    for number, week in weeks:
        if before is None or number != before + 1:
            runs.append([])
        runs[-1].append(week)
        before = number
    return [
        Flurry(
            user,
            run[0].first,
            run[-1].last,
            sum(week.jobs for week in run),
            run[0].size,
            run[0].application,
            sum(week.alike for week in run) / sum(week.jobs for week in run),
        )
        for run in runs
    ]
