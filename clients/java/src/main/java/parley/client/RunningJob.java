package parley.client;

import java.util.List;
import parley.wire.Span;

/** A job on its nodes. */
public record RunningJob(Job job, long startUs, List<Span> spans) {

    /** When its walltime is over, be it past; {@link Job#NEVER} without limit. */
    public long estimatedEndUs() {
        return job.walltimeUs() == null ? Job.NEVER : startUs + job.walltimeUs();
    }

    /** When it is taken to end, always after now: one that is overdue, in a second. */
    public long plannedEndUs(long nowUs) {
        long end = estimatedEndUs();
        return end > nowUs ? end : nowUs + Job.SECOND_US;
    }
}
