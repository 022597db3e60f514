// What is said on the wire. Each type lists its fields once, by the names that the schemas have;
// reading, writing and the test against the schemas follow from that list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace parley {

/// Simulated time, whole microseconds since the scenario's time 0.
using Micros = std::int64_t;

/// One field of a message: its name on the wire, and where it lies. It is optional if its type is.
template <class Owner, class Type>
struct Field {
    std::string_view name;
    Type Owner::*member;
};

template <class Owner, class Type>
constexpr Field<Owner, Type> field(std::string_view name, Type Owner::*member) {
    return {name, member};
}

/// Nodes first to last, each with so many chunks of a job.
struct Span {
    std::int64_t first;
    std::int64_t last;
    std::int64_t chunks;

    friend bool operator==(const Span& a, const Span& b) {
        return a.first == b.first && a.last == b.last && a.chunks == b.chunks;
    }
};

using Spans = std::vector<Span>;
using Allocation = std::vector<Spans>;  // one list for each group of the request
using Amounts = std::vector<std::pair<std::string, std::int64_t>>;  // by the name of the resource
using NodeRange = std::pair<std::int64_t, std::int64_t>;            // first node, last node

/// A map of values of any kind, kept as its MessagePack: nobody here looks into it.
struct AnyMap {
    std::string bytes;
};

struct Program {
    std::string name, version;
    std::optional<std::string> language;

    static constexpr auto fields() {
        return std::make_tuple(field("name", &Program::name), field("version", &Program::version),
                               field("language", &Program::language));
    }
};

// ---------------------------------------------------------------- the machine and its jobs

struct NodeGroup {
    std::string name;
    std::int64_t first, last;
    Amounts capacity;

    static constexpr auto fields() {
        return std::make_tuple(field("name", &NodeGroup::name), field("first", &NodeGroup::first),
                               field("last", &NodeGroup::last),
                               field("capacity", &NodeGroup::capacity));
    }
};

struct Platform {
    std::int64_t node_count;
    std::vector<NodeGroup> groups;

    static constexpr auto fields() {
        return std::make_tuple(field("node_count", &Platform::node_count),
                               field("groups", &Platform::groups));
    }
};

struct ChunkGroup {
    std::int64_t chunks;
    Amounts per_chunk;
    bool exclusive;

    static constexpr auto fields() {
        return std::make_tuple(field("chunks", &ChunkGroup::chunks),
                               field("per_chunk", &ChunkGroup::per_chunk),
                               field("exclusive", &ChunkGroup::exclusive));
    }
};

/// A job as the server describes it.
struct JobDescription {
    std::int64_t job;
    std::string name;
    Micros submit_us;
    std::vector<ChunkGroup> request;
    std::optional<Micros> walltime_us;
    std::optional<std::string> user, group, queue, partition;
    std::optional<AnyMap> attributes;

    static constexpr auto fields() {
        return std::make_tuple(
            field("job", &JobDescription::job), field("name", &JobDescription::name),
            field("submit_us", &JobDescription::submit_us),
            field("request", &JobDescription::request),
            field("walltime_us", &JobDescription::walltime_us),
            field("user", &JobDescription::user), field("group", &JobDescription::group),
            field("queue", &JobDescription::queue), field("partition", &JobDescription::partition),
            field("attributes", &JobDescription::attributes));
    }
};

// ---------------------------------------------------------------- welcome

struct Granted {
    std::string state, decisions;
    bool submit;

    static constexpr auto fields() {
        return std::make_tuple(field("state", &Granted::state),
                               field("decisions", &Granted::decisions),
                               field("submit", &Granted::submit));
    }
};

struct Limits {
    std::int64_t message_bytes, depth, string_bytes, array_items, containers, decisions,
        undecodable;
    std::optional<std::int64_t> sessions;

