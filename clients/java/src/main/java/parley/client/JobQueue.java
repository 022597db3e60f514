package parley.client;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;

/**
 * The pending jobs that are not held, by submission, then number.
 *
 * <p>Looking at the head, adding at the end and removing are O(1). Jobs may be started or rejected
 * while one iterates.
 */
public final class JobQueue implements Iterable<Job> {
    private final Map<Long, Job> jobs = new HashMap<>();
    private Job head;
    private Job tail;

    JobQueue() {}

    /** The job that waits longest, or null. */
    public Job head() {
        return head;
    }

    /** The pending job of this number, or null. */
    public Job get(long number) {
        return jobs.get(number);
    }

    public int size() {
        return jobs.size();
    }

    public boolean contains(Job job) {
        return jobs.get(job.number()) == job;
    }

    @Override
    public Iterator<Job> iterator() {
        return new Iterator<>() {
            private Job following = head;

            @Override
            public boolean hasNext() {
                // Those that left meanwhile still know who came behind them.
                while (following != null && !following.queued) {
                    following = following.next;
                }
                return following != null;
            }

            @Override
            public Job next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                Job job = following;
                following = job.next;
                return job;
            }
        };
    }

    /** Adds a job in its place; one that was submitted last costs O(1). */
    void add(Job job) {
        Job before = tail;
        while (before != null && job.before(before)) {
            before = before.previous;
        }
        job.previous = before;
        job.next = before == null ? head : before.next;
        if (before == null) {
            head = job;
        } else {
            before.next = job;
        }
        if (job.next == null) {
            tail = job;
        } else {
            job.next.previous = job;
        }
        job.queued = true;
        jobs.put(job.number(), job);
    }

    void remove(Job job) {
        jobs.remove(job.number());
        if (job.previous == null) {
            head = job.next;
        } else {
            job.previous.next = job.next;
        }
        if (job.next == null) {
            tail = job.previous;
        } else {
            job.next.previous = job.previous;
        }
        job.queued = false;
    }
}
