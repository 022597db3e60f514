package parley.client;

/**
 * Is told of every change of a view at once, be it the server's or one's own decision; for whoever
 * keeps an index beside it. A start that the server refuses is told as {@code ended}, then {@code
 * joined}.
 */
public interface Watcher {
    /** A job is pending from now on, for the first time or again. */
    default void joined(Job job) {}

    /** A job is pending no more, and will not start. */
    default void left(Job job) {}

    /** A job that was pending runs. */
    default void started(RunningJob running) {}

    /** A job runs no more. */
    default void ended(RunningJob running) {}

    /** Everything known was replaced by a state of the server's: begin anew. */
    default void reloaded(View view) {}
}
