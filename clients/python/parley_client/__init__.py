"""A light client for Parley: a mirror of the queue and the nodes, policies, allocators, a loop.

from parley_client import serve

def shortest_first(view):
    for job in sorted(view.queue, key=lambda job: job.walltime_us):
        if not view.start(job):
            break

serve(shortest_first)
"""

from typing import TYPE_CHECKING, Any

from parley_client.allocators import (
    ALLOCATORS,
    Allocator,
    BestFit,
    FirstFit,
    NextFit,
    Random,
    WorstFit,
    allocator_named,
)
from parley_client.cluster import Cluster
from parley_client.conservative import (
    Conservative,
    ConservativeNone,
    ConservativeSubmitOrder,
    Delayed,
    Prioritised,
)
from parley_client.dispatcher import Dispatcher
from parley_client.easy import Easy
from parley_client.errors import ClientError, UnknownName, WrongUsage
from parley_client.job import Job, RunningJob, Shape
from parley_client.orders import ORDERS, Order
from parley_client.policies import POLICIES, Fifo, Policy, policy_named
from parley_client.rules import Aggressive, RejectAll, Strict
from parley_client.spans import Span
from parley_client.timed_run import TimedRun
from parley_client.view import Queue, View

if TYPE_CHECKING:
    from parley_client.connection import ConnectionLost, ServerRefused, serve

__all__ = [
    "ALLOCATORS",
    "ORDERS",
    "POLICIES",
    "Aggressive",
    "Allocator",
    "BestFit",
    "ClientError",
    "Cluster",
    "ConnectionLost",
    "Conservative",
    "ConservativeNone",
    "ConservativeSubmitOrder",
    "Delayed",
    "Dispatcher",
    "Easy",
    "Fifo",
    "FirstFit",
    "Job",
    "NextFit",
    "Order",
    "Policy",
    "Prioritised",
    "Queue",
    "Random",
    "RejectAll",
    "RunningJob",
    "ServerRefused",
    "Shape",
    "Span",
    "Strict",
    "TimedRun",
    "UnknownName",
    "View",
    "WorstFit",
    "WrongUsage",
    "allocator_named",
    "policy_named",
    "serve",
]


def __getattr__(name: str) -> Any:
    """Bring in what needs ZeroMQ when it is asked for: a dispatcher in process does without."""
    if name in {"ConnectionLost", "ServerRefused", "serve"}:
        from parley_client import connection  # noqa: PLC0415

        return getattr(connection, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
