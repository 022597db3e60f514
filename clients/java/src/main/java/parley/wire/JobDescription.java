package parley.wire;

import java.util.List;
import java.util.Map;

/**
 * A job as a message tells of it; {@code walltimeUs} is null where it is without limit, and those
 * behind {@code request} where its source does not say.
 */
public record JobDescription(
        long job,
        String name,
        long submitUs,
        Long walltimeUs,
        List<ChunkGroup> request,
        String user,
        String group,
        String queue,
        String partition,
        Map<String, Object> attributes) {

    static JobDescription of(Fields map) {
        return new JobDescription(
                map.integer("job"),
                map.text("name"),
                map.integer("submit_us"),
                map.integerOrNull("walltime_us"),
                map.each("request", ChunkGroup::of),
                map.textOrNull("user"),
                map.textOrNull("group"),
                map.textOrNull("queue"),
                map.textOrNull("partition"),
                map.mapOrNull("attributes"));
    }

    /** So many chunks of one shape. */
    public record ChunkGroup(long chunks, Map<String, Long> perChunk, boolean exclusive) {
        static ChunkGroup of(Fields map) {
            return new ChunkGroup(
                    map.integer("chunks"), map.amounts("per_chunk"), map.truth("exclusive"));
        }
    }
}