    static constexpr auto fields() {
        return std::make_tuple(
            field("message_bytes", &Limits::message_bytes), field("depth", &Limits::depth),
            field("string_bytes", &Limits::string_bytes),
            field("array_items", &Limits::array_items), field("containers", &Limits::containers),
            field("decisions", &Limits::decisions), field("undecodable", &Limits::undecodable),
            field("sessions", &Limits::sessions));
    }
};

struct ServerPolicy {
    std::string on_reject;
    std::int64_t reasks;
    std::string on_timeout, on_disconnect;
    std::int64_t reconnect_ms;
    std::string latency_model;
    std::optional<Micros> latency_us;
    std::optional<double> latency_factor;
    std::string on_node_down;

    static constexpr auto fields() {
        return std::make_tuple(
            field("on_reject", &ServerPolicy::on_reject), field("reasks", &ServerPolicy::reasks),
            field("on_timeout", &ServerPolicy::on_timeout),
            field("on_disconnect", &ServerPolicy::on_disconnect),
            field("reconnect_ms", &ServerPolicy::reconnect_ms),
            field("latency_model", &ServerPolicy::latency_model),
            field("latency_us", &ServerPolicy::latency_us),
            field("latency_factor", &ServerPolicy::latency_factor),
            field("on_node_down", &ServerPolicy::on_node_down));
    }
};

struct Rules {
    std::string request, select, on_overrun, estimate, estimate_missing;

    static constexpr auto fields() {
        return std::make_tuple(field("request", &Rules::request), field("select", &Rules::select),
                               field("on_overrun", &Rules::on_overrun),
                               field("estimate", &Rules::estimate),
                               field("estimate_missing", &Rules::estimate_missing));
    }
};

struct Scenario {
    std::string name, digest;
    Rules rules;

    static constexpr auto fields() {
        return std::make_tuple(field("name", &Scenario::name), field("digest", &Scenario::digest),
                               field("rules", &Scenario::rules));
    }
};

struct Welcome {
    std::string version;
    Program server;
    Granted granted;
    std::string ask;
    std::vector<std::string> wants;
    std::string token;
    bool resumed;
    std::int64_t seed;
    Limits limits;
    ServerPolicy policy;
    Scenario scenario;
    Platform platform;

    static constexpr std::string_view type = "welcome";
    static constexpr auto fields() {
        return std::make_tuple(
            field("version", &Welcome::version), field("server", &Welcome::server),
            field("granted", &Welcome::granted), field("ask", &Welcome::ask),
            field("wants", &Welcome::wants), field("token", &Welcome::token),
            field("resumed", &Welcome::resumed), field("seed", &Welcome::seed),
            field("limits", &Welcome::limits), field("policy", &Welcome::policy),
            field("scenario", &Welcome::scenario), field("platform", &Welcome::platform));
    }
};

// ---------------------------------------------------------------- events

struct SessionStart {
    Micros at_us;
    static constexpr std::string_view kind = "session.start";
    static constexpr auto fields() { return std::make_tuple(field("at_us", &SessionStart::at_us)); }
};

struct JobSubmitted {
    Micros at_us;
    JobDescription job;
    static constexpr std::string_view kind = "job.submitted";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &JobSubmitted::at_us),
                               field("job", &JobSubmitted::job));
    }
};

struct JobStarted {
    Micros at_us;
    std::int64_t job;
    Allocation allocation;
    static constexpr std::string_view kind = "job.started";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &JobStarted::at_us), field("job", &JobStarted::job),
                               field("allocation", &JobStarted::allocation));
    }
};

struct JobEnded {
    Micros at_us;
    std::int64_t job;
    std::string status;
    static constexpr std::string_view kind = "job.ended";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &JobEnded::at_us), field("job", &JobEnded::job),
                               field("status", &JobEnded::status));
    }
};

struct NodeDown {
    Micros at_us;
    std::vector<NodeRange> nodes;
    static constexpr std::string_view kind = "node.down";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &NodeDown::at_us), field("nodes", &NodeDown::nodes));
    }
};

