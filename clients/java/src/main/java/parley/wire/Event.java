package parley.wire;

import java.util.ArrayList;
import java.util.List;

/** What happened, each at its instant of simulated time in microseconds. */
public sealed interface Event {
    long atUs();

    static Event of(Fields map) {
        long atUs = map.integer("at_us");
        String kind = map.text("kind");
        return switch (kind) {
            case "session.start" -> new SessionStart(atUs);
            case "job.submitted" -> new JobSubmitted(atUs, JobDescription.of(map.fields("job")));
            case "job.started" ->
                    new JobStarted(atUs, map.integer("job"), Span.allocation(map, "allocation"));
            case "job.ended" -> new JobEnded(atUs, map.integer("job"), map.text("status"));
            case "node.down" -> new NodeDown(atUs, NodeRange.listed(map, "nodes"));
            case "node.up" -> new NodeUp(atUs, NodeRange.listed(map, "nodes"));
            case "timer.fired" -> new TimerFired(atUs, map.integer("timer"));
            case "workload.exhausted" -> new WorkloadExhausted(atUs);
            default -> new UnknownEvent(kind, atUs);
        };
    }

    /** The run begins. */
    record SessionStart(long atUs) implements Event {}

    /** A job joined the queue. */
    record JobSubmitted(long atUs, JobDescription job) implements Event {}

    /** A job was started by another than this client. */
    record JobStarted(long atUs, long job, List<List<Span>> allocation) implements Event {}

    /** A job left its nodes; if it was {@code requeued}, it is pending again. */
    record JobEnded(long atUs, long job, String status) implements Event {}

    /** Nodes went out of service. */
    record NodeDown(long atUs, List<NodeRange> nodes) implements Event {}

    /** Nodes came back, empty. */
    record NodeUp(long atUs, List<NodeRange> nodes) implements Event {}

    /** An instant came for which a timer was set. */
    record TimerFired(long atUs, long timer) implements Event {}

    /** No further job will be submitted. */
    record WorkloadExhausted(long atUs) implements Event {}

    /** One of a later version, to be passed over. */
    record UnknownEvent(String kind, long atUs) implements Event {}

    /** Nodes first to last. */
    record NodeRange(int first, int last) {
        static List<NodeRange> listed(Fields fields, String name) {
            String path = fields.pathOf(name);
            List<NodeRange> ranges = new ArrayList<>();
            for (Object range : fields.items(name)) {
                List<Object> ends = Fields.asList(range, path);
                if (ends.size() != 2) {
                    throw Fields.invalid(path, "[first, last]", range);
                }
                ranges.add(
                        new NodeRange(Span.node(ends.get(0), path), Span.node(ends.get(1), path)));
            }
            return ranges;
        }
    }
}
