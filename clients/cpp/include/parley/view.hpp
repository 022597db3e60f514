// What a dispatcher sees when it is asked, and the hands with which it decides.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "parley/cluster.hpp"
#include "parley/errors.hpp"
#include "parley/job.hpp"
#include "parley/messages.hpp"
#include "parley/queue.hpp"

namespace parley {

/// The server tells of something that cannot be, by what was told before: ask for the state.
class Drifted : public Error {
    using Error::Error;
};

/// A running job, and what is looked at when many of them are.
struct Running {
    Micros end_us;  // estimated, be it past
    std::int64_t chunks;
    const Job* job;
};

/// The state of the simulation as the dispatcher knows it.
///
/// A decision takes effect here at once, so that the next one sees it; should the server refuse
/// it, it is undone before the next request is shown.
class View {
public:
    explicit View(const Welcome& welcome);

    // ------------------------------------------------------------ seeing

    Micros now_us() const { return now_us_; }
    /// Pending jobs that are not held.
    const Queue& queue() const { return queue_; }
    /// Running jobs, by their estimated end, then number.
    const std::vector<Running>& running() const { return running_; }
    Cluster& cluster() { return cluster_; }
    /// Held jobs by number.
    const std::map<std::int64_t, const Job*>& held() const { return held_; }
    /// Instants of the timers that wait, by their number.
    const std::map<std::int64_t, Micros>& timers() const { return timers_; }
    /// Timers that fired since the last request.
    const std::vector<std::int64_t>& fired() const { return fired_; }
    /// What the server refused of the last decisions.
    const std::vector<Outcome>& rejected() const { return rejected_; }
    bool exhausted() const { return exhausted_; }
    /// For random choices, given by the scenario.
    std::int64_t seed() const { return seed_; }
    /// How long decisions take to take effect, simulated; 0 where that is not fixed.
    Micros latency_us() const { return latency_us_; }
    /// Whether all jobs, pending and running, ask for slots of one kind, so that counting tells
    /// what fits.
    bool one_kind() const { return kinds_.size() <= 1; }
    /// The job of a number, pending or running, or null.
    const Job* find(std::int64_t number) const;

    // ------------------------------------------------------------ deciding

    /// Where first fit would put a job now, or nothing; nothing changes.
    std::optional<Spans> place(const Job& job) {
        return cluster_.first_fit(*job.shape, job.chunks);
    }
    /// Start a pending job where first fit puts it; false, and nothing changes, if it does not fit.
    bool start(const Job& job);
    /// Start a pending job on these nodes.
    void start(const Job& job, Spans spans);
    /// Remove a pending job for good.
    void reject(const Job& job, std::optional<std::string> reason = {});
    /// End a running job at this instant; its nodes are free when its end is told.
    void kill(const Job& job);
    /// End a running job at this instant; it is pending again when that is told.
    void requeue(const Job& job);
    /// Take a pending job out of the queue until it is released.
    void hold(const Job& job, std::optional<std::string> reason = {});
    void release(const Job& job);
    /// Ask to be asked at an instant after now; return the timer's number.
    std::int64_t call_at(Micros at_us);
    /// Give up a timer that waits.
    void cancel(std::int64_t timer);
    /// Note when a pending job is expected to start, or why it waits.
    void annotate(const Job& job, std::optional<Micros> expected_start_us,
                  std::optional<std::string> reason = {});
    /// Bring in a job, now or later; the session must have the capability `submit`.
    void submit(NewJob job, std::optional<Micros> at_us = {});
    /// End the whole run here.
    void stop(std::optional<std::string> reason = {});

    // ------------------------------------------------------------ following the server

    /// Take in a request: outcomes of the last decisions, then events. Jobs move out of it.
    /// Throws Drifted where it contradicts what was told before.
    void update(DecisionRequest& request);
    /// Hand over what was decided since the last call.
    std::vector<Decision> take_decisions();
    /// The digest of the state as it is known here; O(jobs + nodes).
    std::string digest() const;

private:
    /// A decision on its way; what it takes to undo it, and to do it again.
    struct Sent {
        enum class Kind { start, reject, hold, release, wake, cancel, other } kind;
        Job* job = nullptr;
        Spans spans = {};
        std::int64_t timer = 0;
        Micros at_us = 0;
    };

    std::int64_t next_id() const { return static_cast<std::int64_t>(decisions_.size()); }
    template <class One>
    void decide(One decision, Sent sent);
    Job& own(const Job& job, Job::Place place, const char* what);

    void follow(JobSubmitted& event);
    void follow(JobStarted& event);
    void follow(JobEnded& event);
    void follow(NodeDown& event);
    void follow(NodeUp& event);
    void follow(TimerFired& event);
    void follow(WorkloadExhausted& event);
    void follow(SessionStart&) {}
    void follow(UnknownEvent&) {}
    void note_told(const Event& event);

    const Sent& sent_as(const Outcome& outcome) const;
    void settle(const std::vector<Outcome>& outcomes);
    void catch_up(DecisionRequest& request);
    void undo(const Sent& sent, const std::string& code);
    void redo(const Sent& sent, Micros at_us);
    void load(State& state);

    Job& add(JobDescription& description, Job::Place place);
    void run(Job& job, Spans spans, Micros at_us);
    void leave_nodes(Job& job);
    void forget(Job& job);
    void to_queue(Job& job);
    std::vector<Running>::iterator among_running(const Job& job);

    Micros now_us_ = 0;
    Cluster cluster_;
    Queue queue_;
    std::unordered_map<std::int64_t, Job> jobs_;
    std::vector<Running> running_;
    std::map<std::int64_t, const Job*> held_;
    std::map<std::int64_t, Micros> timers_;
    std::unordered_map<std::size_t, std::int64_t> kinds_;  // jobs by the kind of their slots
    std::vector<std::int64_t> fired_;
    std::vector<Outcome> rejected_;
    std::vector<Decision> decisions_;
    std::vector<Sent> sent_;
    std::vector<std::int64_t> leaving_;  // jobs that are gone, unless that is refused
    std::int64_t timer_ = 0;
    std::int64_t seed_;
    Micros latency_us_;
    bool exhausted_ = false;
};

}  // namespace parley
