package parley.wire;

import java.util.List;

/** The body of {@code error}; the last two may be null. */
public record ErrorReport(
        String code, String message, boolean fatal, String path, List<String> supported) {

    public static ErrorReport of(Fields body) {
        return new ErrorReport(
                body.text("code"),
                body.text("message"),
                body.truth("fatal"),
                body.textOrNull("path"),
                body.has("supported") ? body.texts("supported") : null);
    }
}
