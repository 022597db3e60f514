"""How a session takes what goes wrong, and how long its decisions take in simulated time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley_protocol.messages import PolicyDict
    from parley_protocol.scalars import (
        LatencyModel,
        OnDisconnect,
        OnNodeDown,
        OnReject,
        OnTimeout,
    )


@dataclass(frozen=True, slots=True)
class Latency:
    """How much later than it is asked for a decision takes effect.

    Attributes:
        model: zero: at once; fixed: *fixed_us* later; measured: as much later as the answer took
            in wall time; scaled: *factor* times that.
        fixed_us: Simulated microseconds.
        factor: Simulated time per wall time.
    """

    model: LatencyModel = "zero"
    fixed_us: int = 0
    factor: float = 1.0

    def of(self, wall_us: int) -> int:
        """Return the simulated microseconds that an answer is charged which took *wall_us*."""
        match self.model:
            case "zero":
                return 0
            case "fixed":
                return self.fixed_us
            case "measured":
                return wall_us
            case "scaled":
                return round(self.factor * wall_us)


@dataclass(frozen=True, slots=True)
class Conduct:
    """What both sides of a session can rely on; the welcome announces it.

    Attributes:
        on_reject: What a refused decision entails besides its outcome.
        reasks: How often one instant is asked about again because of refused decisions.
        on_timeout: What becomes of a session whose answer is late.
        on_disconnect: What becomes of a session whose dispatcher is gone.
        reconnect_us: Wall time that a session waits for another dispatcher to resume it.
        deadline_us: Wall time for each answer.
        latency: What a decision takes in simulated time.
        on_node_down: What becomes of the jobs on a node that goes out of service.
        dynamic_jobs: A dispatcher may bring in jobs of its own.
        state_digest: Every request carries a digest of the state.
    """

    on_reject: OnReject = "report"
    reasks: int = 3
    on_timeout: OnTimeout = "fail"
    on_disconnect: OnDisconnect = "fail"
    reconnect_us: int = 60_000_000
    deadline_us: int = 60_000_000
    latency: Latency = field(default_factory=Latency)
    on_node_down: OnNodeDown = "kill"
    dynamic_jobs: bool = False
    state_digest: bool = False

    def announced(self) -> PolicyDict:
        """Return what a welcome says of it."""
        policy: PolicyDict = {
            "on_reject": self.on_reject,
            "reasks": self.reasks,
            "on_timeout": self.on_timeout,
            "on_disconnect": self.on_disconnect,
            "reconnect_ms": self.reconnect_us // 1000,
            "latency_model": self.latency.model,
            "on_node_down": self.on_node_down,
        }
        if self.latency.model == "fixed":
            policy["latency_us"] = self.latency.fixed_us
        if self.latency.model == "scaled":
            policy["latency_factor"] = self.latency.factor
        return policy
