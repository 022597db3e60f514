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
        if (view.nowUs() % intervalUs != 0) {
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
        long next = (view.nowUs() / intervalUs + 1) * intervalUs;
        if (view.queue().size() > 0 && tick < next) {
            tick = next;
            view.callAt(next);
        }
    }
}
