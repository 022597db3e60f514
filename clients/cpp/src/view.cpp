#include "parley/view.hpp"

#include <algorithm>
#include <set>

#include <sodium.h>

namespace parley {
namespace {

std::string called(const Job& job) {
    return "job " + std::to_string(job.number) + " (" + job.name + ")";
}

const Spans& only_group(const Allocation& allocation) {
    if (allocation.size() != 1) throw Drifted("an allocation of several groups");
    return allocation.front();
}

/// Join neighbouring spans with equally many chunks a node; they must ascend.
Spans merged(Spans spans) {
    if (spans.size() < 2) return spans;
    Spans joined;
    for (const Span& span : spans) {
        if (!joined.empty() && joined.back().last + 1 == span.first &&
            joined.back().chunks == span.chunks) {
            joined.back().last = span.last;
        } else {
            joined.push_back(span);
        }
    }
    return joined;
}

std::string in_hexadecimal(const unsigned char* bytes, std::size_t count) {
    std::string text(2 * count + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), bytes, count);
    text.pop_back();
    return text;
}

}  // namespace

View::View(const Welcome& welcome)
    : cluster_(welcome.platform),
      seed_(welcome.seed),
      latency_us_(welcome.policy.latency_us.value_or(0)) {}

const Job* View::find(std::int64_t number) const {
    const auto at = jobs_.find(number);
    return at == jobs_.end() ? nullptr : &at->second;
}

// -------------------------------------------------------------------- deciding

template <class One>
void View::decide(One decision, Sent sent) {
    decisions_.emplace_back(std::move(decision));
    sent_.push_back(std::move(sent));
}

Job& View::own(const Job& job, Job::Place place, const char* what) {
    if (job.place_ != place) throw Error(called(job) + " is not " + what);
    return const_cast<Job&>(job);  // it lies in jobs_, which is ours to change
}

bool View::start(const Job& job) {
    own(job, Job::Place::pending, "pending");
    std::optional<Spans> spans = place(job);
    if (!spans) return false;
    start(job, std::move(*spans));
    return true;
}

void View::start(const Job& job, Spans spans) {
    Job& mine = own(job, Job::Place::pending, "pending");
    queue_.remove(mine);
    run(mine, merged(std::move(spans)), now_us_);
    decide(Start{next_id(), job.number, Allocation{mine.spans}},
           {Sent::Kind::start, &mine, mine.spans});
}

void View::reject(const Job& job, std::optional<std::string> reason) {
    Job& mine = own(job, Job::Place::pending, "pending");
    queue_.remove(mine);
    forget(mine);
    decide(Reject{next_id(), job.number, std::move(reason)}, {Sent::Kind::reject, &mine});
}

void View::kill(const Job& job) {
    own(job, Job::Place::running, "running");
    decide(Kill{next_id(), job.number}, {Sent::Kind::other});
}

void View::requeue(const Job& job) {
    own(job, Job::Place::running, "running");
    decide(Requeue{next_id(), job.number}, {Sent::Kind::other});
}

void View::hold(const Job& job, std::optional<std::string> reason) {
    Job& mine = own(job, Job::Place::pending, "pending");
    queue_.remove(mine);
    mine.place_ = Job::Place::held;
    held_.emplace(mine.number, &mine);
    decide(Hold{next_id(), job.number, std::move(reason)}, {Sent::Kind::hold, &mine});
}

void View::release(const Job& job) {
    Job& mine = own(job, Job::Place::held, "held");
    held_.erase(mine.number);
    to_queue(mine);
    decide(Release{next_id(), job.number}, {Sent::Kind::release, &mine});
}

std::int64_t View::call_at(Micros at_us) {
    timers_[++timer_] = at_us;
    decide(Wake{next_id(), timer_, at_us}, {Sent::Kind::wake, nullptr, {}, timer_, at_us});
    return timer_;
}

void View::cancel(std::int64_t timer) {
    const auto at = timers_.find(timer);
    if (at == timers_.end()) throw Error("no timer " + std::to_string(timer) + " waits");
    Sent sent{Sent::Kind::cancel, nullptr, {}, timer, at->second};
    timers_.erase(at);
    decide(WakeCancel{next_id(), timer}, std::move(sent));
}

