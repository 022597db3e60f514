#include "parley/cluster.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace parley {
namespace {

/// Chunks that ask for nothing fit on a node without end; so many will do, and add up safely.
constexpr std::int64_t plenty = std::int64_t{1} << 40;
/// Changes that are noted before every index is counted anew rather than brought up to date.
constexpr std::size_t most_changes = 4096;
/// Counts that all indexes may hold together; beyond it they are made anew as they are needed.
constexpr std::size_t most_counts = std::size_t{1} << 24;

void set_bit(std::vector<std::uint64_t>& bits, std::int64_t at, bool to) {
    const std::uint64_t bit = std::uint64_t{1} << (at & 63);
    bits[at >> 6] = to ? bits[at >> 6] | bit : bits[at >> 6] & ~bit;
}

void append(Spans& spans, std::int64_t node, std::int64_t chunks) {
    if (!spans.empty() && spans.back().last + 1 == node && spans.back().chunks == chunks) {
        spans.back().last = node;
    } else {
        spans.push_back({node, node, chunks});
    }
}

}  // namespace

struct Cluster::Shapes {
    using Key = std::tuple<bool, bool, std::vector<std::pair<std::size_t, std::int64_t>>>;
    std::map<Key, std::unique_ptr<Shape>> known;
    std::map<std::vector<bool>, std::size_t> kinds_of_whole_nodes;
    std::size_t kinds = 0;
    const Shape* last = nullptr;
    ChunkGroup last_group;
};

Cluster::Cluster(const Platform& platform)
    : node_count_(platform.node_count), shapes_(std::make_shared<Shapes>()) {
    std::set<std::string> names;
    for (const NodeGroup& group : platform.groups) {
        for (const auto& [name, amount] : group.capacity) names.insert(name);
    }
    resources_.assign(names.begin(), names.end());  // bytes of UTF-8 sort as code points do
    for (const NodeGroup& group : platform.groups) {
        std::vector<std::int64_t> capacity(resources_.size(), 0);
        for (const auto& [name, amount] : group.capacity) capacity[*resource(name)] = amount;
        groups_.push_back({group.first, group.last, std::move(capacity)});
    }
    clear();
}

Cluster::Cluster(const Cluster& other)
    : node_count_(other.node_count_), resources_(other.resources_), groups_(other.groups_),
      nodes_(other.nodes_), free_(other.free_), shapes_(other.shapes_) {}

void Cluster::clear() {
    nodes_.assign(node_count_, {});
    free_.assign(node_count_ * resources_.size(), 0);
    for (const Group& group : groups_) {
        for (std::int64_t node = group.first; node <= group.last; ++node) {
            std::copy(group.capacity.begin(), group.capacity.end(),
                      free_.begin() + node * resources_.size());
        }
    }
    for (auto& [shape, room] : rooms_) room.known = false;
    changes_.clear();
}

void Cluster::copy_loads(const Cluster& other) {
    nodes_ = other.nodes_;
    free_ = other.free_;
    for (auto& [shape, room] : rooms_) room.known = false;
    changes_.clear();
}

std::optional<std::size_t> Cluster::resource(const std::string& name) const {
    const auto at = std::lower_bound(resources_.begin(), resources_.end(), name);
    if (at == resources_.end() || *at != name) return std::nullopt;
    return at - resources_.begin();
}

const Shape& Cluster::shape(const ChunkGroup& group) {
    Shapes& shapes = *shapes_;
    if (shapes.last != nullptr && shapes.last_group.exclusive == group.exclusive &&
        shapes.last_group.per_chunk == group.per_chunk) {
        return *shapes.last;
    }
    Shape made;
    made.exclusive = group.exclusive;
    for (const auto& [name, amount] : group.per_chunk) {
        if (amount == 0) continue;
        if (const auto at = resource(name)) {
            made.amounts.emplace_back(*at, amount);
        } else {
            made.nowhere = true;
        }
    }
    std::sort(made.amounts.begin(), made.amounts.end());
    auto& known = shapes.known[{made.exclusive, made.nowhere, made.amounts}];
    if (known == nullptr) {
        if (made.exclusive) {
            std::vector<bool> takes;
            for (const Group& kind : groups_) takes.push_back(most(made, kind.capacity) > 0);
            const auto [at, fresh] = shapes.kinds_of_whole_nodes.try_emplace(takes, shapes.kinds);
            if (fresh) ++shapes.kinds;
            made.kind = at->second;
        } else {
            made.kind = shapes.kinds++;
        }
        known = std::make_unique<Shape>(std::move(made));
    }
    shapes.last = known.get();
    shapes.last_group = group;
    return *known;
}

std::int64_t Cluster::most(const Shape& shape, const std::vector<std::int64_t>& capacity) {
    std::int64_t count = shape.nowhere ? 0 : shape.exclusive ? 1 : plenty;
    for (const auto& [resource, amount] : shape.amounts) {
        count = std::min(count, capacity[resource] / amount);
    }
    return count;
}

