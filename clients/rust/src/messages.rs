//! The messages of the protocol and what they are made of, field by field as `schemas/` has them; a
//! test holds them to it. What is optional there is an [`Option`] here.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Says who the client is and what it wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HelloBody {
    pub versions: Vec<String>,
    pub client: Program,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// Says who is speaking.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// What a client can do; what is absent it cannot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<bool>,
}

/// Names a session that a client takes up again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    pub session: String,
    pub token: String,
}

/// Says what the session will be like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WelcomeBody {
    pub version: String,
    pub server: Program,
    pub granted: Granted,
    pub ask: String,
    pub wants: Vec<String>,
    pub token: String,
    pub resumed: bool,
    pub seed: u64,
    pub limits: Limits,
    pub policy: Policy,
    pub scenario: Scenario,
    pub platform: Platform,
}

/// The capabilities in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    pub state: String,
    pub decisions: String,
    pub submit: bool,
}

/// What the server bears.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub message_bytes: u64,
    pub depth: u64,
    pub string_bytes: u64,
    pub array_items: u64,
    pub containers: u64,
    pub decisions: u64,
    pub undecodable: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
}

/// How the server takes what goes wrong, and how long a decision lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub on_reject: String,
    pub reasks: u64,
    pub on_timeout: String,
    pub on_disconnect: String,
    pub reconnect_ms: u64,
    pub latency_model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_factor: Option<f64>,
    pub on_node_down: String,
}

/// What is simulated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    pub name: String,
    pub digest: String,
    pub rules: WorkloadRules,
}

/// Say how the workload was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRules {
    pub request: String,
    pub select: String,
    pub on_overrun: String,
    pub estimate: String,
    pub estimate_missing: String,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    pub node_count: u64,
    pub groups: Vec<NodeGroup>,
}

/// Nodes of one kind, numbered in a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeGroup {
    pub name: String,
    pub first: u64,
    pub last: u64,
    pub capacity: BTreeMap<String, u64>,
}

/// An instant, what happened since the last one, and what became of the last decisions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct DecisionRequestBody {
    pub now_us: u64,
    pub attempt: u64,
    pub events: Vec<Event>,
    pub outcomes: Vec<Outcome>,
    pub state_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// The whole state, at the instant of the request that waits for its reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StateSnapshotBody {
    pub now_us: u64,
    pub state_version: u64,
    pub state: State,
}

/// All that a dispatcher needs to go on from here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub pending: Vec<JobDescription>,
    pub held: Vec<u64>,
    pub running: Vec<RunningEntry>,
    pub nodes: Vec<NodeRun>,
    pub timers: Vec<TimerEntry>,
    pub exhausted: bool,
}

/// A job as a dispatcher may know it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDescription {
    pub job: u64,
    pub name: String,
    pub submit_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_us: Option<u64>,
    pub request: Vec<ChunkGroup>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Map<String, Value>>,
}

/// So many chunks of one shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChunkGroup {
    pub chunks: u64,
    pub per_chunk: BTreeMap<String, u64>,
    pub exclusive: bool,
}

/// A job on its nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningEntry {
    pub job: JobDescription,
    pub start_us: u64,
    pub allocation: Vec<Vec<Span>>,
}

/// A timer that waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimerEntry {
    pub timer: u64,
    pub at_us: u64,
}

/// What became of one decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub id: u64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Vec<Vec<Span>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<u64>,
}

/// The run begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStart {
    pub kind: String,
    pub at_us: u64,
}

/// A job joined the queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSubmitted {
    pub kind: String,
    pub at_us: u64,
    pub job: JobDescription,
}

/// A job was started by another than this client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStarted {
    pub kind: String,
    pub at_us: u64,
    pub job: u64,
    pub allocation: Vec<Vec<Span>>,
}

/// A job left its nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobEnded {
    pub kind: String,
    pub at_us: u64,
    pub job: u64,
    pub status: String,
}

/// Nodes went out of service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeDown {
    pub kind: String,
    pub at_us: u64,
    pub nodes: Vec<NodeRange>,
}

/// Nodes came back, empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeUp {
    pub kind: String,
    pub at_us: u64,
    pub nodes: Vec<NodeRange>,
}

/// An instant came that the dispatcher asked to be woken at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimerFired {
    pub kind: String,
    pub at_us: u64,
    pub timer: u64,
}

/// No further job will be submitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadExhausted {
    pub kind: String,
    pub at_us: u64,
}

/// One of a later version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnknownEvent {
    pub kind: String,
    pub at_us: u64,
}

/// What to do now, carried out in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DecisionReplyBody {
    pub decisions: Vec<Decision>,
    pub state_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_us: Option<u64>,
}

/// Puts a pending job on its nodes now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub id: u64,
    pub kind: String,
    pub job: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Vec<Vec<Span>>>,
}

/// Removes a pending job for good.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    pub id: u64,
    pub kind: String,
    pub job: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Ends a running job at this instant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    pub id: u64,
    pub kind: String,
    pub job: u64,
}

/// Ends a running job at this instant and puts it back in its place in the queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requeue {
    pub id: u64,
    pub kind: String,
    pub job: u64,
}

/// Lets a pending job not be started until it is released.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub id: u64,
    pub kind: String,
    pub job: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Lets a held job be started again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Release {
    pub id: u64,
    pub kind: String,
    pub job: u64,
}

/// Asks to be asked at an instant after this one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    pub id: u64,
    pub kind: String,
    pub timer: u64,
    pub at_us: u64,
}

