"""The simulation itself: pure, deterministic, and pulled by whoever drives it.

Nothing here knows of sockets, files, clocks or chance. Times are whole microseconds since the
scenario's time 0 (`Instant`) or differences of them (`Duration`).
"""

from parley_server.engine.cluster import Allocation, Cluster, NodeGroup, Span
from parley_server.engine.decisions import (
    Annotate,
    CancelWake,
    Decision,
    Hold,
    Kill,
    Outcome,
    Refuse,
    Reject,
    Release,
    Requeue,
    Start,
    Stop,
    Submit,
    Wake,
)
from parley_server.engine.events import (
    EVENT_KINDS,
    Event,
    JobEnded,
    JobSubmitted,
    NodeChange,
    NodesDown,
    NodesUp,
    SessionStart,
    TimerFired,
    WorkloadExhausted,
)
from parley_server.engine.execution import ExecutionModel, Rigid, RunningJob
from parley_server.engine.invariants import BrokenInvariant, check_invariants
from parley_server.engine.job import ChunkGroup, Duration, Instant, Job, JobState, Shape
from parley_server.engine.records import InstantRecord, JobCounts, JobRecord
from parley_server.engine.simulation import (
    PAUSED,
    DecisionPoint,
    EndReason,
    Paused,
    Simulation,
)
from parley_server.engine.source import ListSource, Source
from parley_server.engine.world import FIRST_SUBMITTED, OnNodeDown, OnOverrun

__all__ = [
    "EVENT_KINDS",
    "FIRST_SUBMITTED",
    "PAUSED",
    "Allocation",
    "Annotate",
    "BrokenInvariant",
    "CancelWake",
    "ChunkGroup",
    "Cluster",
    "Decision",
    "DecisionPoint",
    "Duration",
    "EndReason",
    "Event",
    "ExecutionModel",
    "Hold",
    "Instant",
    "InstantRecord",
    "Job",
    "JobCounts",
    "JobEnded",
    "JobRecord",
    "JobState",
    "JobSubmitted",
    "Kill",
    "ListSource",
    "NodeChange",
    "NodeGroup",
    "NodesDown",
    "NodesUp",
    "OnNodeDown",
    "OnOverrun",
    "Outcome",
    "Paused",
    "Refuse",
    "Reject",
    "Release",
    "Requeue",
    "Rigid",
    "RunningJob",
    "SessionStart",
    "Shape",
    "Simulation",
    "Source",
    "Span",
    "Start",
    "Stop",
    "Submit",
    "TimerFired",
    "Wake",
    "WorkloadExhausted",
    "check_invariants",
]
