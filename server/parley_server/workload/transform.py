"""Workloads made of workloads: repeated, compressed in time, merged, renumbered.

Everything is a stream of entries; nothing is held but what the next line needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from parley_server.errors import InputError
from parley_server.quantities import MICROSECONDS
from parley_server.workload.entry import MOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from fractions import Fraction

    from parley_server.workload.entry import Entry

DAY = 86_400 * MICROSECONDS
_LATEST = MOST_SECONDS * MICROSECONDS


@dataclass(slots=True)
class _Extent:
    """What the first copy of a workload takes up."""

    first: int | None = None
    last: int = 0
    highest: int = 0

    def add(self, entry: Entry) -> None:
        if self.first is None:
            self.first = entry.submit
        self.last = entry.submit
        if type(entry.name) is int and entry.name > self.highest:
            self.highest = entry.name

    @property
    def period(self) -> int:
        """How much later the next copy begins: the span, rounded up to whole days.

        So the hours of a day stay where they are; a workload of one instant repeats daily.
        """
        span = self.last - (self.first or 0)
        return max(-(-(span + 1) // DAY), 1) * DAY


def tiled(
    read: Callable[[], Iterable[Entry]], *, jobs: int | None = None, times: int | None = None
) -> Iterator[Entry]:
    """Yield a workload again and again, each copy later than the one before.

    Args:
        read: Gives the entries from the start, at every call.
        jobs: End after so many.
        times: End after so many copies.

    Raises:
        InputError: There is nothing to repeat, or it would go beyond all time.
    """
    extent, given = _Extent(), 0
    for entry in read():
        if given == jobs:
            return
        extent.add(entry)
        given += 1
        yield entry
    if extent.first is None:
        raise InputError("there is no job to repeat")
    copy, shift, step = 1, extent.period, extent.highest + 1
    while (times is None or copy < times) and given != jobs:
        later, number = copy * shift, copy * step
        if extent.last + later > _LATEST:
            raise InputError(f"copy {copy + 1} would be submitted beyond {MOST_SECONDS} s")
        for entry in read():
            if given == jobs:
                return
            given += 1
            yield _moved(entry, later, number, copy)
        copy += 1


def _moved(entry: Entry, later: int, number: int, copy: int) -> Entry:
    name, preceding = entry.name, entry.preceding
    # As _replace does it, in a third of the time: a tile has millions of these.
    return type(entry)._make(
        (
            name + number if type(name) is int else f"{name}+{copy}",
            entry.submit + later,
            *entry[2:13],
            preceding + number if preceding > 0 else preceding,
            *entry[14:],
        )
    )


def scaled(entries: Iterable[Entry], load: Fraction) -> Iterator[Entry]:
    """Yield the jobs in a span that is divided by *load*: so many times as much work a day.

    The first submission stays where it is; all later ones come closer to it.

    Raises:
        InputError: A submission would come beyond all time.
    """
    first: int | None = None
    for entry in entries:
        if first is None:
            first = entry.submit
        submit = first + int((entry.submit - first) / load)
        if not 0 <= submit <= _LATEST:
            raise InputError(f"job {entry.name} would be submitted beyond {MOST_SECONDS} s")
        yield entry._replace(submit=submit)


def merged(workloads: Sequence[Iterable[Entry]], *, apart: bool) -> Iterator[Entry]:
    """Yield the jobs of several workloads by submission, numbered from 1.

    Jobs of one instant come in the order of the workloads. Preceding jobs are forgotten, for
    numbers change.

    Args:
        workloads: Each in order of submission.
        apart: Users, groups and so on of one workload are not those of another, even if they
            are called alike: number n of workload i of k becomes n * k + i.
    """
    count = len(workloads)
    streams = [
        _apart(entries, index, count) if apart else iter(entries)
        for index, entries in enumerate(workloads)
    ]
    for number, entry in enumerate(merge(*streams, key=attrgetter("submit")), 1):
        yield entry._replace(name=number, preceding=-1, think=-1)


def _apart(entries: Iterable[Entry], index: int, count: int) -> Iterator[Entry]:
    def named(name: str | None) -> str | None:
        if name is None or not (name.isdigit() and name.isascii()):
            return None if name is None else f"{name}@{index + 1}"
        return str(int(name) * count + index)

    for entry in entries:
        yield entry._replace(
            user=named(entry.user),
            group=named(entry.group),
            application=named(entry.application),
            queue=named(entry.queue),
            partition=named(entry.partition),
        )
