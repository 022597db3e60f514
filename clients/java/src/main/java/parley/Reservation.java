package parley;

import java.util.Comparator;
import java.util.List;
import parley.client.Cluster;
import parley.client.Job;
import parley.client.RunningJob;
import parley.client.View;
import parley.wire.Span;

/** The head's reservation, node by node: the machine as it will be at the shadow time. */
final class Reservation {
    private final Job head;
    private final long shadowUs;
    private final Cluster then;

    private Reservation(Job head, long shadowUs, Cluster then) {
        this.head = head;
        this.shadowUs = shadowUs;
        this.then = then;
    }

    /** Finds out when a job that does not fit now will; O(nodes + running * log running). */
    static Reservation of(Job head, View view) {
        Cluster then = view.nodes().fork();
        long now = view.nowUs();
        List<RunningJob> running =
                view.running().stream()
                        .sorted(Comparator.comparingLong(job -> job.plannedEndUs(now)))
                        .toList();
        for (int at = 0; at < running.size(); ) {
            long end = running.get(at).plannedEndUs(now);
            for (; at < running.size() && running.get(at).plannedEndUs(now) == end; at++) {
                then.release(running.get(at).job().shape(), running.get(at).spans());
            }
            if (then.fits(head.shape(), head.chunks())) {
                return new Reservation(head, end, then);
            }
        }
        return new Reservation(head, Job.NEVER, then);
    }

    /** Whether the head may start in time beside a job that starts now; then the job is noted. */
    boolean bears(Job job, List<Span> spans, long nowUs) {
        if (nowUs + job.plannedLengthUs() <= shadowUs) {
            return true;
        }
        then.take(job.shape(), spans);
        if (then.fits(head.shape(), head.chunks())) {
            return true;
        }
        then.release(job.shape(), spans);
        return false;
    }
}
