package parley.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import parley.Repository;

final class CodecTest {
    /** A vector of {@code schemas/vectors/codec.json}. */
    record Vector(String name, String verdict, byte[] frame, Object value, List<Object> codes) {
        @Override
        public String toString() {
            return name;
        }
    }

    static Stream<Vector> vectors() {
        List<Map<String, Object>> frames =
                Repository.at(Repository.json("vectors/codec.json"), "frames");
        return frames.stream()
                .map(
                        frame ->
                                new Vector(
                                        Repository.at(frame, "name"),
                                        Repository.at(frame, "verdict"),
                                        HexFormat.of().parseHex(Repository.at(frame, "hex")),
                                        frame.get("value"),
                                        Repository.at(frame, "codes")));
    }

    @ParameterizedTest
    @MethodSource("vectors")
    void aFrameIsTakenOrRefusedAsItsVectorSays(Vector vector) {
        switch (vector.verdict) {
            case "valid" -> assertEquals(vector.value, Codec.decode(vector.frame));
            case "invalid", "acceptable" -> {
                // All that a dispatcher may take, this one refuses.
                var error =
                        assertThrows(
                                ProtocolException.class, () -> Codec.decode(vector.frame));
                assertTrue(vector.codes.contains(error.code), error.code);
            }
            default -> throw new AssertionError("no verdict " + vector.verdict);
        }
    }

    @ParameterizedTest
    @MethodSource("vectors")
    void whatIsDecodedIsEncodedAgain(Vector vector) {
        if (vector.verdict.equals("valid") && !vector.name.equals("nil")) {
            Map<String, Object> value = Codec.decode(vector.frame);

            assertEquals(withoutNil(value), Codec.decode(Codec.encode(value)));
        }
    }

    @SuppressWarnings("unchecked") // keys of messages are texts
    private static Object withoutNil(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> kept = new LinkedHashMap<>();
            ((Map<String, Object>) map)
                    .forEach(
                            (key, item) -> {
                                if (item != null) {
                                    kept.put(key, withoutNil(item));
                                }
                            });
            return kept;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(CodecTest::withoutNil).toList();
        }
        return value;
    }

    @Test
    void theExamplesAreEncodedToTheirBytes() {
        Map<String, Object> ping = new LinkedHashMap<>();
        ping.put("v", 1L);
        ping.put("type", "ping");
        ping.put("session", "1");
        ping.put("epoch", 2L);
        ping.put("re", 6L);
        ping.put("body", Map.of());

        byte[] expected = vectors().filter(v -> v.name.equals("plain")).findFirst().get().frame;
        assertArrayEquals(expected, Codec.encode(ping));
    }

    @Test
    void nothingBeyondTheProfileIsWritten() {
        for (Object value :
                List.of(1L << 53, -(1L << 53), Double.NaN, Double.POSITIVE_INFINITY, 'c')) {
            assertThrows(
                    IllegalArgumentException.class, () -> Codec.encode(Map.of("x", value)));
        }
    }

    @Test
    void anIntegralFloatIsAnIntegerAndNothingElseIs() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("float", 7.0);
        map.put("fraction", 7.5);
        map.put("beyond", 9007199254740992.0);
        map.put("text", "7");
        map.put("truth", true);
        map.put("nil", null);
        Fields fields = new Fields(map);

        assertEquals(7L, fields.integer("float"));
        assertEquals(null, fields.integerOrNull("nil"));
        for (String name : List.of("fraction", "beyond", "text", "truth", "nil", "absent")) {
            var error = assertThrows(ProtocolException.class, () -> fields.integer(name));
            assertEquals("message.invalid", error.code);
            assertTrue(error.getMessage().startsWith(name + ":"), error.getMessage());
        }
    }
}
