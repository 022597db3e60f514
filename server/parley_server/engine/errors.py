"""Why a decision is refused: one type per cause, its code the same in every language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class DecisionError(Exception):
    """A decision that cannot be carried out; the simulation is as it was before."""

    code: ClassVar[str]


@dataclass
class UnknownJob(DecisionError):
    """No job of this number has been submitted yet."""

    code: ClassVar[str] = "job.unknown"
    job: int

    def __str__(self) -> str:
        return f"no job {self.job} has been submitted"


@dataclass
class NotPending(DecisionError):
    """The job runs already, or is over."""

    code: ClassVar[str] = "job.not_pending"
    job: int
    running: bool

    def __str__(self) -> str:
        return f"job {self.job} {'is running already' if self.running else 'is over'}"


@dataclass
class NotRunning(DecisionError):
    """The job waits, is ending at this instant, or is over."""

    code: ClassVar[str] = "job.not_running"
    job: int
    pending: bool

    def __str__(self) -> str:
        if self.pending:
            return f"job {self.job} is not running: it is pending, and could be rejected"
        return f"job {self.job} is not running: it has ended or is ending now"


@dataclass
class IsHeld(DecisionError):
    """The job is held."""

    code: ClassVar[str] = "job.held"
    job: int

    def __str__(self) -> str:
        return f"job {self.job} is held; release it first"


@dataclass
class NotHeld(DecisionError):
    """The job is pending and free to be started."""

    code: ClassVar[str] = "job.not_held"
    job: int

    def __str__(self) -> str:
        return f"job {self.job} is not held"


@dataclass
class NeverFits(DecisionError):
    """The job to be brought in asks for more than the machine has."""

    code: ClassVar[str] = "job.never_fits"
    chunks: int

    def __str__(self) -> str:
        return f"the job asks for {self.chunks} chunks, more than the empty machine holds"


@dataclass
class NameTaken(DecisionError):
    """A job of this name was brought in before."""

    code: ClassVar[str] = "job.name"
    name: str

    def __str__(self) -> str:
        return f"a job was submitted as {self.name!r} before"


@dataclass
class SubmittedInThePast(DecisionError):
    """A job cannot be submitted before now."""

    code: ClassVar[str] = "job.past"
    at: int
    now: int

    def __str__(self) -> str:
        return f"the job is to be submitted at {self.at} us, it is {self.now} us"


@dataclass
class RunStopped(DecisionError):
    """A decision before this one has ended the run."""

    code: ClassVar[str] = "run.stopped"

    def __str__(self) -> str:
        return "the run was stopped by a decision before this one"


@dataclass
class RolledBack(DecisionError):
    """All decisions of a reply are carried out, or none."""

    code: ClassVar[str] = "decision.rolled_back"
    culprit: int

    def __str__(self) -> str:
        return f"decision {self.culprit} of the same reply was refused"


@dataclass
class WrongGroupCount(DecisionError):
    """The allocation has another number of groups than the request."""

    code: ClassVar[str] = "alloc.groups"
    job: int
    wanted: int
    given: int

    def __str__(self) -> str:
        return (
            f"job {self.job} asks for {self.wanted} group(s) of chunks, "
            f"the allocation has {self.given}"
        )


@dataclass
class MalformedSpan(DecisionError):
    """A span that ends before it begins, or holds no chunk."""

    code: ClassVar[str] = "alloc.span"
    first: int
    last: int
    chunks: int

    def __str__(self) -> str:
        span = f"[{self.first}, {self.last}, {self.chunks}]"
        if self.chunks < 1:
            return f"span {span} places no chunk on its nodes"
        return f"span {span} ends before it begins; a span is [first, last, chunks_per_node]"


@dataclass
class SpansOutOfOrder(DecisionError):
    """Spans must ascend and be disjoint."""

    code: ClassVar[str] = "alloc.order"
    first: int
    before: int

    def __str__(self) -> str:
        return (
            f"a span begins at node {self.first} after one that ends at node {self.before}; "
            "spans ascend and do not overlap"
        )


@dataclass
class TooFewChunks(DecisionError):
    """The allocation holds fewer chunks than the job asked for."""

    code: ClassVar[str] = "alloc.too_few"
    job: int
    wanted: int
    given: int

    def __str__(self) -> str:
        return f"job {self.job} asks for {self.wanted} chunks, the allocation holds {self.given}"


@dataclass
class TooManyChunks(DecisionError):
    """The allocation holds more chunks than the job asked for."""

    code: ClassVar[str] = "alloc.too_many"
    job: int
    wanted: int
    given: int

    def __str__(self) -> str:
        return f"job {self.job} asks for {self.wanted} chunks, the allocation holds {self.given}"


@dataclass
class NoFit(DecisionError):
    """The server was to place the job, and it does not fit now."""

    code: ClassVar[str] = "alloc.no_fit"
    job: int
    wanted: int
    available: int

    def __str__(self) -> str:
        return (
            f"job {self.job} asks for {self.wanted} chunks, "
            f"the free resources hold {self.available} of them now"
        )


@dataclass
class ExclusiveChunks(DecisionError):
    """An exclusive chunk is alone on its node."""

    code: ClassVar[str] = "alloc.exclusive"
    job: int
    chunks: int

    def __str__(self) -> str:
        return f"job {self.job} wants whole nodes; a span puts {self.chunks} chunks on each of its"


@dataclass
class UnknownNode(DecisionError):
    """No such node."""

    code: ClassVar[str] = "node.unknown"
    node: int
    node_count: int

    def __str__(self) -> str:
        return f"there is no node {self.node}; nodes run from 0 to {self.node_count - 1}"


@dataclass
class BusyNode(DecisionError):
    """A node has not enough left."""

    code: ClassVar[str] = "node.busy"
    node: int
    wanted: int
    available: int

    def __str__(self) -> str:
        return f"node {self.node} has room for {self.available} such chunks, not {self.wanted}"


@dataclass
class NodeIsDown(DecisionError):
    """A node is out of service."""

    code: ClassVar[str] = "node.down"
    node: int

    def __str__(self) -> str:
        return f"node {self.node} is down"


@dataclass
class OutsidePartition(DecisionError):
    """The node is in another partition than the job."""

    code: ClassVar[str] = "node.partition"
    node: int
    partition: str

    def __str__(self) -> str:
        return f"node {self.node} is not in the partition {self.partition!r} of the job"


@dataclass
class UnmetConstraint(DecisionError):
    """The node has not what the job demands of it."""

    code: ClassVar[str] = "node.constraint"
    node: int
    wanted: str

    def __str__(self) -> str:
        return f"node {self.node} has not {self.wanted!r}, which the job demands"


@dataclass
class TimerInThePast(DecisionError):
    """A timer must lie after now."""

    code: ClassVar[str] = "timer.past"
    timer: int
    at: int
    now: int

    def __str__(self) -> str:
        return f"timer {self.timer} is set for {self.at} us, it is {self.now} us; set it later"


@dataclass
class TimerIsSet(DecisionError):
    """A timer of this number waits already."""

    code: ClassVar[str] = "timer.set"
    timer: int
    at: int

    def __str__(self) -> str:
        return f"timer {self.timer} is set for {self.at} us already; use another number"


@dataclass
class UnknownTimer(DecisionError):
    """No timer of this number waits."""

    code: ClassVar[str] = "timer.unknown"
    timer: int

    def __str__(self) -> str:
        return f"no timer {self.timer} waits; it has fired, was cancelled, or was never set"


DECISION_ERRORS: tuple[type[DecisionError], ...] = (
    UnknownJob,
    NotPending,
    NotRunning,
    IsHeld,
    NotHeld,
    NeverFits,
    NameTaken,
    SubmittedInThePast,
    RunStopped,
    RolledBack,
    WrongGroupCount,
    MalformedSpan,
    SpansOutOfOrder,
    TooFewChunks,
    TooManyChunks,
    NoFit,
    ExclusiveChunks,
    UnknownNode,
    BusyNode,
    NodeIsDown,
    OutsidePartition,
    UnmetConstraint,
    TimerInThePast,
    TimerIsSet,
    UnknownTimer,
)
