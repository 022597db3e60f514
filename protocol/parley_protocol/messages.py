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

# ---------------------------------------------------------------------- fields that recur

At: TypeAlias = Annotated[Natural, Field(description="When it happened, in simulated time.")]

JobNumber: TypeAlias = Annotated[Natural, Field(description="The number of the job.")]

DecidedJob: TypeAlias = Annotated[Integer, Field(description="The number of the job it is about.")]

DecisionId: TypeAlias = Annotated[
    Natural, Field(description="Chosen by the dispatcher; the outcome repeats it.")
]

Request: TypeAlias = Annotated[
    list["ChunkGroupDict"],
    Field(min_length=1, description="The groups of chunks that it asks for; one in version 1.0."),
]

Walltime: TypeAlias = Annotated[
    Natural | None, Field(description="The limit it asks for; absent: without limit.")
]

User: TypeAlias = Annotated[Text | None, Field(description="Whose it is, as its source says.")]

Group: TypeAlias = Annotated[
    Text | None, Field(description="Its user's group, as its source says.")
]

QueueName: TypeAlias = Annotated[
    Text | None, Field(description="The queue it was sent to, as its source says.")
]

Partition: TypeAlias = Annotated[
    Text | None, Field(description="The partition it was sent to, as its source says.")
]

Further: TypeAlias = Annotated[
    Attributes | None, Field(description="Further columns of its source, as they are.")
]

Reason: TypeAlias = Annotated[Text | None, Field(description="For whoever reads the dialogue.")]

# ---------------------------------------------------------------------- jobs and nodes


class ChunkGroupDict(TypedDict):
    """So many chunks of one shape."""

    chunks: Annotated[Positive, Field(description="How many chunks.")]
    per_chunk: Annotated[
        Amounts, Field(description="Amount of each resource that a chunk asks of its node.")
    ]
    exclusive: Annotated[
        Flag, Field(description="Each chunk takes a wholly empty node, all of it.")
    ]


class JobDict(TypedDict):
    """A job as a dispatcher may know it; never how long it will run."""

    job: Annotated[
        Natural, Field(description="Its number: its place in the reading order of the workload.")
    ]
    name: Annotated[Text, Field(description="What its source calls it.")]
    submit_us: Annotated[Natural, Field(description="When it was submitted.")]
    walltime_us: NotRequired[Walltime]
    request: Request
    user: NotRequired[User]
    group: NotRequired[Group]
    queue: NotRequired[QueueName]
    partition: NotRequired[Partition]
    attributes: NotRequired[Further]


class NewJobDict(TypedDict):
    """A job that the dispatcher brings in; of its own jobs it says how long they run."""

    name: NotRequired[
        Annotated[
            Text | None,
            Field(description="What it is to be called, behind `dyn!`; absent: a count."),
        ]
    ]
    runtime_us: Annotated[Natural, Field(description="How long it runs if nothing disturbs it.")]
    walltime_us: NotRequired[Walltime]
    request: Request
    user: NotRequired[User]
    group: NotRequired[Group]
    queue: NotRequired[QueueName]
    partition: NotRequired[Partition]
    attributes: NotRequired[Further]


class NodeGroupDict(TypedDict):
    """Nodes of one kind, numbered in a row."""

    name: Annotated[Text, Field(description="What the scenario calls them.")]
    first: Annotated[Natural, Field(description="The number of the first of them.")]
    last: Annotated[Natural, Field(description="The number of the last of them.")]
    capacity: Annotated[Amounts, Field(description="Amount of each resource on each node.")]


class PlatformDict(TypedDict):
    """The machine."""

    node_count: Annotated[Positive, Field(description="N; nodes are numbered 0 to N-1.")]
    groups: Annotated[list[NodeGroupDict], Field(description="Ascending; every node is in one.")]


class RunningJobDict(TypedDict):
    """A job on its nodes."""

    job: Annotated[JobDict, Field(description="What is known of it.")]
    start_us: Annotated[Natural, Field(description="When it started.")]
    allocation: Annotated[AllocationArray, Field(description="Where its chunks lie.")]


class TimerDict(TypedDict):
    """A timer that waits."""

    timer: Annotated[Natural, Field(description="Its number.")]
    at_us: Annotated[Natural, Field(description="When it will fire.")]


NodeRun: TypeAlias = Annotated[
    tuple[Natural, Natural, Amounts, Literal["up", "down"]],
    Field(
        description="[first node, last node, free amount of each resource on each of them, up or "
        "down]"
    ),
]


