package parley.wire;

import java.util.List;

/** The body of {@code session.end}: why the run is over, and its jobs by what became of them. */
public record SessionEnd(String reason, long nowUs, List<Outcome> outcomes, Stats stats) {
    public static SessionEnd of(Fields body) {
        return new SessionEnd(
                body.text("reason"),
                body.integer("now_us"),
                body.each("outcomes", Outcome::of),
                Stats.of(body.fields("stats")));
    }

    /** Whether the run went as far as it was to go; a reason of a later version says no. */
    public boolean complete() {
        return reason.equals("completed") || reason.equals("stopped");
    }

    /** Jobs by what became of them. */
    public record Stats(
            long submitted,
            long completed,
            long failed,
            long timedOut,
            long killed,
            long rejected,
            long requeues) {
        static Stats of(Fields map) {
            return new Stats(
                    map.integer("submitted"),
                    map.integer("completed"),
                    map.integer("failed"),
                    map.integer("timed_out"),
                    map.integer("killed"),
                    map.integer("rejected"),
                    map.integer("requeues"));
        }
    }
}