struct NodeUp {
    Micros at_us;
    std::vector<NodeRange> nodes;
    static constexpr std::string_view kind = "node.up";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &NodeUp::at_us), field("nodes", &NodeUp::nodes));
    }
};

struct TimerFired {
    Micros at_us;
    std::int64_t timer;
    static constexpr std::string_view kind = "timer.fired";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &TimerFired::at_us),
                               field("timer", &TimerFired::timer));
    }
};

struct WorkloadExhausted {
    Micros at_us;
    static constexpr std::string_view kind = "workload.exhausted";
    static constexpr auto fields() {
        return std::make_tuple(field("at_us", &WorkloadExhausted::at_us));
    }
};

/// An event of a later version, to be passed over.
struct UnknownEvent {
    Micros at_us;
    static constexpr std::string_view kind = "";
    static constexpr auto fields() { return std::make_tuple(field("at_us", &UnknownEvent::at_us)); }
};

using Event = std::variant<JobSubmitted, JobEnded, TimerFired, JobStarted, NodeDown, NodeUp,
                           SessionStart, WorkloadExhausted, UnknownEvent>;

// ---------------------------------------------------------------- requests, snapshots, the end

struct Outcome {
    std::int64_t id;
    std::string status;
    std::optional<std::string> code, message;
    std::optional<Allocation> allocation;
    std::optional<std::int64_t> job;
    std::optional<Micros> at_us;

    bool applied() const { return status == "applied"; }

    static constexpr auto fields() {
        return std::make_tuple(field("id", &Outcome::id), field("status", &Outcome::status),
                               field("code", &Outcome::code), field("message", &Outcome::message),
                               field("allocation", &Outcome::allocation),
                               field("job", &Outcome::job), field("at_us", &Outcome::at_us));
    }
};

/// A running job, as a state tells of it.
struct RunningJob {
    JobDescription job;
    Micros start_us;
    Allocation allocation;

    static constexpr auto fields() {
        return std::make_tuple(field("job", &RunningJob::job),
                               field("start_us", &RunningJob::start_us),
                               field("allocation", &RunningJob::allocation));
    }
};

/// A run of equal nodes: what is free of each resource on each, and whether they are up.
struct NodeRun {
    std::int64_t first, last;
    Amounts free;
    bool up;
};

struct Timer {
    std::int64_t timer;
    Micros at_us;

    static constexpr auto fields() {
        return std::make_tuple(field("timer", &Timer::timer), field("at_us", &Timer::at_us));
    }
};

struct State {
    std::vector<JobDescription> pending;
    std::vector<std::int64_t> held;
    std::vector<RunningJob> running;
    std::vector<NodeRun> nodes;
    std::vector<Timer> timers;
    bool exhausted;

    static constexpr auto fields() {
        return std::make_tuple(field("pending", &State::pending), field("held", &State::held),
                               field("running", &State::running), field("nodes", &State::nodes),
                               field("timers", &State::timers),
                               field("exhausted", &State::exhausted));
    }
};

struct DecisionRequest {
    Micros now_us;
    std::int64_t attempt;
    std::vector<Event> events;
    std::vector<Outcome> outcomes;
    std::int64_t state_version;
    std::optional<std::string> state_digest;
    std::optional<std::int64_t> deadline_ms;
    std::optional<State> state;

    static constexpr std::string_view type = "decision.request";
    static constexpr auto fields() {
        return std::make_tuple(
            field("now_us", &DecisionRequest::now_us), field("attempt", &DecisionRequest::attempt),
            field("events", &DecisionRequest::events),
            field("outcomes", &DecisionRequest::outcomes),
            field("state_version", &DecisionRequest::state_version),
            field("state_digest", &DecisionRequest::state_digest),
            field("deadline_ms", &DecisionRequest::deadline_ms),
            field("state", &DecisionRequest::state));
    }
};

struct StateSnapshot {
    Micros now_us;
    std::int64_t state_version;
    State state;

