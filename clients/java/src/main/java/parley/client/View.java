package parley.client;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import parley.wire.Decision;
import parley.wire.DecisionRequest;
import parley.wire.Event;
import parley.wire.Outcome;
import parley.wire.Span;
import parley.wire.State;
import parley.wire.StateSnapshot;
import parley.wire.Welcome;

/**
 * What a dispatcher sees when it is asked, and the hands with which it decides.
 *
 * <p>A decision takes effect here at once, so that the next one sees it; should the server refuse
 * it, it is undone before the next request is shown. Times are microseconds since time 0.
 */
public final class View {
    private final Welcome welcome;
    private final Aside aside;
    private final Mirror mirror;
    private long nowUs;
    private long lastTimer;
    private boolean leaving;
    private List<Sent> sent = new ArrayList<>();
    private final List<Long> fired = new ArrayList<>();
    private final List<Long> ended = new ArrayList<>();
    private final List<Outcome> rejected = new ArrayList<>();

    /** What can be said to the server before the reply. */
    interface Aside {
        void ping();

        void progress(String note);
    }

    /** A decision on its way; what it takes to undo it, and to do it again. */
    record Sent(Decision decision, Job job, long atUs) {}

    View(Welcome welcome, Aside aside) {
        this.welcome = welcome;
        this.aside = aside;
        mirror = new Mirror(welcome.platform());
    }

    // ------------------------------------------------------------------ looking

    /** The present instant. */
    public long nowUs() {
        return nowUs;
    }

    /** Pending jobs by submission, without those that are held. */
    public JobQueue queue() {
        return mirror.queue;
    }

    /** Held jobs by number. */
    public Map<Long, Job> held() {
        return Collections.unmodifiableMap(mirror.held);
    }

    /** Running jobs in the order of their start. */
    public Collection<RunningJob> running() {
        return Collections.unmodifiableCollection(mirror.running.values());
    }

    /** The running job of this number, or null. */
    public RunningJob running(long number) {
        return mirror.running.get(number);
    }

    /** The nodes, to be read only; {@link Cluster#fork} copies them. */
    public Cluster nodes() {
        return mirror.cluster;
    }

    /** Instants of the timers that wait, by number. */
    public Map<Long, Long> timers() {
        return Collections.unmodifiableMap(mirror.timers);
    }

    /** Timers that fired since the last request. */
    public List<Long> fired() {
        return Collections.unmodifiableList(fired);
    }

    /** Numbers of the jobs that ended since the last request, be it to be requeued. */
    public List<Long> ended() {
        return Collections.unmodifiableList(ended);
    }

    /** What the server refused of the last decisions. */
    public List<Outcome> rejected() {
        return Collections.unmodifiableList(rejected);
    }

    /** Whether the workload holds no further job. */
    public boolean exhausted() {
        return mirror.exhausted;
    }

    /** The platform, the limits, the seed for random choices, and all else that was agreed. */
    public Welcome welcome() {
        return welcome;
    }

    /** Tells somebody of every change from now on. */
    public void watch(Watcher watcher) {
        mirror.watch(watcher);
    }

    // ------------------------------------------------------------------ deciding

    /** Where first fit would put the job now, or null; nothing changes. */
    public List<Span> place(Job job) {
        return mirror.cluster.firstFit(job.shape(), job.chunks());
    }

    /** Starts a pending job where first fit puts it; false if it does not fit now. */
    public boolean start(Job job) {
        requirePending(job);
        List<Span> spans = place(job);
        if (spans == null) {
            return false;
        }
        start(job, spans);
        return true;
    }

    /** Starts a pending job on these nodes. */
    public void start(Job job, List<Span> spans) {
        requirePending(job);
        List<Span> merged = Span.merged(spans);
        mirror.run(job, merged, nowUs);
        send(new Decision.Start(sent.size(), job.number(), merged), job);
    }

    /** Removes a pending job for good; the reason, which may be null, is for readers. */
    public void reject(Job job, String reason) {
        requirePending(job);
        mirror.leave(job);
        send(new Decision.Reject(sent.size(), job.number(), reason), job);
    }

    /** Ends a running job now; its nodes are free when its end is told. */
    public void kill(RunningJob running) {
        Job job = running.job();
        send(new Decision.Kill(sent.size(), job.number()), job);
    }

    /** Takes a running job off its nodes; it is pending again when that is told. */
    public void requeue(RunningJob running) {
        Job job = running.job();
        send(new Decision.Requeue(sent.size(), job.number()), job);
    }