class StateDict(TypedDict):
    """All that a dispatcher needs to go on from here."""

    pending: Annotated[list[JobDict], Field(description="By submission, then reading order.")]
    held: Annotated[list[Natural], Field(description="Those of the pending that are held.")]
    running: Annotated[list[RunningJobDict], Field(description="By start.")]
    nodes: Annotated[
        list[NodeRun],
        Field(
            description="Runs of equal nodes, all nodes once: [first node, last node, free amount "
            "of each resource on each of them, up or down]; amounts of 0 are written."
        ),
    ]
    timers: Annotated[list[TimerDict], Field(description="By number.")]
    exhausted: Annotated[Flag, Field(description="The workload holds no further job.")]


# ---------------------------------------------------------------------- events


class SessionStartDict(TypedDict):
    """The run begins."""

    kind: Literal["session.start"]
    at_us: At


class JobSubmittedDict(TypedDict):
    """A job joined the queue."""

    kind: Literal["job.submitted"]
    at_us: At
    job: Annotated[JobDict, Field(description="What is known of it.")]


class JobStartedDict(TypedDict):
    """A job was started by another than this client."""

    kind: Literal["job.started"]
    at_us: At
    job: JobNumber
    allocation: Annotated[AllocationArray, Field(description="Where its chunks lie.")]


class JobEndedDict(TypedDict):
    """A job left its nodes; one that was requeued is pending again, in its old place."""

    kind: Literal["job.ended"]
    at_us: At
    job: JobNumber
    status: Annotated[
        Literal["completed", "failed", "timed_out", "killed", "requeued"],
        Field(
            description="It was done; its node failed; its walltime was over; it was killed; it "
            "was put back into the queue."
        ),
    ]


class NodeDownDict(TypedDict):
    """Nodes went out of service; the ends of the jobs that ran there were told before."""

    kind: Literal["node.down"]
    at_us: At
    nodes: Annotated[NodeRanges, Field(description="Those whose state changed.")]


class NodeUpDict(TypedDict):
    """Nodes came back, empty."""

    kind: Literal["node.up"]
    at_us: At
    nodes: Annotated[NodeRanges, Field(description="Those whose state changed.")]


class TimerFiredDict(TypedDict):
    """An instant that the dispatcher asked to be woken at."""

    kind: Literal["timer.fired"]
    at_us: At
    timer: Annotated[Natural, Field(description="The number it was set with.")]


class WorkloadExhaustedDict(TypedDict):
    """No further job will be submitted."""

    kind: Literal["workload.exhausted"]
    at_us: At


class UnknownEventDict(TypedDict):
    """An event of a later version; a dispatcher passes over it."""

    kind: UnknownEventKind
    at_us: At


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

    id: DecisionId
    kind: Literal["start"]
    job: DecidedJob
    allocation: NotRequired[
        Annotated[
            AllocationArray | None,
            Field(description="Where its chunks are to lie; absent: the server places it."),
        ]
    ]


class RejectDict(TypedDict):
    """Remove a pending job for good."""

    id: DecisionId
    kind: Literal["reject"]
    job: DecidedJob
    reason: NotRequired[Reason]


class KillDict(TypedDict):
    """End a running job at this instant."""

    id: DecisionId
    kind: Literal["kill"]
    job: DecidedJob


class RequeueDict(TypedDict):
    """End a running job at this instant and put it back in its place in the queue."""

    id: DecisionId
    kind: Literal["requeue"]
    job: DecidedJob


class HoldDict(TypedDict):
    """Let a pending job not be started until it is released."""

    id: DecisionId
    kind: Literal["hold"]
    job: DecidedJob
    reason: NotRequired[Reason]


class ReleaseDict(TypedDict):
    """Let a held job be started again."""

    id: DecisionId
    kind: Literal["release"]
    job: DecidedJob


class WakeDict(TypedDict):
    """Ask to be asked at an instant after this one."""

    id: DecisionId
    kind: Literal["wake"]
    timer: Annotated[Natural, Field(description="A number that no waiting timer has.")]
    at_us: Annotated[Integer, Field(description="When to be woken; after now.")]


class WakeCancelDict(TypedDict):
    """Give up a timer that waits."""

    id: DecisionId
    kind: Literal["wake.cancel"]
    timer: Annotated[Natural, Field(description="The number it was set with.")]


class AnnotateDict(TypedDict):
    """Note what is expected of a pending job."""

    id: DecisionId
    kind: Literal["annotate"]
    job: DecidedJob
    expected_start_us: NotRequired[
        Annotated[Natural | None, Field(description="When it is expected to start.")]
    ]
    reason: NotRequired[Annotated[Text | None, Field(description="Why it waits.")]]


class SubmitDict(TypedDict):
    """Bring in a job that the workload does not hold."""

    id: DecisionId
    kind: Literal["submit"]
    job: Annotated[NewJobDict, Field(description="What it is.")]
    at_us: NotRequired[
        Annotated[Integer | None, Field(description="When it is submitted; absent: now.")]
    ]


class StopDict(TypedDict):
    """End the whole run here."""

    id: DecisionId
    kind: Literal["stop"]
    reason: NotRequired[Reason]