    static constexpr std::string_view type = "state.snapshot";
    static constexpr auto fields() {
        return std::make_tuple(field("now_us", &StateSnapshot::now_us),
                               field("state_version", &StateSnapshot::state_version),
                               field("state", &StateSnapshot::state));
    }
};

struct Stats {
    std::int64_t submitted, completed, failed, timed_out, killed, rejected, requeues;

    static constexpr auto fields() {
        return std::make_tuple(
            field("submitted", &Stats::submitted), field("completed", &Stats::completed),
            field("failed", &Stats::failed), field("timed_out", &Stats::timed_out),
            field("killed", &Stats::killed), field("rejected", &Stats::rejected),
            field("requeues", &Stats::requeues));
    }
};

struct SessionEnd {
    std::string reason;
    Micros now_us;
    std::vector<Outcome> outcomes;
    Stats stats;

    /// Whether the run was played to its end, be it one that was decided.
    bool complete() const { return reason == "completed" || reason == "stopped"; }

    static constexpr std::string_view type = "session.end";
    static constexpr auto fields() {
        return std::make_tuple(field("reason", &SessionEnd::reason),
                               field("now_us", &SessionEnd::now_us),
                               field("outcomes", &SessionEnd::outcomes),
                               field("stats", &SessionEnd::stats));
    }
};

struct ProgressAck {
    std::int64_t deadline_ms;

    static constexpr std::string_view type = "progress.ack";
    static constexpr auto fields() {
        return std::make_tuple(field("deadline_ms", &ProgressAck::deadline_ms));
    }
};

struct Pong {
    static constexpr std::string_view type = "pong";
    static constexpr auto fields() { return std::make_tuple(); }
};

struct ErrorMessage {
    std::string code, message;
    bool fatal;
    std::optional<std::string> path;
    std::optional<std::vector<std::string>> supported;

    static constexpr std::string_view type = "error";
    static constexpr auto fields() {
        return std::make_tuple(
            field("code", &ErrorMessage::code), field("message", &ErrorMessage::message),
            field("fatal", &ErrorMessage::fatal), field("path", &ErrorMessage::path),
            field("supported", &ErrorMessage::supported));
    }
};

// ---------------------------------------------------------------- from the dispatcher

struct Capabilities {
    std::optional<std::string> state, decisions;
    std::optional<bool> submit;

    static constexpr auto fields() {
        return std::make_tuple(field("state", &Capabilities::state),
                               field("decisions", &Capabilities::decisions),
                               field("submit", &Capabilities::submit));
    }
};

struct Resume {
    std::string session, token;

    static constexpr auto fields() {
        return std::make_tuple(field("session", &Resume::session), field("token", &Resume::token));
    }
};

struct Hello {
    std::vector<std::string> versions;
    Program client;
    std::optional<Capabilities> capabilities;
    std::optional<std::string> ask;
    std::optional<std::vector<std::string>> wants;
    std::optional<std::string> scenario;
    std::optional<Resume> resume;

    static constexpr std::string_view type = "hello";
    static constexpr auto fields() {
        return std::make_tuple(
            field("versions", &Hello::versions), field("client", &Hello::client),
            field("capabilities", &Hello::capabilities), field("ask", &Hello::ask),
            field("wants", &Hello::wants), field("scenario", &Hello::scenario),
            field("resume", &Hello::resume));
    }
};

struct Ready {
    static constexpr std::string_view type = "ready";
    static constexpr auto fields() { return std::make_tuple(); }
};

struct Ping {
    static constexpr std::string_view type = "ping";
    static constexpr auto fields() { return std::make_tuple(); }
};

struct StateRequest {
    static constexpr std::string_view type = "state.request";
    static constexpr auto fields() { return std::make_tuple(); }
};

struct Progress {
    std::optional<std::string> note;
    static constexpr std::string_view type = "progress";
    static constexpr auto fields() { return std::make_tuple(field("note", &Progress::note)); }
};

