"""The digest of a state as it stands in a message, by the specification's text alone."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def digest_of(now_us: int, state: Mapping[str, Any]) -> str:
    """Return the digest of a state, in hexadecimal.

    Args:
        now_us: The instant of the request.
        state: As in a `decision.request`.
    """
    return sha256(digest_text(now_us, state).encode()).hexdigest()


def digest_text(now_us: int, state: Mapping[str, Any]) -> str:
    """Return the lines whose digest it is."""
    lines = [f"now {now_us}"]
    lines += (f"pending {number}" for number in sorted(job["job"] for job in state["pending"]))
    lines += (f"held {number}" for number in sorted(state["held"]))
    for entry in sorted(state["running"], key=lambda entry: int(entry["job"]["job"])):
        groups = (
            ",".join(f"{first}-{last}*{chunks}" for first, last, chunks in spans)
            for spans in entry["allocation"]
        )
        lines.append(f"running {entry['job']['job']} {entry['start_us']} {';'.join(groups)}")
    free: Counter[str] = Counter()
    down: list[list[int]] = []
    for first, last, amounts, service in state["nodes"]:
        for kind, amount in amounts.items():
            free[kind] += amount * (last - first + 1) if service == "up" else 0
        if service == "down" and down and down[-1][1] + 1 == first:
            down[-1][1] = last
        elif service == "down":
            down.append([first, last])
    lines += (f"free {kind} {free[kind]}" for kind in sorted(free))
    lines += (f"down {first}-{last}" for first, last in down)
    timers = sorted(state["timers"], key=lambda timer: int(timer["timer"]))
    lines += (f"timer {timer['timer']} {timer['at_us']}" for timer in timers)
    return "".join(f"{line}\n" for line in lines)
