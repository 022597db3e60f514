"""A policy and an allocator as one side of the conversation, without any socket.

The same object serves a run in process and, by way of `serve`, one over ZeroMQ.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeAlias, cast

from parley_client.allocators import Allocator, allocator_named
from parley_client.errors import ClientError
from parley_client.policies import Ask, Policy, policy_named
from parley_client.view import View
from parley_protocol.messages import PROTOCOL_VERSION

if TYPE_CHECKING:
    from parley_protocol.messages import (
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        WelcomeBody,
    )

PolicyLike: TypeAlias = Policy | Callable[[View], object] | str
"""A policy, a function of the view, or a name."""


class _FunctionPolicy:
    """A function in the place of a policy."""

    def __init__(self, function: Callable[[View], object]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", "function")
        self.ask = cast("Ask", getattr(function, "ask", "always"))

    def decide(self, view: View) -> None:
        self._function(view)


class Dispatcher:
    """Answers decision requests.

    Args:
        policy: A policy, a function that takes the view, or the name of a policy.
        allocator: An allocator, or the name of one; it is then seeded by the scenario.
        ask: When to be asked; None leaves it to the policy.
        scenario: Which, where a server offers several.

    Raises:
        UnknownName: A name stands for nothing.
    """

    def __init__(
        self,
        policy: PolicyLike,
        *,
        allocator: Allocator | str = "first-fit",
        ask: Ask | None = None,
        scenario: str | None = None,
    ) -> None:
        self.policy = _as_policy(policy)
        self.name = str(getattr(self.policy, "name", type(self.policy).__name__))
        if isinstance(allocator, str):
            allocator_named(allocator)  # an unknown name is told now, not at the first request
        self._allocator = allocator
        self.allocator_name = (
            allocator
            if isinstance(allocator, str)
            else str(getattr(allocator, "name", type(allocator).__name__))
        )
        self._ask: Ask = ask or cast("Ask", getattr(self.policy, "ask", "always"))
        self._scenario = scenario
        self._view: View | None = None

    def hello(self) -> HelloBody:
        """Return what to introduce oneself with."""
        body: HelloBody = {
            "versions": [PROTOCOL_VERSION],
            "client": {"name": self.name, "version": _version(), "language": "python"},
            "capabilities": {"state": "events"},
            "ask": self._ask,
        }
        if self._scenario is not None:
            body["scenario"] = self._scenario
        return body

    def begin(self, welcome: WelcomeBody) -> None:
        """Make ready for a session; nothing of an earlier one remains in the view."""
        allocator = self._allocator
        if isinstance(allocator, str):
            allocator = allocator_named(allocator, seed=welcome["seed"])
        self._view = View(welcome, allocator)

    def decide(self, request: DecisionRequestBody) -> DecisionReplyBody:
        """Answer one request."""
        view = self._view
        if view is None:
            raise ClientError("a request came before the session began")
        view.update(request)
        self.policy.decide(view)
        return {
            "decisions": view.take_decisions(),
            "state_version": request["state_version"],
        }


def _as_policy(policy: PolicyLike) -> Policy:
    if isinstance(policy, str):
        return policy_named(policy)
    if isinstance(policy, type):
        raise ClientError(f"{policy.__name__} is a class; pass an object: {policy.__name__}()")
    if hasattr(policy, "decide"):
        return policy
    if callable(policy):
        return _FunctionPolicy(policy)
    raise ClientError(f"{policy!r} is no policy: it has no method decide(view)")


def _version() -> str:
    for distribution in ("parley-sim", "parley-client"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"