struct Bye {
    std::optional<std::string> reason;
    static constexpr std::string_view type = "bye";
    static constexpr auto fields() { return std::make_tuple(field("reason", &Bye::reason)); }
};

struct Start {
    std::int64_t id, job;
    std::optional<Allocation> allocation;
    static constexpr std::string_view kind = "start";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Start::id), field("job", &Start::job),
                               field("allocation", &Start::allocation));
    }
};

struct Reject {
    std::int64_t id, job;
    std::optional<std::string> reason;
    static constexpr std::string_view kind = "reject";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Reject::id), field("job", &Reject::job),
                               field("reason", &Reject::reason));
    }
};

struct Kill {
    std::int64_t id, job;
    static constexpr std::string_view kind = "kill";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Kill::id), field("job", &Kill::job));
    }
};

struct Requeue {
    std::int64_t id, job;
    static constexpr std::string_view kind = "requeue";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Requeue::id), field("job", &Requeue::job));
    }
};

struct Hold {
    std::int64_t id, job;
    std::optional<std::string> reason;
    static constexpr std::string_view kind = "hold";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Hold::id), field("job", &Hold::job),
                               field("reason", &Hold::reason));
    }
};

struct Release {
    std::int64_t id, job;
    static constexpr std::string_view kind = "release";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Release::id), field("job", &Release::job));
    }
};

struct Wake {
    std::int64_t id, timer;
    Micros at_us;
    static constexpr std::string_view kind = "wake";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Wake::id), field("timer", &Wake::timer),
                               field("at_us", &Wake::at_us));
    }
};

struct WakeCancel {
    std::int64_t id, timer;
    static constexpr std::string_view kind = "wake.cancel";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &WakeCancel::id), field("timer", &WakeCancel::timer));
    }
};

struct Annotate {
    std::int64_t id, job;
    std::optional<Micros> expected_start_us;
    std::optional<std::string> reason;
    static constexpr std::string_view kind = "annotate";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Annotate::id), field("job", &Annotate::job),
                               field("expected_start_us", &Annotate::expected_start_us),
                               field("reason", &Annotate::reason));
    }
};

/// A job that the dispatcher brings in itself.
struct NewJob {
    Micros runtime_us;
    std::vector<ChunkGroup> request;
    std::optional<std::string> name;
    std::optional<Micros> walltime_us;
    std::optional<std::string> user, group, queue, partition;
    std::optional<AnyMap> attributes;

    static constexpr auto fields() {
        return std::make_tuple(
            field("runtime_us", &NewJob::runtime_us), field("request", &NewJob::request),
            field("name", &NewJob::name), field("walltime_us", &NewJob::walltime_us),
            field("user", &NewJob::user), field("group", &NewJob::group),
            field("queue", &NewJob::queue), field("partition", &NewJob::partition),
            field("attributes", &NewJob::attributes));
    }
};

struct Submit {
    std::int64_t id;
    NewJob job;
    std::optional<Micros> at_us;
    static constexpr std::string_view kind = "submit";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Submit::id), field("job", &Submit::job),
                               field("at_us", &Submit::at_us));
    }
};

struct Stop {
    std::int64_t id;
    std::optional<std::string> reason;
    static constexpr std::string_view kind = "stop";
    static constexpr auto fields() {
        return std::make_tuple(field("id", &Stop::id), field("reason", &Stop::reason));
    }
};

using Decision = std::variant<Start, Reject, Kill, Requeue, Hold, Release, Wake, WakeCancel,
                              Annotate, Submit, Stop>;

struct DecisionReply {
    std::vector<Decision> decisions;
    std::int64_t state_version;
    std::optional<std::int64_t> compute_us;

    static constexpr std::string_view type = "decision.reply";
    static constexpr auto fields() {
        return std::make_tuple(field("decisions", &DecisionReply::decisions),
                               field("state_version", &DecisionReply::state_version),
                               field("compute_us", &DecisionReply::compute_us));
    }
};

}  // namespace parley
