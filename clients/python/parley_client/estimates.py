"""How long a policy takes a job to last: the rules for what an estimate leaves open, once.

* A job without a limit lasts for ever. Whoever waits for its nodes waits for an instant that
  never comes, before which every job with a limit is over, and none without.
* An estimate of zero counts as one second: a job that took no time at all would not keep any
  other from its nodes, however many of them start at once.
* A job that runs beyond its estimate is overdue, and ends one second from now, whenever that is
  asked; so does one whose estimate is zero, from the instant of its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley_client.job import Job, RunningJob

SECOND_US = 1_000_000

NEVER = 1 << 61
"""When a job without limit ends: an instant later than any of a simulation, microseconds."""

FOREVER = 1 << 62
"""How long a job without limit lasts: beyond `NEVER`, whenever it starts, microseconds."""


def planned_length(job: Job) -> int:
    """Return for how long a job is to have its nodes, microseconds; `FOREVER` without limit."""
    walltime = job.walltime_us
    if walltime is None:
        return FOREVER
    return walltime or SECOND_US


def estimated_end(running: RunningJob) -> int:
    """Return the instant at which its walltime is over, be it past; `NEVER` without limit."""
    walltime = running.job.walltime_us
    return NEVER if walltime is None else running.start_us + walltime


def planned_end(running: RunningJob, now_us: int) -> int:
    """Return when a running job is taken to end: always after now."""
    end = estimated_end(running)
    return end if end > now_us else now_us + SECOND_US
