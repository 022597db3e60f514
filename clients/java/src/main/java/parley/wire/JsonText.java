package parley.wire;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.io.JsonEOFException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.LinkedHashMap;
import java.util.Map;

/** The same values as {@link Codec} has them, from JSON text. */
public final class JsonText {
    private static final int DEPTH = 32;

    private JsonText() {}

    /**
     * Returns the object that a text is.
     *
     * @throws ProtocolException it is none, or not of the profile
     */
    public static Map<String, Object> read(byte[] text) {
        return read(text, DEPTH);
    }

    /** The same with maps and arrays within each other to another depth than that of messages. */
    public static Map<String, Object> read(byte[] text, int depth) {
        try (JsonParser parser = parser(text)) {
            parser.nextToken();
            Object value = value(parser, depth);
            if (parser.nextToken() != null) {
                throw new ProtocolException("encoding.trailing", "text follows the message");
            }
            return Fields.asMap(value, "");
        } catch (JsonEOFException error) {
            throw Codec.truncated();
        } catch (JsonParseException error) {
            boolean twice = error.getOriginalMessage().startsWith("Duplicate field");
            throw new ProtocolException(
                    twice ? "encoding.duplicate_key" : "encoding.malformed",
                    "not JSON: " + error.getOriginalMessage());
        } catch (IOException error) {
            throw new ProtocolException("encoding.type", error.getMessage());
        }
    }

    /** Returns a map of texts as JSON. */
    public static String write(Map<String, String> texts) throws IOException {
        StringWriter writer = new StringWriter();
        try (var generator = new JsonFactory().createGenerator(writer)) {
            generator.writeStartObject();
            for (Map.Entry<String, String> entry : texts.entrySet()) {
                generator.writeStringField(entry.getKey(), entry.getValue());
            }
            generator.writeEndObject();
        }
        return writer.toString();
    }

    private static JsonParser parser(byte[] text) throws IOException {
        try {
            // Decoded first: the parser lets some of what is no UTF-8 pass.
            String decoded =
                    StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(text)).toString();
            return JsonFactory.builder()
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    // Told apart from what is no JSON at all; they are refused as numbers.
                    .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
                    .build()
                    .createParser(decoded);
        } catch (CharacterCodingException error) {
            throw new ProtocolException("encoding.type", "the text is not valid UTF-8");
        }
    }

    private static Object value(JsonParser parser, int depth) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == null) {
            throw Codec.truncated();
        }
        switch (token) {
            case START_OBJECT:
                return object(parser, Codec.inside(depth));
            case START_ARRAY:
                return array(parser, Codec.inside(depth));
            case VALUE_STRING:
                return text(parser.getText());
            case VALUE_NUMBER_INT:
                return integer(parser.getBigIntegerValue());
            case VALUE_NUMBER_FLOAT:
                return Codec.finite(parser.getDoubleValue());
            case VALUE_TRUE, VALUE_FALSE:
                return parser.getBooleanValue();
            case VALUE_NULL:
                return null;
            default:
                throw new ProtocolException("encoding.malformed", "no value of JSON");
        }
    }

    private static Map<String, Object> object(JsonParser parser, int depth) throws IOException {
        Map<String, Object> map = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String key = text(parser.currentName());
            parser.nextToken();
            map.put(key, value(parser, depth));
        }
        return map;
    }

    private static List<Object> array(JsonParser parser, int depth) throws IOException {
        List<Object> list = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            list.add(value(parser, depth));
        }
        return list;
    }

    /** Half a surrogate pair can be written as an escape, and is no text. */
    private static String text(String text) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new ProtocolException("encoding.type", "half a surrogate pair");
        }
        return text;
    }

    private static Long integer(BigInteger value) {
        if (value.bitLength() > 53) {
            throw Codec.beyond(value);
        }
        return Codec.integer(value.longValue());
    }
}
