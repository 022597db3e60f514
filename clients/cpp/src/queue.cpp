#include "parley/queue.hpp"

#include <algorithm>
#include <tuple>

namespace parley {
namespace {

/// What stands where a job has left: too large for any room.
constexpr Queue::Slot nobody{forever, forever, nullptr};

bool before(const Job& a, const Job& b) {
    return std::tie(a.submit_us, a.number) < std::tie(b.submit_us, b.number);
}

}  // namespace

void Queue::clear() {
    slots_.clear();
    first_ = size_ = 0;
}

void Queue::add(Job& job) {
    if (slots_.size() > 2 * size_ + 64) close_ranks();
    while (slots_.size() > first_ && slots_.back().job == nullptr) slots_.pop_back();
    // It mostly comes last; a job that comes back has its place before others.
    std::size_t at = slots_.size();
    while (at > first_ && (slots_[at - 1].job == nullptr || before(job, *slots_[at - 1].job))) --at;
    slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(at),
                  {job.chunks, job.planned_length(), &job});
    for (; at < slots_.size(); ++at) {
        if (slots_[at].job != nullptr) slots_[at].job->slot_ = at;
    }
    ++size_;
}

void Queue::remove(Job& job) {
    slots_[job.slot_] = nobody;
    --size_;
    while (first_ < slots_.size() && slots_[first_].job == nullptr) ++first_;
}

void Queue::close_ranks() {
    slots_.erase(std::remove_if(slots_.begin(), slots_.end(),
                                [](const Slot& slot) { return slot.job == nullptr; }),
                 slots_.end());
    first_ = 0;
    for (std::size_t at = 0; at < slots_.size(); ++at) {
        slots_[at].job->slot_ = at;
    }
}

}  // namespace parley
