package parley.client;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import parley.wire.Event.NodeRange;
import parley.wire.JobDescription;
import parley.wire.JobDescription.ChunkGroup;
import parley.wire.Span;
import parley.wire.State;
import parley.wire.Welcome.Platform;

/** The state of the simulation as it is known here: queue, running jobs, nodes, timers. */
final class Mirror {
    private final Platform platform;
    private final Map<Shape, Shape> shapes = new HashMap<>();
    private final Map<ChunkGroup, Shape> asSaid = new HashMap<>();
    private final List<Watcher> watchers = new ArrayList<>();

    JobQueue queue = new JobQueue();
    final Map<Long, Job> held = new TreeMap<>();
    final Map<Long, RunningJob> running = new LinkedHashMap<>();
    final Map<Long, Long> timers = new TreeMap<>();
    Cluster cluster;
    boolean exhausted;

    Mirror(Platform platform) {
        this.platform = platform;
        cluster = new Cluster(platform);
    }

    void watch(Watcher watcher) {
        watchers.add(watcher);
    }

    /** Begins anew from a full state. */
    void load(State state, View view) {
        queue = new JobQueue();
        held.clear();
        running.clear();
        timers.clear();
        cluster = new Cluster(platform);
        Set<Long> holds = new HashSet<>(state.held());
        for (JobDescription description : state.pending()) {
            Job job = job(description);
            if (holds.contains(job.number())) {
                held.put(job.number(), job);
            } else {
                queue.add(job);
            }
        }
        for (State.RunningJob entry : state.running()) {
            Job job = job(entry.job());
            List<Span> spans = onlyGroup(entry.allocation());
            cluster.take(job.shape(), spans);
            running.put(job.number(), new RunningJob(job, entry.startUs(), spans));
        }
        for (State.NodeRun run : state.nodes()) {
            if (!run.up()) {
                setUp(List.of(new NodeRange(run.first(), run.last())), false);
            }
        }
        state.timers().forEach(timer -> timers.put(timer.timer(), timer.atUs()));
        exhausted = state.exhausted();
        watchers.forEach(watcher -> watcher.reloaded(view));
    }

    static List<Span> onlyGroup(List<List<Span>> allocation) {
        if (allocation.size() != 1) {
            throw new ClientException(
                    "an allocation of " + allocation.size() + " groups; this client knows one");
        }
        return Span.merged(allocation.get(0));
    }

    void submit(JobDescription description) {
        join(job(description));
    }

    /** Puts a job in its place in the queue, for the first time or again. */
    void join(Job job) {
        queue.add(job);
        watchers.forEach(watcher -> watcher.joined(job));
    }

    /** Lets a job be pending no more, or not to be started. */
    void leave(Job job) {
        queue.remove(job);
        watchers.forEach(watcher -> watcher.left(job));
    }

    void hold(Job job) {
        leave(job);
        held.put(job.number(), job);
    }

    void release(Job job) {
        held.remove(job.number());
        join(job);
    }

    /** Moves a job from the queue to its nodes. */
    void run(Job job, List<Span> spans, long atUs) {
        cluster.take(job.shape(), spans);
        queue.remove(job);
        RunningJob started = new RunningJob(job, atUs, spans);
        running.put(job.number(), started);
        watchers.forEach(watcher -> watcher.started(started));
    }

    void startedElsewhere(long number, List<List<Span>> allocation, long atUs) {
        Job job = queue.get(number);
        if (job == null) {
            throw new Drift("job " + number + " was started, which is not pending here");
        }
        run(job, onlyGroup(allocation), atUs);
    }

    /** Takes a job off its nodes. */
    Job stop(long number) {
        RunningJob stopped = running.remove(number);
        if (stopped == null) {
            throw new Drift("job " + number + " has ended, which does not run here");
        }
        cluster.release(stopped.job().shape(), stopped.spans());
        watchers.forEach(watcher -> watcher.ended(stopped));
        return stopped.job();
    }

    void setUp(List<NodeRange> ranges, boolean up) {
        for (NodeRange range : ranges) {
            if (range.last() >= cluster.nodeCount() || range.first() > range.last()) {
                throw new Drift("there are no nodes " + range.first() + " to " + range.last());
            }
            cluster.setUp(range, up);
        }
    }

    /** Returns the digest of the state as it is known here; O(jobs + nodes). */
    String digest(long nowUs) {
        StringBuilder lines = new StringBuilder("now " + nowUs + "\n");
        TreeMap<Long, Job> pending = new TreeMap<>(held);
        queue.forEach(job -> pending.put(job.number(), job));
        pending.keySet().forEach(number -> line(lines, "pending ", number));
        held.keySet().forEach(number -> line(lines, "held ", number));
        for (RunningJob entry : new TreeMap<>(running).values()) {
            String spans =
                    entry.spans().stream()
                            .map(span -> span.first() + "-" + span.last() + "*" + span.chunks())
                            .collect(Collectors.joining(","));
            line(lines, "running ", entry.job().number() + " " + entry.startUs() + " " + spans);
        }
        cluster.free().forEach((kind, amount) -> line(lines, "free ", kind + " " + amount));
        cluster.down().forEach(down -> line(lines, "down ", down.first() + "-" + down.last()));
        timers.forEach((timer, atUs) -> line(lines, "timer ", timer + " " + atUs));
        return sha256(lines.toString());
    }

    static String sha256(String text) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(digest.digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException impossible) {
            // Every Java platform has it.
            throw new IllegalStateException(impossible);
        }
    }

    private static void line(StringBuilder lines, String kind, Object rest) {
        lines.append(kind).append(rest).append('\n');
    }

    private Job job(JobDescription description) {
        if (description.request().size() != 1) {
            throw new ClientException(
                    "job " + description.job() + " asks for " + description.request().size()
                            + " groups of chunks; this client knows one");
        }
        return new Job(description, shape(description.request().get(0)));
    }

    /** Returns the one object of a shape, however the message wrote it. */
    private Shape shape(ChunkGroup group) {
        ChunkGroup said = new ChunkGroup(0, group.perChunk(), group.exclusive());
        Shape shape = asSaid.get(said);
        if (shape == null) {
            TreeMap<String, Long> perChunk = new TreeMap<>(group.perChunk());
            perChunk.values().removeIf(amount -> amount == 0);
            shape = shapes.computeIfAbsent(new Shape(perChunk, group.exclusive()), made -> made);
            asSaid.put(said, shape);
        }
        return shape;
    }
}
