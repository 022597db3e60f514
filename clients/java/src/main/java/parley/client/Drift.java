package parley.client;

/** What the server tells cannot be true of the state as it is known here. */
final class Drift extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Drift(String message) {
        super(message);
    }
}
