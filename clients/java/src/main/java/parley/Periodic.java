package parley;

import parley.client.Dispatcher;
import parley.client.View;
import parley.client.Watcher;

/** Lets another decide only at multiples of an interval since time 0, woken by timers. */
final class Periodic implements Dispatcher, Watcher {
    private final Dispatcher inner;
    private final long intervalUs;
    private long tick = -1;

    Periodic(Dispatcher inner, long intervalUs) {
        this.inner = inner;
        this.intervalUs = intervalUs;
    }

    @Override
    public String name() {
        return inner.name();
    }

    @Override
    public void begin(View view) {
        view.watch(this);
        inner.begin(view);
    }

    @Override
    public void reloaded(View view) {
        tick = -1;
    }

    @Override
    public void decide(View view) {
        // Where decisions take time, a timer may fire while they do; one is told of it afterwards.
        boolean woken = tick >= 0 && tick <= view.nowUs();
        if (woken) {
            tick = -1;
        }
        if (!woken && view.nowUs() % intervalUs != 0) {
            comeBack(view);
            return;
        }
        int waiting = view.queue().size();
        inner.decide(view);
        if (view.queue().size() < waiting) {
            comeBack(view);
        }
    }

    private void comeBack(View view) {
        if (view.queue().size() == 0 || tick >= 0) {
            return;
        }
        Long latency = view.welcome().policy().latencyUs();
        // The next after this takes effect: before, it would be refused as past.
        long effective = view.nowUs() + (latency == null ? 0 : latency);
        tick = (effective / intervalUs + 1) * intervalUs;
        view.callAt(tick);
    }
}
