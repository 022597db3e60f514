package parley;

import java.util.Comparator;
import java.util.List;
import parley.client.Dispatcher;
import parley.client.RunningJob;
import parley.client.View;

/** Before another decides, kills running jobs whose walltime has passed, in order of job. */
final class KillOverdue implements Dispatcher {
    private final Dispatcher inner;

    KillOverdue(Dispatcher inner) {
        this.inner = inner;
    }

    @Override
    public String name() {
        return inner.name();
    }

    @Override
    public void begin(View view) {
        inner.begin(view);
    }

    @Override
    public void decide(View view) {
        List<RunningJob> overdue =
                view.running().stream()
                        .filter(running -> running.estimatedEndUs() <= view.nowUs())
                        .sorted(Comparator.comparingLong(running -> running.job().number()))
                        .toList();
        overdue.forEach(view::kill);
        inner.decide(view);
    }
}
