#include "parley/policy.hpp"

#include <algorithm>

namespace parley {

void Periodic::begin(View& view) {
    tick_ = -1;
    policy_->begin(view);
}

void Periodic::decide(View& view) {
    if (view.now_us() % interval_us_ != 0) {
        come_back(view);
        return;
    }
    const std::size_t waiting = view.queue().size();
    policy_->decide(view);
    // Where something started there may be more to do; else the next event will say.
    if (view.queue().size() < waiting) come_back(view);
}

void Periodic::come_back(View& view) {
    const Micros tick = (view.now_us() / interval_us_ + 1) * interval_us_;
    if (view.queue().empty() || tick_ >= tick) return;
    tick_ = tick;
    view.call_at(tick);
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