/// Gives up a timer that waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WakeCancel {
    pub id: u64,
    pub kind: String,
    pub timer: u64,
}

/// Notes what is expected of a pending job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Annotate {
    pub id: u64,
    pub kind: String,
    pub job: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Brings in a job that the workload does not hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    pub id: u64,
    pub kind: String,
    pub job: NewJob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<u64>,
}

/// A job that the dispatcher brings in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub runtime_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime_us: Option<u64>,
    pub request: Vec<ChunkGroup>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Map<String, Value>>,
}

/// Ends the whole run here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub id: u64,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Says why the run is over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionEndBody {
    pub reason: String,
    pub now_us: u64,
    pub outcomes: Vec<Outcome>,
    pub stats: Stats,
}

/// Count jobs by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub killed: u64,
    pub rejected: u64,
    pub requeues: u64,
}

/// What was wrong with a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    pub fatal: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported: Option<Vec<String>>,
}

/// Asks for more time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The clock of the deadline was set back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressAckBody {
    pub deadline_ms: u64,
}

/// The client leaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ByeBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl SessionEndBody {
    /// Whether the run came to an end that was meant (R-LIFE-14).
    pub fn complete(&self) -> bool {
        self.reason == "completed" || self.reason == "stopped"
    }
}

/// The body of ready, state.request, ping and pong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Empty {}

/// An event, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run begins.
    SessionStart(SessionStart),
    /// A job joined the queue.
    JobSubmitted(JobSubmitted),
    /// A job was started by another than this client.
    JobStarted(JobStarted),
    /// A job left its nodes.
    JobEnded(JobEnded),
    /// Nodes went out of service.
    NodeDown(NodeDown),
    /// Nodes came back, empty.
    NodeUp(NodeUp),
    /// An instant came that the dispatcher asked to be woken at.
    TimerFired(TimerFired),
    /// No further job will be submitted.
    WorkloadExhausted(WorkloadExhausted),
    /// One of a later version (R-EVT-2).
    Unknown(UnknownEvent),
}

impl Event {
    /// When it happened, microseconds since time 0.
    pub fn at_us(&self) -> u64 {
        match self {
            Event::SessionStart(event) => event.at_us,
            Event::JobSubmitted(event) => event.at_us,
            Event::JobStarted(event) => event.at_us,
            Event::JobEnded(event) => event.at_us,
            Event::NodeDown(event) => event.at_us,
            Event::NodeUp(event) => event.at_us,
            Event::TimerFired(event) => event.at_us,
            Event::WorkloadExhausted(event) => event.at_us,
            Event::Unknown(event) => event.at_us,
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Event, D::Error> {
        let value = Value::deserialize(from)?;
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "session.start" => made(value).map(Event::SessionStart),
            "job.submitted" => made(value).map(Event::JobSubmitted),
            "job.started" => made(value).map(Event::JobStarted),
            "job.ended" => made(value).map(Event::JobEnded),
            "node.down" => made(value).map(Event::NodeDown),
            "node.up" => made(value).map(Event::NodeUp),
            "timer.fired" => made(value).map(Event::TimerFired),
            "workload.exhausted" => made(value).map(Event::WorkloadExhausted),
            _ => made(value).map(Event::Unknown),
        }
    }
}

fn made<T: DeserializeOwned, E: serde::de::Error>(value: Value) -> Result<T, E> {
    T::deserialize(value).map_err(E::custom)
}

/// A decision; each says its kind itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Decision {
    /// Puts a pending job on its nodes now.
    Start(Start),
    /// Removes a pending job for good.
    Reject(Reject),
    /// Ends a running job.
    Kill(Kill),
    /// Ends a running job, which is pending again.
    Requeue(Requeue),
    /// Keeps a pending job from being started.
    Hold(Hold),
    /// Lets a held job be started again.
    Release(Release),
    /// Sets a timer.
    Wake(Wake),
    /// Gives a timer up.
    WakeCancel(WakeCancel),
    /// Notes what is expected of a pending job.
    Annotate(Annotate),
    /// Brings in a job.
    Submit(Submit),
    /// Ends the run.
    Stop(Stop),
}

/// A run of equal nodes: first, last, what is free of each resource on each, up or down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRun(pub usize, pub usize, pub BTreeMap<String, u64>, pub String);

/// Nodes first to last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeRange(pub usize, pub usize);

/// So many chunks on each of the nodes first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(usize, usize, u64)", into = "(usize, usize, u64)")]
pub struct Span {
    pub first: usize,
    pub last: usize,
    pub chunks: u64,
}

impl From<(usize, usize, u64)> for Span {
    fn from((first, last, chunks): (usize, usize, u64)) -> Span {
        Span { first, last, chunks }
    }
}

impl From<Span> for (usize, usize, u64) {
    fn from(span: Span) -> (usize, usize, u64) {
        (span.first, span.last, span.chunks)
    }
}

/// A message to the server; session, epoch and re are absent in hello.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question<B> {
    pub v: u64,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub re: Option<u64>,
    pub body: B,
}

/// A message from the server; session, epoch and seq are absent in an error without a session.
#[derive(Debug, Deserialize)]
pub struct Answer {
    pub v: u64,
    #[serde(rename = "type")]
    pub kind: String,
    pub session: Option<String>,
    pub epoch: Option<u64>,
    pub seq: Option<u64>,
    pub body: Value,
}
