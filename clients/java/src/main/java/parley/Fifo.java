package parley;

import parley.client.Dispatcher;
import parley.client.Job;
import parley.client.View;

/**
 * First come, first served: jobs start in the order of their submission, each on the lowest-numbered
 * nodes that hold it; the first that does not fit holds up all behind it.
 */
public final class Fifo implements Dispatcher {

    public static void main(String... arguments) {
        Program.run("parley-fifo", Fifo::new, arguments);
    }

    @Override
    public String name() {
        return "fifo";
    }

    @Override
    public boolean actionable() {
        return true;
    }

    @Override
    public void decide(View view) {
        for (Job job : view.queue()) {
            if (!view.start(job)) {
                break;
            }
        }
    }
}
