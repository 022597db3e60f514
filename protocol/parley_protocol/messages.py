"""Every message of the protocol; these definitions validate what arrives and make the schemas.

Typed dictionaries: what goes out is built as plain data, without any validation, and what comes
in is validated once. Optional fields may be absent or nil, which mean the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias, get_args

from pydantic import AfterValidator, Discriminator, Field, Strict, Tag, WithJsonSchema
from typing_extensions import TypedDict

from parley_protocol.scalars import (
    AllocationArray,
    Amount,
    Amounts,
    Ask,
    Attributes,
    DecisionMode,
    EnvelopeVersion,
    Flag,
    Integer,
    LatencyModel,
    Natural,
    NodeRanges,
    OnDisconnect,
    OnNodeDown,
    OnReject,
    OnTimeout,
    Positive,
    StateMode,
    Text,
)

PROTOCOL_VERSION = "1.0"

# ---------------------------------------------------------------------- kinds

EventKind: TypeAlias = Literal[
    "session.start",
    "job.submitted",
    "job.started",
    "job.ended",
    "node.down",
    "node.up",
    "timer.fired",
    "workload.exhausted",
]

DecisionKind: TypeAlias = Literal[
    "start",
    "reject",
    "kill",
    "requeue",
    "hold",
    "release",
    "wake",
    "wake.cancel",
    "annotate",
    "submit",
    "stop",
]

EVENT_KINDS: frozenset[str] = frozenset(get_args(EventKind))

DECISION_KINDS: frozenset[str] = frozenset(get_args(DecisionKind))


def _kind_in(known: frozenset[str]) -> Any:
    """Return a discriminator that sends every kind outside *known* to the tag `unknown`."""

    def discriminate(value: Any) -> str | None:
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str):
            return None
        return kind if kind in known else "unknown"

    return Discriminator(
        discriminate,
        custom_error_type="kind_missing",
        custom_error_message="an object with a field 'kind', a string, is due here",
    )


def _none_of(known: frozenset[str]) -> AfterValidator:
    """Return a validator that takes every string but these; schemas say it with `not`."""

    def check(kind: str) -> str:
        if kind in known:
            raise ValueError(f"{kind!r} has a definition of its own")
        return kind

    return AfterValidator(check)


def _schema_none_of(known: frozenset[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "not": {"enum": sorted(known)}})


UnknownEventKind: TypeAlias = Annotated[
    str, Strict(), _none_of(EVENT_KINDS), _schema_none_of(EVENT_KINDS)
]

UnknownDecisionKind: TypeAlias = Annotated[
    str, Strict(), _none_of(DECISION_KINDS), _schema_none_of(DECISION_KINDS)
]

# ---------------------------------------------------------------------- jobs and nodes


class ChunkGroupDict(TypedDict):
    """So many chunks of one shape."""

    chunks: Annotated[Positive, Field(description="How many.")]
    per_chunk: Annotated[Amounts, Field(description="What each asks of its node.")]
    exclusive: Annotated[Flag, Field(description="Each takes a wholly empty node, all of it.")]


class JobDict(TypedDict):
    """A job as a dispatcher may know it; never how long it will run."""

    job: Annotated[Natural, Field(description="Its number, in reading order.")]
    name: Annotated[Text, Field(description="What its source calls it.")]
    submit_us: Annotated[Natural, Field(description="When it was submitted.")]
    walltime_us: NotRequired[
        Annotated[Natural | None, Field(description="Its limit; absent: without limit.")]
    ]
    request: Annotated[list[ChunkGroupDict], Field(min_length=1)]
    user: NotRequired[Text | None]
    group: NotRequired[Text | None]
    queue: NotRequired[Text | None]
    partition: NotRequired[Text | None]
    attributes: NotRequired[
        Annotated[Attributes | None, Field(description="Further columns of the workload.")]
    ]


class NewJobDict(TypedDict):
    """A job that the dispatcher brings in; of its own jobs it says how long they run."""

    name: NotRequired[
        Annotated[Text | None, Field(description="Told apart from the workload's by `dyn!`.")]
    ]
    runtime_us: Annotated[Natural, Field(description="How long it runs if nothing disturbs it.")]
    walltime_us: NotRequired[
        Annotated[Natural | None, Field(description="Its limit; absent: without limit.")]
    ]
    request: Annotated[list[ChunkGroupDict], Field(min_length=1)]
    user: NotRequired[Text | None]
    group: NotRequired[Text | None]
    queue: NotRequired[Text | None]
    partition: NotRequired[Text | None]
    attributes: NotRequired[Attributes | None]


class NodeGroupDict(TypedDict):
    """Nodes of one kind, numbered in a row."""

    name: Text
    first: Natural
    last: Natural
    capacity: Annotated[Amounts, Field(description="Amounts on each node.")]


class PlatformDict(TypedDict):
    """The machine."""

    node_count: Positive
    groups: list[NodeGroupDict]


class RunningJobDict(TypedDict):
    """A job on its nodes."""

    job: JobDict
    start_us: Natural
    allocation: AllocationArray


class TimerDict(TypedDict):
    """A timer that waits."""

    timer: Natural
    at_us: Natural


NodeRun: TypeAlias = Annotated[
    tuple[Natural, Natural, Amounts, Literal["up", "down"]],
    Field(description="[first node, last node, free amounts on each, state]"),
]


class StateDict(TypedDict):
    """All that a dispatcher needs to go on from here."""

    pending: Annotated[list[JobDict], Field(description="By submission, then reading order.")]
    held: Annotated[list[Natural], Field(description="Those of the pending that are held.")]
    running: Annotated[list[RunningJobDict], Field(description="By start.")]
    nodes: Annotated[list[NodeRun], Field(description="Runs of equal nodes, all nodes once.")]
    timers: Annotated[list[TimerDict], Field(description="By number.")]
    exhausted: Annotated[Flag, Field(description="The workload holds no further job.")]


# ---------------------------------------------------------------------- events


class SessionStartDict(TypedDict):
    """The run begins."""

    kind: Literal["session.start"]
    at_us: Natural


class JobSubmittedDict(TypedDict):
    """A job joined the queue."""

    kind: Literal["job.submitted"]
    at_us: Natural
    job: JobDict


class JobStartedDict(TypedDict):
    """A job was started by another than this client."""

    kind: Literal["job.started"]
    at_us: Natural
    job: Natural
    allocation: AllocationArray


class JobEndedDict(TypedDict):
    """A job left its nodes; one that was requeued is pending again, in its old place."""

    kind: Literal["job.ended"]
    at_us: Natural
    job: Natural
    status: Literal["completed", "failed", "timed_out", "killed", "requeued"]


class NodeDownDict(TypedDict):
    """Nodes went out of service; the ends of the jobs that ran there were told before."""

    kind: Literal["node.down"]
    at_us: Natural
    nodes: NodeRanges


class NodeUpDict(TypedDict):
    """Nodes came back, empty."""

    kind: Literal["node.up"]
    at_us: Natural
    nodes: NodeRanges


class TimerFiredDict(TypedDict):
    """An instant that the dispatcher asked to be woken at."""

    kind: Literal["timer.fired"]
    at_us: Natural
    timer: Natural


class WorkloadExhaustedDict(TypedDict):
    """No further job will be submitted."""

    kind: Literal["workload.exhausted"]
    at_us: Natural


class UnknownEventDict(TypedDict):
    """An event of a later version; a dispatcher passes over it."""

    kind: UnknownEventKind
    at_us: Natural


EventDict: TypeAlias = Annotated[
    Annotated[SessionStartDict, Tag("session.start")]
    | Annotated[JobSubmittedDict, Tag("job.submitted")]
    | Annotated[JobStartedDict, Tag("job.started")]
    | Annotated[JobEndedDict, Tag("job.ended")]
    | Annotated[NodeDownDict, Tag("node.down")]
    | Annotated[NodeUpDict, Tag("node.up")]
    | Annotated[TimerFiredDict, Tag("timer.fired")]
    | Annotated[WorkloadExhaustedDict, Tag("workload.exhausted")]
    | Annotated[UnknownEventDict, Tag("unknown")],
    _kind_in(EVENT_KINDS),
]

# ---------------------------------------------------------------------- decisions and outcomes


class StartDict(TypedDict):
    """Start a pending job now."""

    id: Natural
    kind: Literal["start"]
    job: Integer
    allocation: NotRequired[
        Annotated[AllocationArray | None, Field(description="Absent: the server places it.")]
    ]


class RejectDict(TypedDict):
    """Remove a pending job for good."""

    id: Natural
    kind: Literal["reject"]
    job: Integer
    reason: NotRequired[Text | None]


class KillDict(TypedDict):
    """End a running job at this instant."""

    id: Natural
    kind: Literal["kill"]
    job: Integer


class RequeueDict(TypedDict):
    """End a running job at this instant and put it back in its place in the queue."""

    id: Natural
    kind: Literal["requeue"]
    job: Integer


class HoldDict(TypedDict):
    """Let a pending job not be started until it is released."""

    id: Natural
    kind: Literal["hold"]
    job: Integer
    reason: NotRequired[Text | None]


class ReleaseDict(TypedDict):
    """Let a held job be started again."""

    id: Natural
    kind: Literal["release"]
    job: Integer


class WakeDict(TypedDict):
    """Ask to be asked at an instant after this one."""

    id: Natural
    kind: Literal["wake"]
    timer: Natural
    at_us: Integer


class WakeCancelDict(TypedDict):
    """Give up a timer that waits."""

    id: Natural
    kind: Literal["wake.cancel"]
    timer: Natural


class AnnotateDict(TypedDict):
    """Note what is expected of a pending job."""

    id: Natural
    kind: Literal["annotate"]
    job: Integer
    expected_start_us: NotRequired[Natural | None]
    reason: NotRequired[Annotated[Text | None, Field(description="Why it waits.")]]


class SubmitDict(TypedDict):
    """Bring in a job that the workload does not hold."""

    id: Natural
    kind: Literal["submit"]
    job: NewJobDict
    at_us: NotRequired[
        Annotated[Integer | None, Field(description="When it is submitted; absent: now.")]
    ]


class StopDict(TypedDict):
    """End the whole run here."""

    id: Natural
    kind: Literal["stop"]
    reason: NotRequired[Text | None]


class UnknownDecisionDict(TypedDict):
    """A decision of a later version; it is refused by itself, as `decision.unsupported`."""

    id: Natural
    kind: UnknownDecisionKind


DecisionDict: TypeAlias = Annotated[
    Annotated[StartDict, Tag("start")]
    | Annotated[RejectDict, Tag("reject")]
    | Annotated[KillDict, Tag("kill")]
    | Annotated[RequeueDict, Tag("requeue")]
    | Annotated[HoldDict, Tag("hold")]
    | Annotated[ReleaseDict, Tag("release")]
    | Annotated[WakeDict, Tag("wake")]
    | Annotated[WakeCancelDict, Tag("wake.cancel")]
    | Annotated[AnnotateDict, Tag("annotate")]
    | Annotated[SubmitDict, Tag("submit")]
    | Annotated[StopDict, Tag("stop")]
    | Annotated[UnknownDecisionDict, Tag("unknown")],
    _kind_in(DECISION_KINDS),
]


class OutcomeDict(TypedDict):
    """What became of one decision."""

    id: Natural
    status: Literal["applied", "rejected"]
    code: NotRequired[Annotated[Text | None, Field(description="Why it was rejected.")]]
    message: NotRequired[Text | None]
    allocation: NotRequired[
        Annotated[AllocationArray | None, Field(description="Where the server placed the job.")]
    ]
    job: NotRequired[
        Annotated[Natural | None, Field(description="The number given to a submitted job.")]
    ]
    at_us: NotRequired[
        Annotated[
            Natural | None, Field(description="When it took effect, where decisions take time.")
        ]
    ]


# ---------------------------------------------------------------------- bodies


class ProgramDict(TypedDict):
    """Who is speaking."""

    name: Text
    version: Text
    language: NotRequired[Text | None]


class CapabilitiesDict(TypedDict):
    """What a client can do; what is absent it cannot."""

    state: NotRequired[
        Annotated[
            StateMode | None,
            Field(description="events (the default): changes only; snapshot: all, each time."),
        ]
    ]
    decisions: NotRequired[
        Annotated[
            DecisionMode | None,
            Field(description="each (the default): by itself; atomic: all of a reply or none."),
        ]
    ]
    submit: NotRequired[
        Annotated[Flag | None, Field(description="Wants to bring in jobs of its own.")]
    ]


class ResumeDict(TypedDict):
    """A session that a client takes up again."""

    session: Text
    token: Annotated[Text, Field(description="As the welcome gave it.")]


class HelloBody(TypedDict):
    """Who the client is and what it wants."""

    versions: Annotated[list[Text], Field(min_length=1, description="That it speaks.")]
    client: ProgramDict
    capabilities: NotRequired[CapabilitiesDict | None]
    ask: NotRequired[
        Annotated[Ask | None, Field(description="When to ask; `always` is the default.")]
    ]
    wants: NotRequired[
        Annotated[list[Text] | None, Field(description="Event kinds to be told; absent: all.")]
    ]
    scenario: NotRequired[
        Annotated[Text | None, Field(description="Which, where a server offers several.")]
    ]
    resume: NotRequired[
        Annotated[ResumeDict | None, Field(description="To go on with a session, not begin one.")]
    ]


class GrantedDict(TypedDict):
    """The capabilities in force."""

    state: StateMode
    decisions: DecisionMode
    submit: Flag


class LimitsDict(TypedDict):
    """What the server bears."""

    message_bytes: Annotated[Positive, Field(description="In one frame.")]
    depth: Annotated[Positive, Field(description="Of maps and arrays within each other.")]
    string_bytes: Annotated[Positive, Field(description="In one string.")]
    array_items: Annotated[Positive, Field(description="In one array or map.")]
    decisions: Annotated[Positive, Field(description="In one reply.")]
    undecodable: Annotated[
        Positive, Field(description="Messages that cannot be decoded before the session fails.")
    ]
    sessions: NotRequired[
        Annotated[Positive | None, Field(description="Open at once; absent: without limit.")]
    ]


class PolicyDict(TypedDict):
    """How the server takes what goes wrong, and how long a decision lasts in simulated time."""

    on_reject: Annotated[
        OnReject, Field(description="report the refusal, ask again at once, or fail the run.")
    ]
    reasks: Annotated[Natural, Field(description="How often, where on_reject is reask.")]
    on_timeout: Annotated[
        OnTimeout,
        Field(description="fail the run, take the reply for empty, or wait for a resume."),
    ]
    on_disconnect: Annotated[OnDisconnect, Field(description="fail the run, or wait for a resume.")]
    reconnect_ms: Annotated[
        Natural, Field(description="Wall time that the server waits for a resume.")
    ]
    latency_model: LatencyModel
    latency_us: NotRequired[
        Annotated[Natural | None, Field(description="How long each decision takes, if fixed.")]
    ]
    latency_factor: NotRequired[
        Annotated[
            Amount | None, Field(description="Simulated time per wall time of a reply, if scaled.")
        ]
    ]
    on_node_down: Annotated[
        OnNodeDown, Field(description="What becomes of the jobs on a node that fails.")
    ]


class RulesDict(TypedDict):
    """How the workload was read; the same words as in a scenario."""

    request: Text
    select: Text
    on_overrun: Text
    estimate: Text
    estimate_missing: Text


class ScenarioDict(TypedDict):
    """What is simulated."""

    name: Text
    digest: Annotated[Text, Field(description="The same for the same inputs and rules.")]
    rules: RulesDict


class WelcomeBody(TypedDict):
    """What the session will be like."""

    version: Text
    server: ProgramDict
    granted: GrantedDict
    ask: Ask
    wants: list[Text]
    token: Annotated[Text, Field(description="Proves, with a resume, whose session it is.")]
    resumed: Annotated[Flag, Field(description="The run has begun already.")]
    seed: Annotated[Natural, Field(description="For the dispatcher's own random choices.")]
    limits: LimitsDict
    policy: PolicyDict
    scenario: ScenarioDict
    platform: PlatformDict


class EmptyBody(TypedDict):
    """Nothing to say beyond the type."""


class DecisionRequestBody(TypedDict):
    """An instant, what happened since the last one, and what became of the last decisions."""

    now_us: Natural
    attempt: Annotated[
        Positive, Field(description="How often this instant was asked about, this time included.")
    ]
    events: list[EventDict]
    outcomes: list[OutcomeDict]
    state_version: Annotated[Natural, Field(description="Counts events and applied decisions.")]
    state: NotRequired[
        Annotated[
            StateDict | None,
            Field(description="In the first, after a resume, and in snapshot sessions."),
        ]
    ]
    state_digest: NotRequired[
        Annotated[Text | None, Field(description="SHA-256 of the state, to hold a mirror against.")]
    ]
    deadline_ms: NotRequired[
        Annotated[Natural | None, Field(description="Wall time within which to reply.")]
    ]


class DecisionReplyBody(TypedDict):
    """What to do now; carried out in order, each by itself unless the session is atomic."""

    decisions: list[DecisionDict]
    state_version: Annotated[Natural, Field(description="As in the request.")]
    compute_us: NotRequired[
        Annotated[Natural | None, Field(description="Wall time the decision took.")]
    ]


class StateSnapshotBody(TypedDict):
    """The whole state, at the instant of the request that waits for its reply."""

    now_us: Natural
    state_version: Natural
    state: StateDict


class ProgressBody(TypedDict):
    """Still alive; more time, please."""

    note: NotRequired[Annotated[Text | None, Field(description="For whoever reads the dialogue.")]]


class ProgressAckBody(TypedDict):
    """The clock of the deadline was set back."""

    deadline_ms: Annotated[Natural, Field(description="Wall time left, from now on.")]


class StatsDict(TypedDict):
    """Jobs by what became of them."""

    submitted: Natural
    completed: Natural
    failed: Natural
    timed_out: Natural
    killed: Natural
    rejected: Natural
    requeues: Annotated[Natural, Field(description="Attempts that were given up.")]


class SessionEndBody(TypedDict):
    """The run is over."""

    reason: Annotated[
        Text, Field(description="completed, stalled, stopped, or bye; there may be others.")
    ]
    now_us: Natural
    outcomes: list[OutcomeDict]
    stats: StatsDict


class ErrorBody(TypedDict):
    """What was wrong with a message; unless it is fatal, the message counts as never sent."""

    code: Text
    message: Text
    fatal: Flag
    path: NotRequired[Annotated[Text | None, Field(description="The field in question.")]]
    supported: NotRequired[Annotated[list[Text] | None, Field(description="What would do.")]]


class ByeBody(TypedDict):
    """The client leaves."""

    reason: NotRequired[Text | None]


# ---------------------------------------------------------------------- messages


class _FromClient(TypedDict):
    v: EnvelopeVersion
    session: Annotated[Text, Field(description="As in the welcome.")]
    epoch: Natural
    re: Annotated[Natural, Field(description="The seq of the message this answers.")]


class _FromServer(TypedDict):
    v: EnvelopeVersion
    session: Text
    epoch: Natural
    seq: Annotated[Natural, Field(description="Counts the server's messages in a session.")]


class Hello(TypedDict):
    """A client asks for a session."""

    v: EnvelopeVersion
    type: Literal["hello"]
    body: HelloBody


class Ready(_FromClient):
    """The client is ready to decide."""

    type: Literal["ready"]
    body: EmptyBody


class DecisionReply(_FromClient):
    """The answer to a decision request."""

    type: Literal["decision.reply"]
    body: DecisionReplyBody


class StateRequest(_FromClient):
    """The client asks for the whole state, and will reply after it has it."""

    type: Literal["state.request"]
    body: EmptyBody


class Progress(_FromClient):
    """The client is still at its reply and asks for more time."""

    type: Literal["progress"]
    body: ProgressBody


class Ping(_FromClient):
    """Is anybody there?"""

    type: Literal["ping"]
    body: EmptyBody


class Bye(_FromClient):
    """The client ends the session."""

    type: Literal["bye"]
    body: ByeBody


class Welcome(_FromServer):
    """A session begins."""

    type: Literal["welcome"]
    body: WelcomeBody


class DecisionRequest(_FromServer):
    """The server asks what to do."""

    type: Literal["decision.request"]
    body: DecisionRequestBody


class SessionEnd(_FromServer):
    """The session is over; nothing may follow."""

    type: Literal["session.end"]
    body: SessionEndBody


class StateSnapshot(_FromServer):
    """The whole state, as asked for."""

    type: Literal["state.snapshot"]
    body: StateSnapshotBody


class ProgressAck(_FromServer):
    """More time is given."""

    type: Literal["progress.ack"]
    body: ProgressAckBody


class Pong(_FromServer):
    """Yes."""

    type: Literal["pong"]
    body: EmptyBody


class Error(TypedDict):
    """A message was refused; without a session where none was in question."""

    v: EnvelopeVersion
    session: NotRequired[Text | None]
    epoch: NotRequired[Natural | None]
    seq: NotRequired[Natural | None]
    type: Literal["error"]
    body: ErrorBody


ClientMessage: TypeAlias = Hello | Ready | DecisionReply | StateRequest | Progress | Ping | Bye
ServerMessage: TypeAlias = (
    Welcome | DecisionRequest | StateSnapshot | ProgressAck | SessionEnd | Pong | Error
)

CLIENT_MESSAGES: dict[str, type[ClientMessage]] = {
    "hello": Hello,
    "ready": Ready,
    "decision.reply": DecisionReply,
    "state.request": StateRequest,
    "progress": Progress,
    "ping": Ping,
    "bye": Bye,
}
SERVER_MESSAGES: dict[str, type[ServerMessage]] = {
    "welcome": Welcome,
    "decision.request": DecisionRequest,
    "state.snapshot": StateSnapshot,
    "progress.ack": ProgressAck,
    "session.end": SessionEnd,
    "pong": Pong,
    "error": Error,
}
