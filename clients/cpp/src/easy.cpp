#include "parley/easy.hpp"

#include <algorithm>

namespace parley {
namespace {

/// Call `release(running)` for running jobs by their planned end, and after all of one instant
/// `enough()`; return the first instant at which that is so, or `never`.
template <class Release, class Enough>
Micros first_instant(const View& view, Release release, Enough enough) {
    const auto& running = view.running();
    const Micros soon = view.now_us() + second;
    auto overdue = running.begin();
    auto next = std::partition_point(running.begin(), running.end(), [&](const Running& one) {
        return one.end_us <= view.now_us();
    });
    const auto first_in_time = next;
    while (overdue != first_in_time || next != running.end()) {
        // The overdue ones end a second from now, together with whoever ends then.
        const Micros end = next == running.end() ? soon
                           : overdue != first_in_time ? std::min(soon, next->end_us)
                                                      : next->end_us;
        if (end == soon) {
            for (; overdue != first_in_time; ++overdue) release(*overdue);
        }
        for (; next != running.end() && next->end_us == end; ++next) release(*next);
        if (enough()) return end;
    }
    return never;
}

}  // namespace

void Easy::decide(View& view) {
    const Job* head = view.queue().head();
    while (head != nullptr && view.start(*head)) head = view.queue().head();
    if (head == nullptr || view.queue().size() == 1) return;
    if (view.one_kind()) {
        backfill_slots(view);
    } else {
        backfill_nodes(view);
    }
}

void Easy::backfill_slots(View& view) {
    const Job& head = *view.queue().head();
    std::int64_t free = view.cluster().available(*head.shape);
    if (free == 0) return;
    std::optional<Micros> until_shadow;
    std::int64_t extra = 0;  // slots that are left at the shadow time when the head has started
    const Queue& queue = view.queue();
    for (const Queue::Slot* slot = queue.slots_begin() + 1; slot != queue.slots_end(); ++slot) {
        if (slot->chunks > free) continue;
        if (!until_shadow) {
            // Nothing has changed since the head did not fit: its time may be found here.
            std::int64_t missing = head.chunks - free;
            const Micros shadow = first_instant(
                view, [&](const Running& running) { missing -= running.chunks; },
                [&] { return missing <= 0; });
            until_shadow = shadow - view.now_us();
            extra = std::max<std::int64_t>(-missing, 0);
        }
        const bool beyond = slot->length_us > *until_shadow;
        if (beyond && slot->chunks > extra) continue;
        free -= slot->chunks;
        if (beyond) extra -= slot->chunks;
        view.start(*slot->job);
        if (free == 0) return;
    }
}

void Easy::backfill_nodes(View& view) {
    const Job& head = *view.queue().head();
    std::optional<Micros> shadow;
    for (auto at = ++view.queue().begin(); at != view.queue().end(); ++at) {
        const Job& job = *at;
        std::optional<Spans> spans = view.place(job);
        if (!spans) continue;
        if (!shadow) shadow = shadow_on_nodes(view, head);
        if (view.now_us() + job.planned_length() > *shadow) {
            then_->take(*job.shape, *spans);
            if (then_->available(*head.shape) < head.chunks) {
                then_->release(*job.shape, *spans);
                continue;
            }
        }
        view.start(job, std::move(*spans));
    }
}

Micros Easy::shadow_on_nodes(View& view, const Job& head) {
    if (then_) {
        then_->copy_loads(view.cluster());
    } else {
        then_.emplace(view.cluster());
    }
    return first_instant(
        view,
        [&](const Running& running) { then_->release(*running.job->shape, running.job->spans); },
        [&] { return then_->available(*head.shape) >= head.chunks; });
}

}  // namespace parley