class UnknownDecisionDict(TypedDict):
    """A decision of a later version; it is refused by itself, as `decision.unsupported`."""

    id: DecisionId
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

    id: DecisionId
    status: Annotated[
        Literal["applied", "rejected"],
        Field(description="It took effect, or it changed nothing."),
    ]
    code: NotRequired[
        Annotated[Text | None, Field(description="Why it was rejected, from the registry.")]
    ]
    message: NotRequired[
        Annotated[Text | None, Field(description="The same for people, with the numbers.")]
    ]
    allocation: NotRequired[
        Annotated[
            AllocationArray | None,
            Field(
                description="Where the server placed the job; absent where the dispatcher placed "
                "it."
            ),
        ]
    ]
    job: NotRequired[
        Annotated[Natural | None, Field(description="The number given to a submitted job.")]
    ]
    at_us: NotRequired[
        Annotated[
            Natural | None,
            Field(description="When it took effect or was refused, where decisions take time."),
        ]
    ]


# ---------------------------------------------------------------------- bodies


class ProgramDict(TypedDict):
    """Who is speaking."""

    name: Annotated[Text, Field(description="What it is called.")]
    version: Annotated[Text, Field(description="Which version of it.")]
    language: NotRequired[Annotated[Text | None, Field(description="What it is written in.")]]


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

    session: Annotated[Text, Field(description="As the welcome gave it.")]
    token: Annotated[Text, Field(description="As the welcome gave it.")]


class HelloBody(TypedDict):
    """Who the client is and what it wants."""

    versions: Annotated[
        list[Text], Field(min_length=1, description="Of the protocol, that the client speaks.")
    ]
    client: Annotated[ProgramDict, Field(description="Who it is.")]
    capabilities: NotRequired[
        Annotated[CapabilitiesDict | None, Field(description="What it can do and asks for.")]
    ]
    ask: NotRequired[
        Annotated[Ask | None, Field(description="When to ask; `always` is the default.")]
    ]
    wants: NotRequired[
        Annotated[list[Text] | None, Field(description="Kinds of event to be told; absent: all.")]
    ]
    scenario: NotRequired[
        Annotated[Text | None, Field(description="Which, where a server offers several.")]
    ]
    resume: NotRequired[
        Annotated[ResumeDict | None, Field(description="To go on with a session, not begin one.")]
    ]


class GrantedDict(TypedDict):
    """The capabilities in force."""

    state: Annotated[StateMode, Field(description="Whether every request carries the state.")]
    decisions: Annotated[
        DecisionMode, Field(description="Whether a reply is carried out as a whole.")
    ]
    submit: Annotated[Flag, Field(description="Whether jobs may be submitted.")]


