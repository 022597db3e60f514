package parley.client;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import parley.wire.Span;

/** For one shape, how many chunks of it each node would take now. */
final class Room {
    private final long[] counts;

    /** Where at least one chunk fits. */
    private final BitSet usable;

    private long total;

    /** How many of its cluster's changes are counted in. */
    long changesSeen;

    Room(int nodes) {
        counts = new long[nodes];
        usable = new BitSet(nodes);
    }

    long total() {
        return total;
    }

    void set(int node, long count) {
        if (counts[node] != count) {
            total += count - counts[node];
            counts[node] = count;
            usable.set(node, count > 0);
        }
    }

    /** The lowest nodes that hold so many chunks, each as far as it goes; O(nodes used). */
    List<Span> lowest(long chunks) {
        List<Span> found = new ArrayList<>();
        int begin = -1;
        int after = -1;
        long each = 0;
        int node = -1;
        for (long missing = chunks; missing > 0; ) {
            node = usable.nextSetBit(node + 1);
            long count = Math.min(counts[node], missing);
            missing -= count;
            if (node != after || count != each) {
                if (each > 0) {
                    found.add(new Span(begin, after - 1, each));
                }
                begin = node;
                each = count;
            }
            after = node + 1;
        }
        found.add(new Span(begin, after - 1, each));
        return found;
    }
}
