package parley.client;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import parley.wire.Event.NodeRange;
import parley.wire.Span;
import parley.wire.Welcome.NodeGroup;
import parley.wire.Welcome.Platform;

/**
 * The nodes and what is free on them.
 *
 * <p>What fits is indexed by shape. A change is noted once, and counted into an index when that is
 * asked for: both cost O(nodes touched).
 */
public final class Cluster {
    /** Indexes kept; a trace may ask for another amount of memory in every line. */
    private static final int MOST_ROOMS = 128;

    /** Changes kept; an index that has missed more is made anew. */
    private static final int MOST_CHANGES = 1024;

    private final List<NodeGroup> groups;
    private final int nodeCount;

    /** By resource, ascending in code points; what is free of it on each node. */
    private final Map<String, long[]> free;

    private final int[] groupOf;
    private final long[] chunks;
    private final boolean[] sealed;
    private final boolean[] down;
    private final Span[] changes = new Span[MOST_CHANGES];
    private long changeCount;

    private final Map<Shape, Room> rooms =
            new LinkedHashMap<>() {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<Shape, Room> eldest) {
                    return size() > MOST_ROOMS;
                }
            };

    Cluster(Platform platform) {
        groups = platform.groups();
        nodeCount = platform.nodeCount();
        chunks = new long[nodeCount];
        sealed = new boolean[nodeCount];
        down = new boolean[nodeCount];
        groupOf = new int[nodeCount];
        free = new LinkedHashMap<>();
        groups.stream()
                .flatMap(group -> group.capacity().keySet().stream())
                .distinct()
                .sorted(Text::compareCodePoints)
                .forEach(kind -> free.put(kind, new long[nodeCount]));
        for (int index = 0; index < groups.size(); index++) {
            NodeGroup group = groups.get(index);
            Arrays.fill(groupOf, group.first(), group.last() + 1, index);
            group.capacity()
                    .forEach(
                            (kind, amount) ->
                                    Arrays.fill(
                                            free.get(kind),
                                            group.first(),
                                            group.last() + 1,
                                            amount));
        }
    }

    /** A copy that shares nothing that changes; O(nodes * resources). */
    private Cluster(Cluster origin) {
        groups = origin.groups;
        nodeCount = origin.nodeCount;
        groupOf = origin.groupOf;
        chunks = origin.chunks.clone();
        sealed = origin.sealed.clone();
        down = origin.down.clone();
        free = new LinkedHashMap<>();
        origin.free.forEach((kind, amounts) -> free.put(kind, amounts.clone()));
    }

    /** Returns a copy to think ahead with; O(nodes * resources). */
    public Cluster fork() {
        return new Cluster(this);
    }

    public int nodeCount() {
        return nodeCount;
    }

    /** How many chunks of a shape fit now, on all nodes together. */
    public long available(Shape shape) {
        return room(shape).total();
    }

    public boolean fits(Shape shape, long chunkCount) {
        return available(shape) >= chunkCount;
    }

    /** The lowest-numbered nodes that hold the chunks, each filled as far as it goes; or null. */
    public List<Span> firstFit(Shape shape, long chunkCount) {
        Room room = room(shape);
        return room.total() < chunkCount ? null : room.lowest(chunkCount);
    }

    /** For each group of nodes, whether an empty one takes a chunk of a shape. */
    public List<Boolean> kindsOfNodes(Shape shape) {
        return groups.stream().map(group -> takesWhole(shape, group)).toList();
    }

    /** Puts chunks on nodes that have room for them. */
    public void take(Shape shape, List<Span> spans) {
        change(shape, spans, 1);
    }

    /** Takes chunks off the nodes that hold them. */
    public void release(Shape shape, List<Span> spans) {
        change(shape, spans, -1);
    }

    void setUp(NodeRange range, boolean up) {
        Arrays.fill(down, range.first(), range.last() + 1, !up);
        note(new Span(range.first(), range.last(), 1));
    }

    /** The ranges of nodes that are out of service, ascending, merged. */
    List<NodeRange> down() {
        List<NodeRange> ranges = new ArrayList<>();
        for (int node = 0; node < nodeCount; node++) {
            if (down[node]) {
                int first = node;
                while (node + 1 < nodeCount && down[node + 1]) {
                    node++;
                }
                ranges.add(new NodeRange(first, node));
            }
        }
        return ranges;
    }

    /** What is free of each resource on all nodes in service together; O(nodes). */
    Map<String, BigInteger> free() {
        Map<String, BigInteger> totals = new LinkedHashMap<>();
        free.forEach(
                (kind, amounts) -> {
                    BigInteger total = BigInteger.ZERO;
                    long part = 0;
                    for (int node = 0; node < nodeCount; node++) {
                        part += sealed[node] || down[node] ? 0 : amounts[node];
                        // 1024 amounts of a node may pass what a long holds.
                        if ((node & 511) == 511) {
                            total = total.add(BigInteger.valueOf(part));
                            part = 0;
                        }
                    }
                    totals.put(kind, total.add(BigInteger.valueOf(part)));
                });
        return totals;
    }

    private void change(Shape shape, List<Span> spans, int sign) {
        for (Span span : spans) {
            if (span.last() >= nodeCount || span.first() > span.last()) {
                throw new Drift("there are no nodes " + span.first() + " to " + span.last());
            }
            if (shape.exclusive()) {
                Arrays.fill(sealed, span.first(), span.last() + 1, sign > 0);
            } else {
                put(shape, span, sign * span.chunks());
            }
            note(span);
        }
    }

    private void put(Shape shape, Span span, long change) {
        for (int node = span.first(); node <= span.last(); node++) {
            chunks[node] += change;
        }
        shape.perChunk()
                .forEach(
                        (kind, amount) -> {
                            long[] left = free.get(kind);
                            if (left == null) {
                                throw new Drift("no node has any " + kind);
                            }
                            for (int node = span.first(); node <= span.last(); node++) {
                                left[node] -= amount * change;
                            }
                        });
    }

    private void note(Span span) {
        changes[(int) (changeCount++ % MOST_CHANGES)] = span;
    }

    private Room room(Shape shape) {
        Room room = rooms.get(shape);
        if (room == null) {
            room = new Room(nodeCount);
            count(room, shape, 0, nodeCount - 1);
            rooms.put(shape, room);
        } else if (changeCount - room.changesSeen > MOST_CHANGES) {
            count(room, shape, 0, nodeCount - 1);
        } else {
            for (long at = room.changesSeen; at < changeCount; at++) {
                Span changed = changes[(int) (at % MOST_CHANGES)];
                count(room, shape, changed.first(), changed.last());
            }
        }
        room.changesSeen = changeCount;
        return room;
    }

    private void count(Room room, Shape shape, int first, int last) {
        for (int node = first; node <= last; node++) {
            room.set(node, count(shape, node));
        }
    }

    private long count(Shape shape, int node) {
        if (down[node] || sealed[node]) {
            return 0;
        }
        if (shape.exclusive()) {
            return chunks[node] == 0 && takesWhole(shape, groups.get(groupOf[node])) ? 1 : 0;
        }
        long count = Long.MAX_VALUE >> 12;
        for (Map.Entry<String, Long> asked : shape.perChunk().entrySet()) {
            long[] left = free.get(asked.getKey());
            count = Math.min(count, left == null ? 0 : left[node] / asked.getValue());
        }
        return count;
    }

    private static boolean takesWhole(Shape shape, NodeGroup group) {
        for (Map.Entry<String, Long> asked : shape.perChunk().entrySet()) {
            if (group.capacity().getOrDefault(asked.getKey(), 0L) < asked.getValue()) {
                return false;
            }
        }
        return true;
    }
}