class LimitsDict(TypedDict):
    """What the server bears."""

    message_bytes: Annotated[Positive, Field(description="Bytes in one frame.")]
    depth: Annotated[
        Positive, Field(description="Maps and arrays within each other, the message included.")
    ]
    string_bytes: Annotated[Positive, Field(description="Bytes of UTF-8 in one string.")]
    array_items: Annotated[Positive, Field(description="Items of one array, or pairs of one map.")]
    containers: Annotated[Positive, Field(description="Maps and arrays in one message.")]
    decisions: Annotated[Positive, Field(description="Decisions in one reply.")]
    undecodable: Annotated[
        Positive, Field(description="Messages that cannot be decoded before the session fails.")
    ]
    sessions: NotRequired[
        Annotated[
            Positive | None, Field(description="Sessions open at once; absent: without limit.")
        ]
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
    latency_model: Annotated[
        LatencyModel, Field(description="How much simulated time a decision takes.")
    ]
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

    request: Annotated[Text, Field(description="What one requested processor means.")]
    select: Annotated[Text, Field(description="Which lines of the trace became jobs.")]
    on_overrun: Annotated[
        Text, Field(description="What becomes of a job at its walltime: run or kill.")
    ]
    estimate: Annotated[Text, Field(description="Where walltimes come from.")]
    estimate_missing: Annotated[
        Text, Field(description="The walltime of a job that asks for none.")
    ]


class ScenarioDict(TypedDict):
    """What is simulated."""

    name: Annotated[Text, Field(description="What it is called.")]
    digest: Annotated[Text, Field(description="The same for the same inputs and rules.")]
    rules: Annotated[RulesDict, Field(description="How the workload was read.")]


class WelcomeBody(TypedDict):
    """What the session will be like."""

    version: Annotated[Text, Field(description="Of the protocol, for this session.")]
    server: Annotated[ProgramDict, Field(description="Who the server is.")]
    granted: Annotated[GrantedDict, Field(description="The capabilities in force.")]
    ask: Annotated[Ask, Field(description="When it will ask.")]
    wants: Annotated[list[Text], Field(description="Kinds of event that will be told.")]
    token: Annotated[Text, Field(description="Proves, with a resume, whose session it is.")]
    resumed: Annotated[Flag, Field(description="The run has begun already.")]
    seed: Annotated[Natural, Field(description="For the dispatcher's own random choices.")]
    limits: Annotated[LimitsDict, Field(description="What the server bears.")]
    policy: Annotated[
        PolicyDict, Field(description="How the server takes what goes wrong or takes time.")
    ]
    scenario: Annotated[ScenarioDict, Field(description="What is simulated.")]
    platform: Annotated[PlatformDict, Field(description="The machine.")]


class EmptyBody(TypedDict):
    """Nothing to say beyond the type."""


class DecisionRequestBody(TypedDict):
    """An instant, what happened since the last one, and what became of the last decisions."""

    now_us: Annotated[Natural, Field(description="The present instant of simulated time.")]
    attempt: Annotated[
        Positive,
        Field(description="1; more where the request is made again: refusals, a resume."),
    ]
    events: Annotated[
        list[EventDict], Field(description="What happened since the last request, in order.")
    ]
    outcomes: Annotated[
        list[OutcomeDict], Field(description="What became of the last decisions, in their order.")
    ]
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

    decisions: Annotated[list[DecisionDict], Field(description="In the order to be applied.")]
    state_version: Annotated[Natural, Field(description="As in the request.")]
    compute_us: NotRequired[
        Annotated[Natural | None, Field(description="Wall time the decision took.")]
    ]


class StateSnapshotBody(TypedDict):
    """The whole state, at the instant of the request that waits for its reply."""

    now_us: Annotated[Natural, Field(description="As in the outstanding request.")]
    state_version: Annotated[Natural, Field(description="As in the outstanding request.")]
    state: Annotated[StateDict, Field(description="The whole state.")]


class ProgressBody(TypedDict):
    """Still alive; more time, please."""

    note: NotRequired[Annotated[Text | None, Field(description="For whoever reads the dialogue.")]]


class ProgressAckBody(TypedDict):
    """The clock of the deadline was set back."""

    deadline_ms: Annotated[Natural, Field(description="Wall time left, from now on.")]


class StatsDict(TypedDict):
    """Jobs by what became of them."""

    submitted: Annotated[
        Natural, Field(description="All that were, with those that the empty machine cannot hold.")
    ]
    completed: Annotated[Natural, Field(description="Done.")]
    failed: Annotated[Natural, Field(description="Lost with a node.")]
    timed_out: Annotated[Natural, Field(description="Ended at their walltime.")]
    killed: Annotated[Natural, Field(description="Ended by a decision.")]
    rejected: Annotated[
        Natural, Field(description="Removed by a decision, or too large for the empty machine.")
    ]
    requeues: Annotated[Natural, Field(description="Attempts that were given up.")]


class SessionEndBody(TypedDict):
    """The run is over."""

    reason: Annotated[
        Text, Field(description="completed, stalled, stopped, or bye; there may be others.")
    ]
    now_us: Annotated[Natural, Field(description="The last instant of simulated time.")]
    outcomes: Annotated[
        list[OutcomeDict], Field(description="What became of the last decisions, in their order.")
    ]
    stats: Annotated[StatsDict, Field(description="Jobs by what became of them.")]


class ErrorBody(TypedDict):
    """What was wrong with a message; unless it is fatal, the message counts as never sent."""

    code: Annotated[Text, Field(description="Why, from the registry.")]
    message: Annotated[Text, Field(description="The same for people, with the numbers.")]
    fatal: Annotated[Flag, Field(description="Whether this ends the session.")]
    path: NotRequired[Annotated[Text | None, Field(description="The field in question.")]]
    supported: NotRequired[Annotated[list[Text] | None, Field(description="What would do.")]]


class ByeBody(TypedDict):
    """The client leaves."""

    reason: NotRequired[Reason]


# ---------------------------------------------------------------------- messages


class _FromClient(TypedDict):
    v: EnvelopeVersion
    session: Annotated[Text, Field(description="As in the last welcome.")]
    epoch: Annotated[Natural, Field(description="As in the last welcome.")]
    re: Annotated[Natural, Field(description="The seq of the message this answers.")]


class _FromServer(TypedDict):
    v: EnvelopeVersion
    session: Annotated[Text, Field(description="Names the session.")]
    epoch: Annotated[
        Natural, Field(description="Counts the clients that took the session up, from 1.")
    ]
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
    session: NotRequired[
        Annotated[Text | None, Field(description="The session in question, if there is one.")]
    ]
    epoch: NotRequired[Annotated[Natural | None, Field(description="Of that session.")]]
    seq: NotRequired[
        Annotated[Natural | None, Field(description="As in every message of a session.")]
    ]
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
