package parley.client;

import java.util.SortedMap;

/**
 * What one chunk asks of its node.
 *
 * @param perChunk amount of each resource that it takes any of, by name
 * @param exclusive it takes a wholly empty node, all of it
 */
public record Shape(SortedMap<String, Long> perChunk, boolean exclusive) {}
