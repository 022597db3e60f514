// First fit, held to a search that keeps no index.

#include <random>

#include <doctest/doctest.h>

#include "files.hpp"

using parley::Amounts;
using parley::ChunkGroup;
using parley::Cluster;
using parley::Spans;

namespace {

/// The nodes, written down plainly.
struct Plain {
    struct Node {
        std::map<std::string, std::int64_t> free;
        std::int64_t chunks = 0;
        bool whole = false, down = false;
    };
    std::vector<Node> nodes;

    std::int64_t room(const Node& node, const ChunkGroup& group) const {
        if (node.down || node.whole || (group.exclusive && node.chunks > 0)) return 0;
        std::int64_t count = group.exclusive ? 1 : 1000000;
        for (const auto& [name, amount] : group.per_chunk) {
            const auto at = node.free.find(name);
            const std::int64_t free = at == node.free.end() ? 0 : at->second;
            if (amount > 0) count = std::min(count, free / amount);
        }
        return count;
    }

    std::optional<Spans> first_fit(ChunkGroup group) const {
        Spans spans;
        for (std::size_t at = 0; at < nodes.size() && group.chunks > 0; ++at) {
            const auto node = static_cast<std::int64_t>(at);
            const std::int64_t here = std::min(room(nodes[at], group), group.chunks);
            if (here == 0) continue;
            group.chunks -= here;
            if (!spans.empty() && spans.back().last + 1 == node && spans.back().chunks == here) {
                spans.back().last = node;
            } else {
                spans.push_back({node, node, here});
            }
        }
        if (group.chunks > 0) return std::nullopt;
        return spans;
    }

    void change(const ChunkGroup& group, const Spans& spans, std::int64_t sign) {
        for (const parley::Span& span : spans) {
            for (std::int64_t at = span.first; at <= span.last; ++at) {
                Node& node = nodes[static_cast<std::size_t>(at)];
                node.chunks += sign * span.chunks;
                if (group.exclusive) {
                    node.whole = sign > 0;
                    continue;
                }
                for (const auto& [name, amount] : group.per_chunk) {
                    node.free[name] -= sign * span.chunks * amount;
                }
            }
        }
    }
};

struct Random {
    std::mt19937 engine;
    std::int64_t upto(std::int64_t most) {
        return static_cast<std::int64_t>(engine() % static_cast<std::uint32_t>(most + 1));
    }
};

ChunkGroup any_group(Random& random) {
    ChunkGroup group{1 + random.upto(12), {}, random.upto(2) == 0};
    if (random.upto(4) > 0) group.per_chunk.emplace_back("memory", random.upto(5));
    group.per_chunk.emplace_back("core", 1 + random.upto(3));
    if (random.upto(5) == 0) group.per_chunk.emplace_back("gpu", 1);
    if (random.upto(40) == 0) group.per_chunk.emplace_back("licence", 1);
    return group;
}

}  // namespace

TEST_CASE("first fit is the lowest nodes that hold a job, whatever happened before") {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        Random random{std::mt19937(seed)};
        std::vector<parley::NodeGroup> groups;
        Plain plain;
        for (std::int64_t group = 0; group <= random.upto(3); ++group) {
            const auto first = static_cast<std::int64_t>(plain.nodes.size());
            Amounts capacity{{"core", 1 + random.upto(7)}};
            if (random.upto(1) == 1) capacity.emplace_back("memory", random.upto(16));
            if (random.upto(2) == 0) capacity.emplace_back("gpu", 2);
            const std::int64_t last = first + random.upto(50);
            groups.push_back({"g", first, last, capacity});
            Plain::Node node;
            node.free = {capacity.begin(), capacity.end()};
            plain.nodes.resize(static_cast<std::size_t>(last + 1), node);
        }
        const auto empty = plain.nodes;
        parley::Platform platform{static_cast<std::int64_t>(plain.nodes.size()), groups};
        Cluster cluster(platform);
        std::vector<std::pair<ChunkGroup, Spans>> running;
        for (int step = 0; step < 300; ++step) {
            const ChunkGroup group = any_group(random);
            const parley::Shape& shape = cluster.shape(group);
            const std::optional<Spans> found = cluster.first_fit(shape, group.chunks);
            REQUIRE(found == plain.first_fit(group));
            if (found) {
                cluster.take(shape, *found);
                plain.change(group, *found, 1);
                running.emplace_back(group, *found);
            }
            while (!running.empty() && random.upto(2) == 0) {
                const auto at = static_cast<std::size_t>(
                    random.upto(static_cast<std::int64_t>(running.size()) - 1));
                cluster.release(cluster.shape(running[at].first), running[at].second);
                plain.change(running[at].first, running[at].second, -1);
                running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
            }
            const std::int64_t node = random.upto(platform.node_count - 1);
            auto& there = plain.nodes[static_cast<std::size_t>(node)];
            if (there.down) {
                cluster.come_up({node, node});
                there.down = false;
            } else if (there.chunks == 0 && random.upto(3) == 0) {
                cluster.go_down({node, node});
                there.down = true;
            }
        }
    }
}

TEST_CASE("equal shapes are one object, in whatever order a message names their resources") {
    parley::Platform platform{2, {{"g", 0, 1, {{"core", 4}, {"memory", 8}}}}};
    Cluster cluster(platform);

    const parley::Shape& one = cluster.shape({3, {{"core", 1}, {"memory", 2}}, false});
    const parley::Shape& same = cluster.shape({5, {{"memory", 2}, {"core", 1}}, false});
    const parley::Shape& other = cluster.shape({5, {{"memory", 2}, {"core", 1}}, true});

    CHECK(&one == &same);
    CHECK(&one != &other);
}

TEST_CASE("whole nodes of the same groups are one kind of slot") {
    parley::Platform platform{
        4, {{"small", 0, 1, {{"core", 2}}}, {"large", 2, 3, {{"core", 8}}}}};
    Cluster cluster(platform);

    CHECK(cluster.shape({1, {{"core", 1}}, true}).kind ==
          cluster.shape({1, {{"core", 2}}, true}).kind);
    CHECK(cluster.shape({1, {{"core", 1}}, true}).kind !=
          cluster.shape({1, {{"core", 3}}, true}).kind);
    CHECK(cluster.shape({1, {{"core", 1}}, false}).kind !=
          cluster.shape({1, {{"core", 2}}, false}).kind);
}
