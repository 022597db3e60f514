// A dispatcher's picture of the nodes, made for being searched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parley/job.hpp"
#include "parley/messages.hpp"

namespace parley {

/// The nodes of a platform and what is free on them.
///
/// For each shape that is asked for, an index says how many chunks each node would take and which
/// nodes take any, a bit a node. A change is noted once, however many indexes there are; an index
/// is brought up to date, on the nodes that changed, when somebody asks.
class Cluster {
public:
    explicit Cluster(const Platform& platform);
    /// Another picture of the same machine; shapes are the same objects in both.
    Cluster(const Cluster& other);
    Cluster& operator=(const Cluster&) = delete;

    std::int64_t node_count() const { return node_count_; }
    /// Names of the resources, ascending by code points.
    const std::vector<std::string>& resources() const { return resources_; }

    /// How many chunks of a shape fit now, on all nodes together.
    std::int64_t available(const Shape& shape);
    /// The lowest-numbered nodes that hold the chunks, each filled as far as it goes, merged; or
    /// none if they do not fit. Cost: O(nodes used + nodes / 64).
    std::optional<Spans> first_fit(const Shape& shape, std::int64_t chunks);

    /// What is free of a resource on a node; 0 where it is down or taken whole.
    std::int64_t free(std::int64_t node, std::size_t resource) const;
    bool up(std::int64_t node) const { return !nodes_[node].down; }
    /// What is free of a resource on all nodes, in decimal: it may be more than 64 bits hold.
    std::string free_in_all(std::size_t resource) const;
    /// Ranges of nodes that are out of service, ascending, merged.
    std::vector<NodeRange> down() const;

    /// Return the one object of a shape. Throws nothing: a resource that no node has fits nowhere.
    const Shape& shape(const ChunkGroup& group);

    void take(const Shape& shape, const Spans& spans);
    void release(const Shape& shape, const Spans& spans);
    /// Take nodes on which nothing runs out of service; return them, empty.
    void go_down(NodeRange nodes);
    void come_up(NodeRange nodes);
    /// Empty all nodes, and return them to service.
    void clear();
    /// Take over what lies on the nodes of another picture of the same machine.
    void copy_loads(const Cluster& other);

private:
    struct Node {
        std::int64_t chunks = 0;
        bool sealed = false;  // taken whole, or down
        bool down = false;
    };
    struct Room {
        std::vector<std::int64_t> counts;   // chunks that each node would take now
        std::vector<std::uint64_t> usable;  // a bit a node: whether it would take any
        std::int64_t total = 0;
        std::size_t seen = 0;  // changes taken in
        bool known = false;
    };

    void change(const Shape& shape, const Spans& spans, std::int64_t sign);
    void note(std::int64_t first, std::int64_t last);
    Room& room(const Shape& shape);
    void recount(Room& room, const Shape& shape, std::int64_t first, std::int64_t last) const;
    std::int64_t count(const Shape& shape, std::int64_t node) const;
    static std::int64_t most(const Shape& shape, const std::vector<std::int64_t>& capacity);
    bool same_amounts(const Shape& shape, const ChunkGroup& group) const;
    std::optional<std::size_t> resource(const std::string& name) const;

    struct Group {
        std::int64_t first, last;
        std::vector<std::int64_t> capacity;  // by resource
    };

    std::int64_t node_count_;
    std::vector<std::string> resources_;
    std::vector<Group> groups_;
    std::vector<Node> nodes_;
    std::vector<std::int64_t> free_;  // of node n and resource r: at n * resources + r
    std::vector<NodeRange> changes_;
    std::unordered_map<const Shape*, Room> rooms_;
    const Shape* last_shape_ = nullptr;
    Room* last_room_ = nullptr;
    struct Shapes;
    std::shared_ptr<Shapes> shapes_;
};

}  // namespace parley
