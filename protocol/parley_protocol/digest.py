"""The digest of a state, with which a dispatcher finds out at once that its mirror has drifted.

It is SHA-256 over text that any language can write: one line per fact, each ended by a newline,
in the order of the parameters of `state_digest`, ascending within each.

    now 7200000000
    pending 12
    held 12
    running 7 3600000000 0-3*1,9-9*2
    free core 14
    down 4-5
    timer 1 9000000000
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Spans: TypeAlias = Sequence[tuple[int, int, int]]


def state_digest(
    *,
    now_us: int,
    pending: Iterable[int],
    held: Iterable[int],
    running: Iterable[tuple[int, int, Sequence[Spans]]],
    free: Mapping[str, int],
    down: Iterable[tuple[int, int]],
    timers: Mapping[int, int],
) -> str:
    """Return the digest of a state, in hexadecimal.

    Args:
        now_us: The instant of the request.
        pending: Numbers of the pending jobs, those that are held included.
        held: Numbers of the held jobs.
        running: Number, start in microseconds and allocation of each running job; spans are
            merged as far as possible.
        free: Total free amount of each resource, over all nodes that are up.
        down: Ranges of nodes that are out of service, merged as far as possible.
        timers: Instants of the waiting timers, in microseconds, by their number.
    """
    lines = [f"now {now_us}"]
    lines += (f"pending {number}" for number in sorted(pending))
    lines += (f"held {number}" for number in sorted(held))
    lines += (
        f"running {number} {start_us} {_groups(allocation)}"
        for number, start_us, allocation in sorted(running, key=lambda entry: entry[0])
    )
    lines += (f"free {kind} {free[kind]}" for kind in sorted(free))
    lines += (f"down {first}-{last}" for first, last in sorted(down))
    lines += (f"timer {timer} {timers[timer]}" for timer in sorted(timers))
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _groups(allocation: Sequence[Spans]) -> str:
    """Return `first-last*chunks` of each span, the groups parted by semicolons."""
    return ";".join(
        ",".join(f"{first}-{last}*{chunks}" for first, last, chunks in spans)
        for spans in allocation
    )
