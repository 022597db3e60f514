package parley;

import java.util.HashMap;
import java.util.Map;
import parley.client.Dispatcher;
import parley.client.Job;
import parley.client.JobQueue;
import parley.client.RunningJob;
import parley.client.Shape;
import parley.client.View;
import parley.client.Watcher;

/**
 * EASY backfilling: jobs start in order; behind the first that does not fit, the head, others start
 * that do not delay it.
 *
 * <p>The head's shadow time is the first instant at which enough is free if all running jobs take
 * as long as estimated; all releases of one instant count together. A later job starts if it fits
 * now and is over by then, at that very instant at the latest, or if the head could start then
 * beside it. Where all jobs ask for the same chunk, that is a matter of counting; else the nodes of
 * the shadow time are looked at.
 *
 * <p>Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995.
 */
public final class Easy implements Dispatcher, Watcher {
    private Map<Shape, Object> kinds;
    private Map<Object, Integer> jobsOfKind;
    private Map<Long, Long> ends;
    private Releases releases;
    private View view;

    public static void main(String... arguments) {
        Program.run("parley-easy", Easy::new, arguments);
    }

    @Override
    public String name() {
        return "easy";
    }

    @Override
    public boolean actionable() {
        return true;
    }

    @Override
    public void begin(View view) {
        view.watch(this);
        reloaded(view);
    }

    @Override
    public void reloaded(View view) {
        this.view = view;
        kinds = new HashMap<>();
        jobsOfKind = new HashMap<>();
        ends = new HashMap<>();
        releases = new Releases();
        view.queue().forEach(this::joined);
        for (RunningJob running : view.running()) {
            joined(running.job());
            started(running);
        }
    }

    @Override
    public void joined(Job job) {
        jobsOfKind.merge(kind(job.shape()), 1, Integer::sum);
    }

    @Override
    public void left(Job job) {
        jobsOfKind.computeIfPresent(kind(job.shape()), (kind, n) -> n == 1 ? null : n - 1);
    }

    @Override
    public void started(RunningJob running) {
        // Kept: where decisions take time, the start is corrected afterwards.
        ends.put(running.job().number(), running.estimatedEndUs());
        releases.add(running.estimatedEndUs(), running.job().chunks());
    }

    @Override
    public void ended(RunningJob running) {
        left(running.job());
        releases.remove(ends.remove(running.job().number()), running.job().chunks());
    }

    /** Chunks that take whole nodes of the same kinds are of one kind, whatever they ask for. */
    private Object kind(Shape shape) {
        return kinds.computeIfAbsent(
                shape, s -> s.exclusive() ? view.nodes().kindsOfNodes(s) : s);
    }

    @Override
    public void decide(View view) {
        JobQueue queue = view.queue();
        if (queue.head() == null) {
            return;
        }
        Room room =
                jobsOfKind.size() <= 1
                        ? new Slots(view, releases, view.nodes().available(queue.head().shape()))
                        : new Nodes(view);
        boolean reserved = false;
        for (Job job : queue) {
            if (!room.start(job) && !reserved) {
                room.reserve(job);
                reserved = true;
            }
            if (room.full()) {
                break;
            }
        }
    }

    /** What is left beside the reservation of the head, once it has one. */
    interface Room {
        /** Starts a job if it fits and does not delay the head. */
        boolean start(Job job);

        /** Keeps room for the head, which does not fit now, as soon as there is enough. */
        void reserve(Job job);

        /** Whether nothing more can start now. */
        boolean full();
    }

    /** Where all jobs ask for the same chunk: slots free now, and extra ones at the shadow time. */
    private static final class Slots implements Room {
        private final View view;
        private final Releases releases;
        private long free;
        private long extra;
        private long untilShadowUs = Job.FOREVER;

        Slots(View view, Releases releases, long free) {
            this.view = view;
            this.releases = releases;
            this.free = free;
            extra = free;
        }

        @Override
        public boolean start(Job job) {
            long chunks = job.chunks();
            boolean beyondShadow = job.plannedLengthUs() > untilShadowUs;
            if (chunks > free || (beyondShadow && chunks > extra)) {
                return false;
            }
            view.start(job);
            free -= chunks;
            extra -= beyondShadow ? chunks : 0;
            return true;
        }

        @Override
        public void reserve(Job job) {
            Releases.Shadow shadow = releases.earliest(job.chunks() - free, view.nowUs());
            extra = shadow.extra();
            untilShadowUs = shadow.atUs() - view.nowUs();
        }

        @Override
        public boolean full() {
            return free == 0;
        }
    }

    /** Where counting does not tell what fits: the machine now, and as it will be then. */
    private static final class Nodes implements Room {
        private final View view;
        private Reservation reservation;

        Nodes(View view) {
            this.view = view;
        }

        @Override
        public boolean start(Job job) {
            var spans = view.place(job);
            if (spans == null) {
                return false;
            }
            if (reservation != null && !reservation.bears(job, spans, view.nowUs())) {
                return false;
            }
            view.start(job, spans);
            return true;
        }

        @Override
        public void reserve(Job job) {
            reservation = Reservation.of(job, view);
        }

        @Override
        public boolean full() {
            return false;
        }
    }
}
