// The pending jobs, by submission, then number.
#pragma once

#include <cstddef>
#include <vector>

#include "parley/job.hpp"

namespace parley {

/// Walking along it is walking along memory: size and length of each job stand beside its place,
/// and jobs may leave while somebody walks. Adding at the end and leaving cost O(1) in effect.
class Queue {
public:
    /// A place in the queue; `job` is null where one has left.
    struct Slot {
        std::int64_t chunks;
        Micros length_us;  // planned
        const Job* job;
    };

    class Iterator {
    public:
        Iterator(const Queue& queue, std::size_t at) : queue_(&queue), at_(at) { pass_empty(); }
        const Job& operator*() const { return *queue_->slots_[at_].job; }
        Iterator& operator++() {
            ++at_;
            pass_empty();
            return *this;
        }
        bool operator!=(const Iterator& other) const { return at_ != other.at_; }

    private:
        void pass_empty() {
            while (at_ < queue_->slots_.size() && queue_->slots_[at_].job == nullptr) ++at_;
        }
        const Queue* queue_;
        std::size_t at_;
    };

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    /// The job that waits longest, or null.
    const Job* head() const { return size_ == 0 ? nullptr : slots_[first_].job; }
    Iterator begin() const { return {*this, first_}; }
    Iterator end() const { return {*this, slots_.size()}; }
    /// The places themselves from the head on, for whoever is in a hurry.
    const Slot* slots_begin() const { return slots_.data() + first_; }
    const Slot* slots_end() const { return slots_.data() + slots_.size(); }

private:
    friend class View;
    void clear();
    void add(Job& job);
    void remove(Job& job);
    void close_ranks();

    std::vector<Slot> slots_;
    std::size_t first_ = 0;  // no job stands before it
    std::size_t size_ = 0;
};

}  // namespace parley
