package parley.wire;

import java.util.List;

/** The body of {@code decision.request}; the last three may be null. */
public record DecisionRequest(
        long nowUs,
        long attempt,
        List<Event> events,
        List<Outcome> outcomes,
        long stateVersion,
        State state,
        String stateDigest,
        Long deadlineMs) {

    public static DecisionRequest of(Fields body) {
        return new DecisionRequest(
                body.integer("now_us"),
                body.integer("attempt"),
                body.each("events", Event::of),
                body.each("outcomes", Outcome::of),
                body.integer("state_version"),
                body.has("state") ? State.of(body.fields("state")) : null,
                body.textOrNull("state_digest"),
                body.integerOrNull("deadline_ms"));
    }
}
