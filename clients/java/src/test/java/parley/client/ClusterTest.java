package parley.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import parley.wire.Event.NodeRange;
import parley.wire.Span;
import parley.wire.Welcome.NodeGroup;
import parley.wire.Welcome.Platform;

final class ClusterTest {
    private static final Platform MIXED =
            new Platform(
                    9,
                    List.of(
                            new NodeGroup("thin", 0, 3, Map.of("core", 4L, "memory", 16L)),
                            new NodeGroup("fat", 4, 5, Map.of("core", 8L, "memory", 64L)),
                            new NodeGroup("gpu", 6, 8, Map.of("core", 4L, "gpu", 2L))));

    private static Shape shape(Map<String, Long> perChunk, boolean exclusive) {
        return new Shape(new TreeMap<>(perChunk), exclusive);
    }

    @Test
    void chunksGoToTheLowestNodesEachFilledAsFarAsItGoes() {
        Cluster cluster = new Cluster(MIXED);
        Shape shape = shape(Map.of("core", 3L, "memory", 5L), false);

        assertEquals(
                List.of(new Span(0, 3, 1), new Span(4, 5, 2)), cluster.firstFit(shape, 8));
        assertEquals(
                List.of(new Span(0, 3, 1), new Span(4, 4, 2), new Span(5, 5, 1)),
                cluster.firstFit(shape, 7));
        assertNull(cluster.firstFit(shape, 9));
    }

    @Test
    void anExclusiveChunkTakesAnEmptyNodeWhole() {
        Cluster cluster = new Cluster(MIXED);
        Shape whole = shape(Map.of("core", 5L), true);
        Shape core = shape(Map.of("core", 1L), false);

        cluster.take(whole, cluster.firstFit(whole, 1));
        assertEquals(List.of(new Span(5, 5, 1)), cluster.firstFit(whole, 1));
        cluster.take(core, List.of(new Span(5, 5, 1)));

        assertNull(cluster.firstFit(whole, 1));
        assertEquals(16 + 7 + 12, cluster.available(core));
    }

    @Test
    void whatNoNodeHasNeverFits() {
        Cluster cluster = new Cluster(MIXED);

        assertFalse(cluster.fits(shape(Map.of("tape", 1L), false), 1));
        assertFalse(cluster.fits(shape(Map.of("tape", 1L), true), 1));
        assertTrue(cluster.fits(shape(Map.of("gpu", 2L), true), 3));
    }

    /** Whatever came and went, the index says what counting every node anew says. */
    @Test
    void anIndexIsNeverOutOfDate() {
        for (int seed = 0; seed < 60; seed++) {
            Random random = new Random(seed);
            Cluster cluster = new Cluster(MIXED);
            List<Shape> shapes = shapes();
            List<Map.Entry<Shape, List<Span>>> placed = new ArrayList<>();
            boolean[] down = new boolean[9];
            for (int step = 0; step < 1500; step++) {
                Shape shape = shapes.get(random.nextInt(shapes.size()));
                List<Span> spans = cluster.firstFit(shape, 1 + random.nextInt(4));
                if (spans != null && random.nextInt(3) > 0) {
                    cluster.take(shape, spans);
                    placed.add(Map.entry(shape, spans));
                } else if (!placed.isEmpty()) {
                    var gone = placed.remove(random.nextInt(placed.size()));
                    cluster.release(gone.getKey(), gone.getValue());
                }
                if (placed.isEmpty()) {
                    int node = random.nextInt(9);
                    down[node] = !down[node];
                    cluster.setUp(new NodeRange(node, node), !down[node]);
                }
                // Asked for seldom, so that an index misses more than it can catch up with.
                if (step % 700 == 699) {
                    Cluster fresh = cluster.fork();
                    for (Shape each : shapes) {
                        assertEquals(fresh.available(each), cluster.available(each));
                        assertEquals(fresh.firstFit(each, 2), cluster.firstFit(each, 2));
                    }
                }
            }
        }
    }

    private static List<Shape> shapes() {
        return List.of(
                shape(Map.of("core", 1L), false),
                shape(Map.of("core", 3L, "memory", 1L), false),
                shape(Map.of("gpu", 1L), false),
                shape(Map.of("core", 4L), true),
                shape(Map.of(), true));
    }
}
