// Jobs as a dispatcher knows them: everything but how long they will run.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "parley/messages.hpp"

namespace parley {

/// When a job without a limit ends: later than any instant of a simulation.
constexpr Micros never = Micros{1} << 61;
/// How long it lasts: beyond `never`, whenever it starts.
constexpr Micros forever = Micros{1} << 62;
constexpr Micros second = 1'000'000;

/// What one chunk asks of its node. A view makes each shape once: equal shapes are one object.
struct Shape {
    /// Amount of each resource, by its place among the cluster's resources; zeros are left out.
    std::vector<std::pair<std::size_t, std::int64_t>> amounts;
    /// It takes a wholly empty node, all of it.
    bool exclusive = false;
    /// It names a resource that no node has.
    bool nowhere = false;
    /// Jobs of the same kind fit wherever enough slots are free: shared chunks of one shape, or
    /// whole nodes of the same groups.
    std::size_t kind = 0;
};

/// A job that was submitted. A reference to one holds until its end was told.
struct Job {
    std::int64_t number = 0;
    std::string name;
    Micros submit_us = 0;
    std::optional<Micros> walltime_us;  // absent: without limit
    std::int64_t chunks = 0;
    const Shape* shape = nullptr;
    std::optional<std::string> user, group, queue, partition;
    std::optional<AnyMap> attributes;

    // While it runs: since when, and where.
    Micros start_us = -1;
    Spans spans;

    /// For how long a policy takes it to have its nodes: zero counts as a second.
    Micros planned_length() const {
        if (!walltime_us) return forever;
        return *walltime_us == 0 ? second : *walltime_us;
    }

    /// When its walltime is over, be it past.
    Micros estimated_end() const { return walltime_us ? start_us + *walltime_us : never; }

private:
    friend class Queue;
    friend class View;
    enum class Place { pending, held, running, gone };
    Place place_ = Place::pending;
    mutable std::size_t slot_ = 0;  // in the queue
};

}  // namespace parley