    /** Takes a pending job out of the queue until it is released. */
    public void hold(Job job, String reason) {
        requirePending(job);
        mirror.hold(job);
        send(new Decision.Hold(sent.size(), job.number(), reason), job);
    }

    /** Puts a held job back in its place in the queue. */
    public void release(Job job) {
        if (mirror.held.get(job.number()) != job) {
            throw new ClientException(job + " is not held");
        }
        mirror.release(job);
        send(new Decision.Release(sent.size(), job.number()), job);
    }

    /** Asks to be asked at an instant after now; returns the timer's number. */
    public long callAt(long atUs) {
        lastTimer++;
        mirror.timers.put(lastTimer, atUs);
        sent.add(new Sent(new Decision.Wake(sent.size(), lastTimer, atUs), null, atUs));
        return lastTimer;
    }

    /** Gives a timer up that waits. */
    public void cancel(long timer) {
        Long atUs = mirror.timers.remove(timer);
        if (atUs == null) {
            throw new ClientException("no timer " + timer + " waits");
        }
        sent.add(new Sent(new Decision.WakeCancel(sent.size(), timer), null, atUs));
    }

    /** Notes when a pending job is expected to start, or why it waits; either may be null. */
    public void annotate(Job job, Long expectedStartUs, String reason) {
        send(new Decision.Annotate(sent.size(), job.number(), expectedStartUs, reason), job);
    }

    /** Ends the whole run here. */
    public void stop(String reason) {
        send(new Decision.Stop(sent.size(), reason), null);
    }

    /** Leaves the session instead of replying: the run ends with the reason {@code bye}. */
    public void leave() {
        leaving = true;
    }

    /** Asks whether the server is there, and waits for its answer. */
    public void ping() {
        aside.ping();
    }

    /** Asks for more time before the deadline; due before half of it has passed. */
    public void progress(String note) {
        aside.progress(note);
    }

    private void requirePending(Job job) {
        if (!mirror.queue.contains(job)) {
            throw new ClientException(job + " is not pending");
        }
    }

    private void send(Decision decision, Job job) {
        sent.add(new Sent(decision, job, 0));
    }

    // ------------------------------------------------------------------ following the server

    List<Sent> sent() {
        return sent;
    }

    boolean leaving() {
        return leaving;
    }

    String digest() {
        return mirror.digest(nowUs);
    }

    /**
     * Takes in a request: outcomes of the last decisions, then events, in order.
     *
     * @throws Drift it cannot be true of what is known here; the state is needed
     */
    void update(DecisionRequest request) {
        List<Sent> before = sent;
        sent = new ArrayList<>();
        nowUs = request.nowUs();
        fired.clear();
        ended.clear();
        rejected.clear();
        List<Outcome> outcomes = request.outcomes();
        if (request.state() != null) {
            outcomes.stream().filter(outcome -> !outcome.applied()).forEach(rejected::add);
            load(request.state());
            request.events().forEach(event -> note(event));
        } else if (outcomes.stream().anyMatch(outcome -> outcome.atUs() != null)) {
            catchUp(before, request);
        } else {
            // Backwards: a decision about a job may stand on one before it.
            for (int at = outcomes.size() - 1; at >= 0; at--) {
                Outcome outcome = outcomes.get(at);
                if (!outcome.applied()) {
                    undo(sentAs(before, outcome), outcome.code());
                    rejected.add(0, outcome);
                }
            }
            request.events().forEach(this::follow);
        }
    }

    /** Begins anew from a state that was asked for. */
    void load(StateSnapshot snapshot) {
        nowUs = snapshot.nowUs();
        load(snapshot.state());
    }

    private void load(State state) {
        mirror.load(state, this);
        for (long timer : mirror.timers.keySet()) {
            lastTimer = Math.max(lastTimer, timer);
        }
    }

    /** Takes note of what an event says beyond the state. */
    private void note(Event event) {
        if (event instanceof Event.JobEnded end) {
            ended.add(end.job());
        } else if (event instanceof Event.TimerFired timer) {
            fired.add(timer.timer());
        }
    }

