package parley.wire;

import java.util.List;

/** What became of one decision; what does not apply to it is null. */
public record Outcome(
        long id,
        String status,
        String code,
        String message,
        List<List<Span>> allocation,
        Long job,
        Long atUs) {

    static Outcome of(Fields map) {
        return new Outcome(
                map.integer("id"),
                map.text("status"),
                map.textOrNull("code"),
                map.textOrNull("message"),
                map.has("allocation") ? Span.allocation(map, "allocation") : null,
                map.integerOrNull("job"),
                map.integerOrNull("at_us"));
    }

    public boolean applied() {
        return status.equals("applied");
    }
}