void View::annotate(const Job& job, std::optional<Micros> expected_start_us,
                    std::optional<std::string> reason) {
    decide(Annotate{next_id(), job.number, expected_start_us, std::move(reason)},
           {Sent::Kind::other});
}

void View::submit(NewJob job, std::optional<Micros> at_us) {
    decide(Submit{next_id(), std::move(job), at_us}, {Sent::Kind::other});
}

void View::stop(std::optional<std::string> reason) {
    decide(Stop{next_id(), std::move(reason)}, {Sent::Kind::other});
}

std::vector<Decision> View::take_decisions() { return std::exchange(decisions_, {}); }

// -------------------------------------------------------------------- following the server

void View::update(DecisionRequest& request) {
    now_us_ = request.now_us;
    fired_.clear();
    rejected_.clear();
    const auto& outcomes = request.outcomes;
    if (request.state) {
        for (const Outcome& outcome : outcomes) {
            if (!outcome.applied()) rejected_.push_back(outcome);
        }
        sent_.clear();
        leaving_.clear();
        load(*request.state);
        for (const Event& event : request.events) note_told(event);
        return;
    }
    const bool took_time = std::any_of(outcomes.begin(), outcomes.end(),
                                       [](const Outcome& outcome) { return outcome.at_us; });
    if (took_time) {
        catch_up(request);
    } else {
        // Backwards: a decision about a job may stand on one before it.
        for (auto outcome = outcomes.rbegin(); outcome != outcomes.rend(); ++outcome) {
            if (outcome->applied()) continue;
            undo(sent_as(*outcome), outcome->code.value_or(""));
            rejected_.insert(rejected_.begin(), *outcome);
        }
        for (Event& event : request.events) {
            std::visit([this](auto& one) { follow(one); }, event);
        }
    }
    for (const std::int64_t number : leaving_) {
        const auto at = jobs_.find(number);
        if (at != jobs_.end() && at->second.place_ == Job::Place::gone) jobs_.erase(at);
    }
    leaving_.clear();
    sent_.clear();
}

void View::note_told(const Event& event) {
    if (const auto* fired = std::get_if<TimerFired>(&event)) fired_.push_back(fired->timer);
}

void View::follow(JobSubmitted& event) { to_queue(add(event.job, Job::Place::pending)); }

void View::follow(JobStarted& event) {
    const auto at = jobs_.find(event.job);
    if (at == jobs_.end() || at->second.place_ != Job::Place::pending) {
        throw Drifted("job " + std::to_string(event.job) + " was started, and is not pending here");
    }
    queue_.remove(at->second);
    run(at->second, merged(only_group(event.allocation)), event.at_us);
}

void View::follow(JobEnded& event) {
    const auto at = jobs_.find(event.job);
    if (at == jobs_.end() || at->second.place_ != Job::Place::running) {
        throw Drifted("job " + std::to_string(event.job) + " has ended, and does not run here");
    }
    Job& job = at->second;
    leave_nodes(job);
    if (event.status == "requeued") {
        to_queue(job);
    } else {
        forget(job);
    }
}

void View::follow(NodeDown& event) {
    for (const NodeRange& nodes : event.nodes) cluster_.go_down(nodes);
}

void View::follow(NodeUp& event) {
    for (const NodeRange& nodes : event.nodes) cluster_.come_up(nodes);
}

void View::follow(TimerFired& event) {
    fired_.push_back(event.timer);
    timers_.erase(event.timer);
}

void View::follow(WorkloadExhausted&) { exhausted_ = true; }

const View::Sent& View::sent_as(const Outcome& outcome) const {
    if (outcome.id < 0 || outcome.id >= static_cast<std::int64_t>(sent_.size())) {
        throw Drifted("an outcome of decision " + std::to_string(outcome.id) +
                      ", which was not sent");
    }
    return sent_[static_cast<std::size_t>(outcome.id)];
}

