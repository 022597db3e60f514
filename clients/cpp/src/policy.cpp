#include "parley/policy.hpp"

#include <algorithm>

namespace parley {

void Periodic::begin(View& view) {
    tick_ = -1;
    policy_->begin(view);
}

void Periodic::decide(View& view) {
    // Where decisions take time, a timer may fire while they do; one is told of it afterwards.
    const bool woken = tick_ >= 0 && tick_ <= view.now_us();
    if (woken) tick_ = -1;
    if (!woken && view.now_us() % interval_us_ != 0) {
        come_back(view);
        return;
    }
    const std::size_t waiting = view.queue().size();
    policy_->decide(view);
    // Where something started there may be more to do; else the next event will say.
    if (view.queue().size() < waiting) come_back(view);
}

void Periodic::come_back(View& view) {
    if (view.queue().empty() || tick_ >= 0) return;
    // The next after this takes effect: before, it would be refused as past.
    tick_ = ((view.now_us() + view.latency_us()) / interval_us_ + 1) * interval_us_;
    view.call_at(tick_);
}

void KillOverdue::decide(View& view) {
    std::vector<const Job*> overdue;
    for (const Running& running : view.running()) {
        if (running.end_us > view.now_us()) break;
        overdue.push_back(running.job);
    }
    std::sort(overdue.begin(), overdue.end(),
              [](const Job* a, const Job* b) { return a->number < b->number; });
    for (const Job* job : overdue) view.kill(*job);
    policy_->decide(view);
}

}  // namespace parley