    private void follow(Event event) {
        note(event);
        if (event instanceof Event.JobSubmitted submitted) {
            mirror.submit(submitted.job());
        } else if (event instanceof Event.JobEnded end) {
            Job job = mirror.stop(end.job());
            if (end.status().equals("requeued")) {
                mirror.join(job);
            }
        } else if (event instanceof Event.JobStarted started) {
            mirror.startedElsewhere(started.job(), started.allocation(), started.atUs());
        } else if (event instanceof Event.TimerFired timer) {
            mirror.timers.remove(timer.timer());
        } else if (event instanceof Event.NodeDown down) {
            mirror.setUp(down.nodes(), false);
        } else if (event instanceof Event.NodeUp up) {
            mirror.setUp(up.nodes(), true);
        } else if (event instanceof Event.WorkloadExhausted) {
            mirror.exhausted = true;
        }
    }

    private static Sent sentAs(List<Sent> before, Outcome outcome) {
        if (outcome.id() >= before.size()) {
            throw new Drift("decision " + outcome.id() + " was not sent");
        }
        return before.get((int) outcome.id());
    }

    /**
     * Takes in what happened while decisions were on their way, and then they: until then they
     * hold nothing. They take effect behind the events of their instant, save for the ends that
     * they bring themselves.
     */
    private void catchUp(List<Sent> before, DecisionRequest request) {
        Set<Long> own = new HashSet<>();
        for (int at = before.size() - 1; at >= 0; at--) {
            undo(before.get(at), "");
            if (before.get(at).decision() instanceof Decision.Start start) {
                own.add(start.job());
            }
        }
        List<Outcome> outcomes = request.outcomes();
        long effectUs =
                outcomes.stream().mapToLong(o -> o.atUs() == null ? 0 : o.atUs()).max().orElse(0);
        boolean settled = false;
        for (Event event : request.events()) {
            boolean endsOwn = event instanceof Event.JobEnded end && own.contains(end.job());
            if (!settled && (event.atUs() > effectUs || endsOwn)) {
                settled = true;
                settle(before, outcomes);
            }
            follow(event);
        }
        if (!settled) {
            settle(before, outcomes);
        }
    }

    private void settle(List<Sent> before, List<Outcome> outcomes) {
        for (Outcome outcome : outcomes) {
            if (outcome.applied()) {
                redo(sentAs(before, outcome), outcome.atUs() == null ? nowUs : outcome.atUs());
            } else {
                rejected.add(outcome);
            }
        }
    }

    /** Lets a decision that was undone take effect at an instant. */
    private void redo(Sent sent, long atUs) {
        Decision decision = sent.decision();
        if (decision instanceof Decision.Start start) {
            requireKnown(sent.job(), mirror.queue.contains(sent.job()));
            mirror.run(sent.job(), start.spans(), atUs);
        } else if (decision instanceof Decision.Reject) {
            requireKnown(sent.job(), mirror.queue.contains(sent.job()));
            mirror.leave(sent.job());
        } else if (decision instanceof Decision.Hold) {
            requireKnown(sent.job(), mirror.queue.contains(sent.job()));
            mirror.hold(sent.job());
        } else if (decision instanceof Decision.Release) {
            requireKnown(sent.job(), mirror.held.containsValue(sent.job()));
            mirror.release(sent.job());
        } else if (decision instanceof Decision.Wake wake) {
            mirror.timers.put(wake.timer(), wake.atUs());
        } else if (decision instanceof Decision.WakeCancel cancel) {
            mirror.timers.remove(cancel.timer());
        }
    }

    private static void requireKnown(Job job, boolean known) {
        if (!known) {
            throw new Drift("a decision about " + job + " was applied, which is something else");
        }
    }

    /** Takes a decision back that was refused with a code, or has not taken effect yet. */
    private void undo(Sent sent, String code) {
        Decision decision = sent.decision();
        boolean gone = "job.unknown".equals(code) || "job.not_pending".equals(code);
        if (decision instanceof Decision.Start start) {
            Job job = mirror.stop(start.job());
            if (!gone) {
                mirror.join(job);
            }
        } else if (decision instanceof Decision.Hold hold) {
            mirror.held.remove(hold.job());
            if (!gone) {
                mirror.join(sent.job());
            }
        } else if (decision instanceof Decision.Reject) {
            if (!gone) {
                mirror.join(sent.job());
            }
        } else if (decision instanceof Decision.Release) {
            mirror.leave(sent.job());
            if (!gone) {
                mirror.held.put(sent.job().number(), sent.job());
            }
        } else if (decision instanceof Decision.Wake wake) {
            mirror.timers.remove(wake.timer());
        } else if (decision instanceof Decision.WakeCancel cancel) {
            if (!"timer.unknown".equals(code)) {
                mirror.timers.put(cancel.timer(), sent.atUs());
            }
        }
    }
}
