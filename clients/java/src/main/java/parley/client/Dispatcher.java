package parley.client;

/** Who decides: the one method to write. */
@FunctionalInterface
public interface Dispatcher {
    /** Starts, rejects or kills jobs by way of the view. */
    void decide(View view);

    /** A session begins or is taken up; the view has no jobs yet. */
    default void begin(View view) {}

    /** What it is called in the hello. */
    default String name() {
        return getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT);
    }

    /**
     * Whether it does nothing at instants at which no pending job could start; it is then asked at
     * fewer of them, and the schedule is the same.
     */
    default boolean actionable() {
        return false;
    }
}