std::int64_t Cluster::available(const Shape& shape) { return room(shape).total; }

std::optional<Spans> Cluster::first_fit(const Shape& shape, std::int64_t chunks) {
    const Room& index = room(shape);
    if (index.total < chunks) return std::nullopt;
    Spans spans;
    for (std::size_t word = 0; chunks > 0; ++word) {
        for (std::uint64_t bits = index.usable[word]; bits != 0 && chunks > 0; bits &= bits - 1) {
            const auto node = static_cast<std::int64_t>(word * 64 + __builtin_ctzll(bits));
            const std::int64_t here = std::min(index.counts[node], chunks);
            append(spans, node, here);
            chunks -= here;
        }
    }
    return spans;
}

std::int64_t Cluster::free(std::int64_t node, std::size_t resource) const {
    return nodes_[node].sealed ? 0 : free_[node * resources_.size() + resource];
}

std::string Cluster::free_in_all(std::size_t resource) const {
    constexpr std::uint64_t base = 1'000'000'000'000'000'000;
    std::uint64_t high = 0, low = 0;
    for (std::int64_t node = 0; node < node_count_; ++node) {
        low += static_cast<std::uint64_t>(free(node, resource));
        high += low / base;
        low %= base;
    }
    if (high == 0) return std::to_string(low);
    const std::string tail = std::to_string(low);
    return std::to_string(high) + std::string(18 - tail.size(), '0') + tail;
}

std::vector<NodeRange> Cluster::down() const {
    std::vector<NodeRange> ranges;
    for (std::int64_t node = 0; node < node_count_; ++node) {
        if (!nodes_[node].down) continue;
        if (!ranges.empty() && ranges.back().second + 1 == node) {
            ranges.back().second = node;
        } else {
            ranges.emplace_back(node, node);
        }
    }
    return ranges;
}

void Cluster::take(const Shape& shape, const Spans& spans) { change(shape, spans, 1); }
void Cluster::release(const Shape& shape, const Spans& spans) { change(shape, spans, -1); }

void Cluster::change(const Shape& shape, const Spans& spans, std::int64_t sign) {
    for (const Span& span : spans) {
        for (std::int64_t node = span.first; node <= span.last; ++node) {
            if (shape.exclusive) {
                nodes_[node].sealed = sign > 0;
                continue;
            }
            nodes_[node].chunks += sign * span.chunks;
            for (const auto& [resource, amount] : shape.amounts) {
                free_[node * resources_.size() + resource] -= sign * span.chunks * amount;
            }
        }
        note(span.first, span.last);
    }
}

void Cluster::go_down(NodeRange nodes) {
    for (std::int64_t node = nodes.first; node <= nodes.second; ++node) {
        nodes_[node].down = nodes_[node].sealed = true;
    }
    note(nodes.first, nodes.second);
}

void Cluster::come_up(NodeRange nodes) {
    for (std::int64_t node = nodes.first; node <= nodes.second; ++node) {
        nodes_[node].down = nodes_[node].sealed = false;
    }
    note(nodes.first, nodes.second);
}

void Cluster::note(std::int64_t first, std::int64_t last) {
    if (changes_.size() == most_changes) {
        changes_.clear();
        for (auto& [shape, room] : rooms_) room.known = false;
    }
    changes_.emplace_back(first, last);
}

Cluster::Room& Cluster::room(const Shape& shape) {
    if (&shape != last_shape_) {
        if (rooms_.size() * node_count_ >= most_counts) rooms_.clear();
        last_room_ = &rooms_[&shape];
        last_shape_ = &shape;
    }
    Room& room = *last_room_;
    if (!room.known) {
        room.counts.assign(node_count_, 0);
        room.usable.assign((node_count_ + 63) / 64, 0);
        room.total = 0;
        recount(room, shape, 0, node_count_ - 1);
        room.known = true;
    } else {
        for (; room.seen < changes_.size(); ++room.seen) {
            recount(room, shape, changes_[room.seen].first, changes_[room.seen].second);
        }
    }
    room.seen = changes_.size();
    return room;
}

void Cluster::recount(Room& room, const Shape& shape, std::int64_t first,
                      std::int64_t last) const {
    for (std::int64_t node = first; node <= last; ++node) {
        const std::int64_t now = count(shape, node);
        room.total += now - room.counts[node];
        room.counts[node] = now;
        set_bit(room.usable, node, now > 0);
    }
}

std::int64_t Cluster::count(const Shape& shape, std::int64_t node) const {
    const Node& there = nodes_[node];
    if (there.sealed || shape.nowhere || (shape.exclusive && there.chunks > 0)) return 0;
    std::int64_t count = shape.exclusive ? 1 : plenty;
    const std::int64_t* const free = free_.data() + node * resources_.size();
    for (const auto& [resource, amount] : shape.amounts) {
        // One comparison says what a division would, mostly: whether any fits, or one and no more.
        if (free[resource] < amount) return 0;
        if (count > 1) count = std::min(count, free[resource] / amount);
    }
    return count;
}

}  // namespace parley
