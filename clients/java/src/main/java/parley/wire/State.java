package parley.wire;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** All that a dispatcher needs to go on from. */
public record State(
        List<JobDescription> pending,
        List<Long> held,
        List<RunningJob> running,
        List<NodeRun> nodes,
        List<Timer> timers,
        boolean exhausted) {

    static State of(Fields map) {
        List<Long> held = new ArrayList<>();
        for (Object number : map.items("held")) {
            held.add(Fields.natural(number, map.pathOf("held")));
        }
        return new State(
                map.each("pending", JobDescription::of),
                held,
                map.each("running", RunningJob::of),
                NodeRun.listed(map, "nodes"),
                map.each("timers", Timer::of),
                map.truth("exhausted"));
    }

    /** A job on its nodes. */
    public record RunningJob(JobDescription job, long startUs, List<List<Span>> allocation) {
        static RunningJob of(Fields map) {
            return new RunningJob(
                    JobDescription.of(map.fields("job")),
                    map.integer("start_us"),
                    Span.allocation(map, "allocation"));
        }
    }

    /** Equal nodes, with what is free on each of them by resource. */
    public record NodeRun(int first, int last, Map<String, Long> free, boolean up) {
        static List<NodeRun> listed(Fields fields, String name) {
            String path = fields.pathOf(name);
            List<NodeRun> runs = new ArrayList<>();
            for (Object item : fields.items(name)) {
                List<Object> run = Fields.asList(item, path);
                if (run.size() != 4) {
                    throw Fields.invalid(path, "[first, last, free, up or down]", item);
                }
                runs.add(
                        new NodeRun(
                                Span.node(run.get(0), path),
                                Span.node(run.get(1), path),
                                Fields.asAmounts(run.get(2), path),
                                "up".equals(run.get(3))));
            }
            return runs;
        }
    }

    /** A timer that waits. */
    public record Timer(long timer, long atUs) {
        static Timer of(Fields map) {
            return new Timer(map.integer("timer"), map.integer("at_us"));
        }
    }
}
