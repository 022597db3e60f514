package parley.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Text as the protocol orders it. */
final class Text {
    private Text() {}

    /** By code points, which {@link String#compareTo} is not: it compares halves of pairs. */
    static int compareCodePoints(String a, String b) {
        return Arrays.compareUnsigned(
                a.getBytes(StandardCharsets.UTF_8), b.getBytes(StandardCharsets.UTF_8));
    }
}
