package parley.client;

import java.util.Map;
import parley.wire.JobDescription;

/** A job that was submitted: everything about it but how long it will run. */
public final class Job {
    /** How long a job without limit lasts: beyond {@link #NEVER}, whenever it starts. */
    public static final long FOREVER = 1L << 62;

    /** When a job without limit ends: later than any instant of a simulation. */
    public static final long NEVER = 1L << 61;

    static final long SECOND_US = 1_000_000;

    private final JobDescription description;
    private final Shape shape;

    Job previous;
    Job next;
    boolean queued;

    Job(JobDescription description, Shape shape) {
        this.description = description;
        this.shape = shape;
    }

    /** What it is called on the wire: its place in reading order. */
    public long number() {
        return description.job();
    }

    /** What its source calls it. */
    public String name() {
        return description.name();
    }

    public long submitUs() {
        return description.submitUs();
    }

    /** The limit it asks for; null is without limit. */
    public Long walltimeUs() {
        return description.walltimeUs();
    }

    public long chunks() {
        return description.request().get(0).chunks();
    }

    public Shape shape() {
        return shape;
    }

    /** User, group, queue and partition are there. */
    public JobDescription description() {
        return description;
    }

    /** Further columns of its source; empty where there are none. */
    public Map<String, Object> attributes() {
        return description.attributes() == null ? Map.of() : description.attributes();
    }

    /** How long it is to have its nodes, us: an estimate of zero counts as one second. */
    public long plannedLengthUs() {
        Long walltime = walltimeUs();
        if (walltime == null) {
            return FOREVER;
        }
        return walltime == 0 ? SECOND_US : walltime;
    }

    boolean before(Job other) {
        return submitUs() != other.submitUs()
                ? submitUs() < other.submitUs()
                : number() < other.number();
    }

    @Override
    public String toString() {
        return "job " + number() + " (" + name() + ")";
    }
}
