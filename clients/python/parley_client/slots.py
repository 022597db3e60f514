"""Where nodes are slots: all jobs ask for the same chunk, and counting says what fits.

Chunks that take whole nodes of the same kinds are the same chunk too. As long as only such jobs
are about, pending and running, a job fits if and only if as many slots are free as it asks for
chunks, wherever they are; as soon as another is among them, only looking at the nodes can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from parley_client.estimates import FOREVER, NEVER, SECOND_US
from parley_client.plan import Steps

if TYPE_CHECKING:
    from parley_client.cluster import Cluster
    from parley_client.job import Job, Shape
    from parley_client.releases import Releases

Kind: TypeAlias = "Shape | tuple[bool, ...]"


class SlotKinds:
    """The kinds of slots that jobs ask for, each with how many jobs do; all costs O(1)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kinds: dict[Shape, Kind] = {}
        self._counts: dict[Kind, int] = {}

    @property
    def only(self) -> Kind | None:
        """The kind that all jobs ask for, or None if there are several or none."""
        return next(iter(self._counts)) if len(self._counts) == 1 else None

    def uniform(self) -> bool:
        """Return whether all jobs ask for the same kind of slot, so that slots can be counted."""
        return len(self._counts) <= 1

    def add(self, job: Job) -> None:
        """A job is pending or running that was not."""
        kind = self._kind(job.shape)
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def remove(self, job: Job) -> None:
        """A job is neither pending nor running any more."""
        kind = self._kind(job.shape)
        left = self._counts[kind] - 1
        if left:
            self._counts[kind] = left
        else:
            del self._counts[kind]

    def _kind(self, shape: Shape) -> Kind:
        kind = self._kinds.get(shape)
        if kind is None:
            if not shape.exclusive:
                return shape
            kind = self._kinds[shape] = self._cluster.kinds_of_nodes(shape)
        return kind


class FreeSlots:
    """Room without any reservation: whatever is free now may be used for ever."""

    def __init__(self, free: int) -> None:
        self.free = free

    def longest(self, slots: int) -> int:
        """Return `FOREVER` if so many are free, else a negative number."""
        return FOREVER if slots <= self.free else -1

    def take(self, slots: int, length: int) -> None:  # noqa: ARG002 - a room's signature
        """A job of so many slots starts."""
        self.free -= slots


class OneReservation:
    """Room beside the reservation of one job, the head: EASY's shadow time and extra slots.

    Attributes:
        free: Slots free now.
        extra: Slots that will be left at the shadow time when the head has started.
    """

    def __init__(self, free: int, releases: Releases, now: int) -> None:
        self.free = free
        self.extra = free
        self.shadow_us = FOREVER
        self._releases = releases
        self._now = now
        self._until_shadow = FOREVER

    def stands_at(self, now: int) -> bool:
        """Move on to an instant; whether the reservation is still that of a pass made there.

        It is if no job has ended or started but by `take`, unless one is overdue by then that the
        head may wait for: such a job is taken to end a second later whenever one looks. Nor is one
        that only jobs without limit make room for: whatever else starts without limit is taken to
        end with them.
        """
        self._now = now
        self._until_shadow = self.shadow_us - now
        if self._until_shadow > SECOND_US:
            return self.shadow_us < NEVER
        return not self._releases.overdue(now)

    def longest(self, slots: int) -> int:
        """Return how long a job of so many slots may be to start now without delaying the head."""
        if slots > self.free:
            return -1
        return FOREVER if slots <= self.extra else self._until_shadow

    def take(self, slots: int, length: int) -> None:
        """A job starts."""
        self.free -= slots
        if length > self._until_shadow:
            self.extra -= slots

    def reserve(self, slots: int, length: int) -> None:  # noqa: ARG002 - a room's signature
        """Keep slots for the head, which does not fit now, as soon as there are enough."""
        self.shadow_us, self.extra = self._releases.earliest(slots - self.free, self._now)
        self._until_shadow = self.shadow_us - self._now


class ManyReservations:
    """Room beside the reservations of several jobs: a profile of what is free when.

    With one reservation it says what `OneReservation` says: what is left at the shadow time is
    the least that is left from then on.
    """

    def __init__(self, free: int, releases: Releases, now: int) -> None:
        self.free = free
        self._releases = releases
        self._now = now
        self._steps: Steps | None = None

    def longest(self, slots: int) -> int:
        """Return how long so many slots are free from now on."""
        if slots > self.free:
            return -1
        return FOREVER if self._steps is None else self._steps.free_for(slots)

    def take(self, slots: int, length: int) -> None:
        """A job starts."""
        self.free -= slots
        if self._steps is not None:
            self._steps.change(self._now, min(self._now + length, FOREVER), -slots)

    def reserve(self, slots: int, length: int) -> None:
        """Keep slots for a job as soon as there are enough for as long as it takes."""
        if self._steps is None:
            self._steps = self._profile()
        start = self._steps.earliest(slots, length, self._now)
        if start < FOREVER:
            self._steps.change(start, min(start + length, FOREVER), -slots)

    def _profile(self) -> Steps:
        steps = Steps(self._now, self.free)
        for end, slots in self._releases.items(self._now):
            steps.change(end, FOREVER, slots)
        return steps
