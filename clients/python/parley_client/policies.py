"""Which job starts: a policy is asked at each decision point and acts on the view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from parley_client.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley_client.view import View

Ask: TypeAlias = Literal["always", "actionable"]


class Policy(Protocol):
    """The only method to write for a new policy.

    A policy may have two attributes besides: `name`, and `ask`, which is `"actionable"` if the
    policy does nothing at instants at which no pending job could start (it is then asked at
    fewer of them), else `"always"`, the default.
    """

    def decide(self, view: View) -> None:
        """Start, reject or kill jobs by way of the view."""
        ...


class Fifo:
    """Start jobs in the order of their submission; stop at the first that does not fit.

    Ties are broken by reading order. Source: the strict first-come-first-served of every batch
    system's manual; Feitelson and Weil, IPPS 1998, call it FCFS.
    """

    name = "fifo"
    ask: Ask = "actionable"

    def decide(self, view: View) -> None:
        """Start the head while it fits; O(starts)."""
        while (job := view.queue.head) is not None and view.start(job):
            pass


class RejectAll:
    """Reject every job as soon as it is submitted: what remains is the simulator's own cost.

    Source: the rejecting dispatcher of Galleguillos et al., AccaSim, Cluster Computing 23, 2020.
    """

    name = "reject"
    ask: Ask = "always"

    def decide(self, view: View) -> None:
        """Reject the whole queue."""
        for job in view.queue:
            view.reject(job)


POLICIES: Mapping[str, Callable[[], Policy]] = {Fifo.name: Fifo, RejectAll.name: RejectAll}


def policy_named(name: str) -> Policy:
    """Return a new policy.

    Raises:
        UnknownName: There is none of this name; the text says which there are.
    """
    try:
        return POLICIES[name]()
    except KeyError:
        raise UnknownName("policy", name, POLICIES) from None
