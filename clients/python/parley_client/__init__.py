"""A light client for Parley: a mirror of the queue and the nodes, policies, allocators, a loop.

from parley_client import serve

def shortest_first(view):
    for job in sorted(view.queue, key=lambda job: job.walltime_us):
        if not view.start(job):
            break

serve(shortest_first)
"""

from parley_client.allocators import ALLOCATORS, Allocator, FirstFit, Random, allocator_named
from parley_client.cluster import Cluster
from parley_client.connection import ConnectionLost, ServerRefused, serve
from parley_client.dispatcher import Dispatcher
from parley_client.errors import ClientError, UnknownName, WrongUsage
from parley_client.job import Job, RunningJob, Shape
from parley_client.policies import POLICIES, Fifo, Policy, RejectAll, policy_named
from parley_client.spans import Span
from parley_client.view import Queue, View

__all__ = [
    "ALLOCATORS",
    "POLICIES",
    "Allocator",
    "ClientError",
    "Cluster",
    "ConnectionLost",
    "Dispatcher",
    "Fifo",
    "FirstFit",
    "Job",
    "Policy",
    "Queue",
    "Random",
    "RejectAll",
    "RunningJob",
    "ServerRefused",
    "Shape",
    "Span",
    "UnknownName",
    "View",
    "WrongUsage",
    "allocator_named",
    "policy_named",
    "serve",
]
