package parley.wire;

/** The body of {@code state.snapshot}: the whole state at the outstanding request. */
public record StateSnapshot(long nowUs, long stateVersion, State state) {
    public static StateSnapshot of(Fields body) {
        return new StateSnapshot(
                body.integer("now_us"),
                body.integer("state_version"),
                State.of(body.fields("state")));
    }
}