/// Take in what happened while decisions were on their way, and then they. Until then they hold
/// nothing. They take effect behind the events of their instant, save for those that they bring.
void View::catch_up(DecisionRequest& request) {
    for (auto sent = sent_.rbegin(); sent != sent_.rend(); ++sent) undo(*sent, "");
    Micros effect = 0;
    for (const Outcome& outcome : request.outcomes) {
        effect = std::max(effect, outcome.at_us.value_or(0));
    }
    std::set<std::int64_t> started;
    for (const Sent& sent : sent_) {
        if (sent.kind == Sent::Kind::start) started.insert(sent.job->number);
    }
    bool settled = false;
    for (Event& event : request.events) {
        const auto* ended = std::get_if<JobEnded>(&event);
        const Micros at_us = std::visit([](const auto& one) { return one.at_us; }, event);
        if (!settled && (at_us > effect || (ended != nullptr && started.count(ended->job) > 0))) {
            settled = true;
            settle(request.outcomes);
        }
        std::visit([this](auto& one) { follow(one); }, event);
    }
    if (!settled) settle(request.outcomes);
}

void View::settle(const std::vector<Outcome>& outcomes) {
    for (const Outcome& outcome : outcomes) {
        if (outcome.applied()) {
            redo(sent_as(outcome), outcome.at_us.value_or(now_us_));
        } else {
            rejected_.push_back(outcome);
        }
    }
}

/// Take a decision back that was refused with a code, or has not taken effect yet.
void View::undo(const Sent& sent, const std::string& code) {
    const bool gone = code == "job.unknown" || code == "job.not_pending";
    if (sent.job != nullptr && sent.job->place_ == Job::Place::gone &&
        sent.kind != Sent::Kind::reject) {
        return;
    }
    switch (sent.kind) {
        case Sent::Kind::start:
            leave_nodes(*sent.job);
            break;
        case Sent::Kind::hold:
            held_.erase(sent.job->number);
            break;
        case Sent::Kind::release:
            queue_.remove(*sent.job);
            if (gone) {
                forget(*sent.job);
            } else {
                sent.job->place_ = Job::Place::held;
                held_.emplace(sent.job->number, sent.job);
            }
            return;
        case Sent::Kind::wake:
            timers_.erase(sent.timer);
            return;
        case Sent::Kind::cancel:
            if (code != "timer.unknown") timers_[sent.timer] = sent.at_us;
            return;
        case Sent::Kind::reject:
            if (!gone) ++kinds_[sent.job->shape->kind];
            break;
        case Sent::Kind::other:
            return;
    }
    if (!gone) {
        to_queue(*sent.job);
    } else if (sent.kind != Sent::Kind::reject) {
        forget(*sent.job);
    }
}

/// Let a decision that was undone take effect at an instant.
void View::redo(const Sent& sent, Micros at_us) {
    switch (sent.kind) {
        case Sent::Kind::start:
            queue_.remove(*sent.job);
            run(*sent.job, sent.spans, at_us);
            break;
        case Sent::Kind::reject:
            queue_.remove(*sent.job);
            forget(*sent.job);
            break;
        case Sent::Kind::hold:
            queue_.remove(*sent.job);
            sent.job->place_ = Job::Place::held;
            held_.emplace(sent.job->number, sent.job);
            break;
        case Sent::Kind::release:
            held_.erase(sent.job->number);
            to_queue(*sent.job);
            break;
        case Sent::Kind::wake:
            timers_[sent.timer] = sent.at_us;
            break;
        case Sent::Kind::cancel:
            timers_.erase(sent.timer);
            break;
        case Sent::Kind::other:
            break;
    }
}

/// Begin anew from a full state.
void View::load(State& state) {
    queue_.clear();
    jobs_.clear();
    running_.clear();
    held_.clear();
    timers_.clear();
    kinds_.clear();
    cluster_.clear();
    const std::set<std::int64_t> held(state.held.begin(), state.held.end());
    for (JobDescription& description : state.pending) {
        const bool is_held = held.count(description.job) > 0;
        Job& job = add(description, is_held ? Job::Place::held : Job::Place::pending);
        if (is_held) {
            held_.emplace(job.number, &job);
        } else {
            to_queue(job);
        }
    }
    for (RunningJob& running : state.running) {
        Job& job = add(running.job, Job::Place::pending);
        run(job, merged(only_group(running.allocation)), running.start_us);
    }
    for (const NodeRun& nodes : state.nodes) {
        if (!nodes.up) cluster_.go_down({nodes.first, nodes.last});
    }
    for (const Timer& timer : state.timers) timers_[timer.timer] = timer.at_us;
    if (!timers_.empty()) timer_ = timers_.rbegin()->first;
    exhausted_ = state.exhausted;
}

