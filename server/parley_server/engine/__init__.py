"""The simulation itself: pure, deterministic, and pulled by whoever drives it.

Nothing here knows of sockets, files, clocks or chance. Times are whole microseconds since the
scenario's time 0 (`Instant`) or differences of them (`Duration`).
"""

from parley_server.engine.cluster import Allocation, Cluster, NodeGroup, Span
from parley_server.engine.decisions import (
    Annotate,
    Decision,
    Kill,
    Outcome,
    Refuse,
    Reject,
    Start,
    Wake,
)
from parley_server.engine.events import (
    EVENT_KINDS,
    Event,
    JobEnded,
    JobSubmitted,
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
    OnOverrun,
    Paused,
    Simulation,
)
from parley_server.engine.source import ListSource, Source

__all__ = [
    "EVENT_KINDS",
    "PAUSED",
    "Allocation",
    "Annotate",
    "BrokenInvariant",
    "ChunkGroup",
    "Cluster",
    "Decision",
    "DecisionPoint",
    "Duration",
    "EndReason",
    "Event",
    "ExecutionModel",
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
    "NodeGroup",
    "OnOverrun",
    "Outcome",
    "Paused",
    "Refuse",
    "Reject",
    "Rigid",
    "RunningJob",
    "SessionStart",
    "Shape",
    "Simulation",
    "Source",
    "Span",
    "Start",
    "TimerFired",
    "Wake",
    "WorkloadExhausted",
    "check_invariants",
]
