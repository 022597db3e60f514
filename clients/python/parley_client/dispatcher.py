"""A policy and an allocator as one side of the conversation, without any socket.

The same object serves a run in process and, by way of `serve`, one over ZeroMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from parley_client.allocators import Allocator, allocator_named
from parley_client.errors import ClientError, WrongUsage
from parley_client.policies import Ask, FunctionPolicy, Parameter, Policy, policy_named
from parley_client.version import __version__
from parley_client.view import View
from parley_protocol.messages import PROTOCOL_VERSION

if TYPE_CHECKING:
    from parley_protocol.messages import (
        CapabilitiesDict,
        DecisionDict,
        DecisionReplyBody,
        DecisionRequestBody,
        HelloBody,
        OutcomeDict,
        WelcomeBody,
    )

PolicyLike: TypeAlias = Policy | Callable[[View], object] | str
"""A policy, a function of the view, a name, or the path of one: `./mine.py:MyPolicy`."""


class Dispatcher:
    """Answers decision requests.

    Args:
        policy: A policy, a function that takes the view, or the name of a policy.
        allocator: An allocator, or the name of one; it is then seeded by the scenario.
        ask: When to be asked; None leaves it to the policy.
        scenario: Which, where a server offers several.
        parameters: Of a policy that is given by its name.

    Raises:
        WrongUsage: A name stands for nothing, a parameter is wrong, or the policy cannot work
            with the allocator.
    """

    def __init__(
        self,
        policy: PolicyLike,
        *,
        allocator: Allocator | str = "first-fit",
        ask: Ask | None = None,
        scenario: str | None = None,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        self.policy = _as_policy(policy, parameters)
        self.name = str(getattr(self.policy, "name", type(self.policy).__name__))
        # What is wrong with a name is told now, not at the first request.
        made = allocator_named(allocator) if isinstance(allocator, str) else allocator
        require_pair(self.policy, made)
        self._allocator = allocator
        self.allocator_name = (
            allocator
            if isinstance(allocator, str)
            else str(getattr(allocator, "name", type(allocator).__name__))
        )
        self._ask: Ask = ask or cast("Ask", getattr(self.policy, "ask", "always"))
        self._scenario = scenario
        self._view: View | None = None
        self._most = 0
        self._kept_back: list[DecisionDict] = []

    def hello(self) -> HelloBody:
        """Return what to introduce oneself with."""
        capabilities: CapabilitiesDict = {"state": "events"}
        if getattr(self.policy, "atomic", False):
            capabilities["decisions"] = "atomic"
        if getattr(self.policy, "submits", False):
            capabilities["submit"] = True
        body: HelloBody = {
            "versions": [PROTOCOL_VERSION],
            "client": {"name": self.name, "version": __version__, "language": "python"},
            "capabilities": capabilities,
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
        self._most = welcome["limits"]["decisions"]
        self._kept_back = []

    def decide(self, request: DecisionRequestBody) -> DecisionReplyBody:
        """Answer one request."""
        view = self._view
        if view is None:
            raise ClientError("a request came before the session began")
        view.update(self._with_kept_back(request) if self._kept_back else request)
        self.policy.decide(view)
        decisions = view.take_decisions()
        self._kept_back = []
        if len(decisions) > self._most:
            decisions, self._kept_back = decisions[: self._most], decisions[self._most :]
        return {"decisions": decisions, "state_version": request["state_version"]}

    def _with_kept_back(self, request: DecisionRequestBody) -> DecisionRequestBody:
        """Return a request which also says that what was beyond the limit has not happened."""
        outcomes = request["outcomes"]
        when = next(({"at_us": one["at_us"]} for one in outcomes if one.get("at_us")), {})
        told = {"status": "rejected", "code": "limit.decisions"}
        refused = [
            cast("OutcomeDict", {**told, "id": one["id"], **when}) for one in self._kept_back
        ]
        return {**request, "outcomes": [*outcomes, *refused]}


def require_pair(policy: Policy, allocator: Allocator) -> None:
    """Do nothing if the policy can work with the allocator.

    Raises:
        WrongUsage: It cannot; the text says why.
    """
    if not getattr(policy, "counts_slots", False) or getattr(allocator, "fits_by_count", False):
        return
    names = [getattr(part, "name", type(part).__name__) for part in (policy, allocator)]
    raise WrongUsage(
        f"policy {names[0]!r} cannot work with allocator {names[1]!r}: its reservations count on "
        "a place wherever enough chunks fit, which this allocator does not promise (it would "
        "with an attribute fits_by_count = True); strict and aggressive policies take any"
    )


def _as_policy(policy: PolicyLike, parameters: Mapping[str, Parameter] | None) -> Policy:
    if isinstance(policy, str):
        return policy_named(policy, parameters)
    if parameters:
        raise WrongUsage("parameters go with the name of a policy; an object has its own")
    if isinstance(policy, type):
        raise ClientError(f"{policy.__name__} is a class; pass an object: {policy.__name__}()")
    if hasattr(policy, "decide"):
        return policy
    if callable(policy):
        return FunctionPolicy(policy)
    raise ClientError(f"{policy!r} is no policy: it has no method decide(view)")