// -------------------------------------------------------------------- jobs and their places

Job& View::add(JobDescription& description, Job::Place place) {
    if (description.request.size() != 1) {
        throw Error("job " + std::to_string(description.job) + " asks for " +
                    std::to_string(description.request.size()) +
                    " groups of chunks; this client knows one");
    }
    const auto [at, fresh] = jobs_.try_emplace(description.job);
    if (!fresh) throw Drifted("job " + std::to_string(description.job) + " was submitted before");
    Job& job = at->second;
    job.number = description.job;
    job.name = std::move(description.name);
    job.submit_us = description.submit_us;
    job.walltime_us = description.walltime_us;
    job.chunks = description.request.front().chunks;
    job.shape = &cluster_.shape(description.request.front());
    job.user = std::move(description.user);
    job.group = std::move(description.group);
    job.queue = std::move(description.queue);
    job.partition = std::move(description.partition);
    job.attributes = std::move(description.attributes);
    job.place_ = place;
    ++kinds_[job.shape->kind];
    return job;
}

std::vector<Running>::iterator View::among_running(const Job& job) {
    return std::lower_bound(running_.begin(), running_.end(), job,
                            [](const Running& running, const Job& other) {
                                const Micros end = other.estimated_end();
                                return running.end_us < end || (running.end_us == end &&
                                                                running.job->number < other.number);
                            });
}

void View::run(Job& job, Spans spans, Micros at_us) {
    cluster_.take(*job.shape, spans);
    job.place_ = Job::Place::running;
    job.start_us = at_us;
    job.spans = std::move(spans);
    running_.insert(among_running(job), {job.estimated_end(), job.chunks, &job});
}

void View::leave_nodes(Job& job) {
    running_.erase(among_running(job));
    cluster_.release(*job.shape, job.spans);
    job.start_us = -1;
    job.spans.clear();
}

void View::to_queue(Job& job) {
    job.place_ = Job::Place::pending;
    queue_.add(job);
}

/// A job is neither pending nor running any more.
void View::forget(Job& job) {
    job.place_ = Job::Place::gone;
    leaving_.push_back(job.number);
    const auto at = kinds_.find(job.shape->kind);
    if (--at->second == 0) kinds_.erase(at);
}

std::string View::digest() const {
    std::string text = "now " + std::to_string(now_us_) + "\n";
    std::set<std::int64_t> pending;
    for (const Job& job : queue_) pending.insert(job.number);
    for (const auto& [number, job] : held_) pending.insert(number);
    for (const std::int64_t number : pending) text += "pending " + std::to_string(number) + "\n";
    for (const auto& [number, job] : held_) text += "held " + std::to_string(number) + "\n";
    std::map<std::int64_t, const Job*> running;
    for (const Running& one : running_) running.emplace(one.job->number, one.job);
    for (const auto& [number, job] : running) {
        text += "running " + std::to_string(number) + " " + std::to_string(job->start_us);
        char before = ' ';
        for (const Span& span : job->spans) {
            text += before + std::to_string(span.first) + "-" + std::to_string(span.last) + "*" +
                    std::to_string(span.chunks);
            before = ',';
        }
        text += "\n";
    }
    for (std::size_t at = 0; at < cluster_.resources().size(); ++at) {
        text += "free " + cluster_.resources()[at] + " " + cluster_.free_in_all(at) + "\n";
    }
    for (const auto& [first, last] : cluster_.down()) {
        text += "down " + std::to_string(first) + "-" + std::to_string(last) + "\n";
    }
    for (const auto& [timer, at_us] : timers_) {
        text += "timer " + std::to_string(timer) + " " + std::to_string(at_us) + "\n";
    }
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    return in_hexadecimal(hash, sizeof hash);
}

}  // namespace parley
