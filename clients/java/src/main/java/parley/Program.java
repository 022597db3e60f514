package parley;

import parley.client.ClientException;
import parley.client.ClientException.WrongUsage;
import parley.client.Dispatcher;
import parley.client.Session;
import parley.wire.SessionEnd;

/** Runs a dispatcher as a program: options in, one line for what went wrong, an exit status. */
final class Program {
    private static final int COMPLETE = 0;
    private static final int INCOMPLETE = 1;
    private static final int USAGE = 2;

    private Program() {}

    /** A dispatcher that is made of options: fifo or easy. */
    interface Recipe {
        Dispatcher make();
    }

    /** Decides for one session and exits. */
    static void run(String name, Recipe recipe, String... arguments) {
        Thread interrupted =
                new Thread(() -> System.err.println(name + ": interrupted before the run was over"));
        Runtime.getRuntime().addShutdownHook(interrupted);
        int status = serve(name, recipe, arguments);
        try {
            Runtime.getRuntime().removeShutdownHook(interrupted);
        } catch (IllegalStateException alreadyGoingDown) {
            return;
        }
        System.exit(status);
    }

    private static int serve(String name, Recipe recipe, String... arguments) {
        try {
            Options options = Options.parse(arguments);
            Dispatcher dispatcher = recipe.make();
            if (options.intervalUs() > 0) {
                dispatcher = new Periodic(dispatcher, options.intervalUs());
            }
            if (options.killOverdue()) {
                dispatcher = new KillOverdue(dispatcher);
            }
            SessionEnd end =
                    new Session(dispatcher)
                            .sessionFile(options.sessionFile())
                            .serve(options.connect());
            if (!end.complete()) {
                System.err.println(name + ": the run is not complete: " + end.reason());
            }
            return end.complete() ? COMPLETE : INCOMPLETE;
        } catch (WrongUsage error) {
            System.err.println(name + ": " + error.getMessage());
            return USAGE;
        } catch (ClientException error) {
            System.err.println(name + ": " + error.getMessage());
            return INCOMPLETE;
        } catch (RuntimeException | LinkageError fault) {
            // No fault of the user's: where it happened helps whoever mends it.
            System.err.println(name + ": a fault of its own: " + fault + at(fault));
            return INCOMPLETE;
        }
    }

    private static String at(Throwable fault) {
        StackTraceElement[] trace = fault.getStackTrace();
        return trace.length == 0 ? "" : " at " + trace[0];
    }
}
