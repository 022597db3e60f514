package parley.wire;

import java.io.IOException;
import java.nio.charset.CodingErrorAction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessageFormatException;
import org.msgpack.core.MessageInsufficientBufferException;
import org.msgpack.core.MessageIntegerOverflowException;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageSizeException;
import org.msgpack.core.MessageStringCodingException;
import org.msgpack.core.MessageTypeException;
import org.msgpack.core.MessageUnpacker;

/**
 * Bytes to values and back: the MessagePack profile, and JSON text for whoever is answered in it.
 *
 * <p>Values are {@code Map<String, Object>}, {@code List<Object>}, {@code String}, {@code Long},
 * {@code Double}, {@code Boolean} and null. Whether a number was written as an integer or as a
 * float is kept; {@link Fields} takes either where its value will do.
 */
public final class Codec {
    /** The greatest integer of the profile, 2^53 - 1; its negative is the least. */
    public static final long MAX_INTEGER = (1L << 53) - 1;

    private static final int DEPTH = 32;

    /** Text that is no UTF-8 is replaced by question marks unless one asks for an error. */
    private static final MessagePack.UnpackerConfig STRICT =
            new MessagePack.UnpackerConfig()
                    .withActionOnMalformedString(CodingErrorAction.REPORT)
                    .withActionOnUnmappableString(CodingErrorAction.REPORT);

    private Codec() {}

    /** Returns the frame of a message that was built to the profile; null values are left out. */
    public static byte[] encode(Map<String, ?> message) {
        try (MessageBufferPacker packer = MessagePack.newDefaultBufferPacker()) {
            pack(packer, message);
            return packer.toByteArray();
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void pack(MessageBufferPacker packer, Object value) throws IOException {
        if (value instanceof String text) {
            packer.packString(text);
        } else if (value instanceof Number number) {
            packNumber(packer, number);
        } else if (value instanceof Map<?, ?> map) {
            packer.packMapHeader((int) map.values().stream().filter(v -> v != null).count());
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                if (entry.getValue() != null) {
                    packer.packString((String) entry.getKey());
                    pack(packer, entry.getValue());
                }
            }
        } else if (value instanceof List<?> list) {
            packer.packArrayHeader(list.size());
            for (Object item : list) {
                pack(packer, item);
            }
        } else if (value instanceof Boolean truth) {
            packer.packBoolean(truth);
        } else if (value == null) {
            packer.packNil();
        } else {
            throw new IllegalArgumentException("no value of the profile: " + value.getClass());
        }
    }

    private static void packNumber(MessageBufferPacker packer, Number number) throws IOException {
        if (number instanceof Double || number instanceof Float) {
            double value = number.doubleValue();
            if (!Double.isFinite(value)) {
                throw new IllegalArgumentException("no number of the profile: " + value);
            }
            packer.packDouble(value);
        } else {
            long value = number.longValue();
            if (Math.abs(value) > MAX_INTEGER) {
                throw new IllegalArgumentException("an integer beyond 2^53 - 1: " + value);
            }
            packer.packLong(value);
        }
    }

    /**
     * Returns the map in a frame.
     *
     * @throws ProtocolException it is not one map of the profile
     */
    public static Map<String, Object> decode(byte[] frame) {
        if (frame.length > 0 && frame[0] == '{') {
            return JsonText.read(frame);
        }
        try (MessageUnpacker unpacker = STRICT.newUnpacker(frame)) {
            if (!unpacker.hasNext()) {
                throw truncated();
            }
            Object value = unpack(unpacker, DEPTH, frame.length);
            if (unpacker.getTotalReadBytes() < frame.length) {
                throw new ProtocolException("encoding.trailing", "bytes follow the message");
            }
            return Fields.asMap(value, "");
        } catch (MessageInsufficientBufferException error) {
            throw truncated();
        } catch (MessageIntegerOverflowException error) {
            throw beyond(error.getBigInteger());
        } catch (MessageStringCodingException error) {
            throw new ProtocolException("encoding.type", "a text is not valid UTF-8");
        } catch (MessageSizeException error) {
            throw new ProtocolException("limit.length", "a length beyond all bounds");
        } catch (MessageFormatException error) {
            throw new ProtocolException("encoding.malformed", "a byte that no value has");
        } catch (MessageTypeException error) {
            throw new ProtocolException("encoding.type", "a key is a text");
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static Object unpack(MessageUnpacker unpacker, int depth, int bytes)
            throws IOException {
        switch (unpacker.getNextFormat().getValueType()) {
            case MAP:
                return unpackMap(unpacker, inside(depth), bytes);
            case ARRAY:
                return unpackArray(unpacker, inside(depth), bytes);
            case STRING:
                return unpacker.unpackString();
            case INTEGER:
                return integer(unpacker.unpackLong());
            case FLOAT:
                return finite(unpacker.unpackDouble());
            case BOOLEAN:
                return unpacker.unpackBoolean();
            case NIL:
                unpacker.unpackNil();
                return null;
            default:
                throw new ProtocolException("encoding.type", "bin and ext are not in the profile");
        }
    }

    private static Map<String, Object> unpackMap(MessageUnpacker unpacker, int depth, int bytes)
            throws IOException {
        int size = length(unpacker.unpackMapHeader(), bytes);
        // Twice the pairs, within what the frame can hold: a header's claim costs nothing.
        Map<String, Object> map = new HashMap<>(size * 2);
        for (int at = 0; at < size; at++) {
            String key = unpacker.unpackString();
            map.put(key, unpack(unpacker, depth, bytes));
            if (map.size() <= at) {
                throw new ProtocolException("encoding.duplicate_key", "'" + key + "' stands twice");
            }
        }
        return map;
    }

    private static List<Object> unpackArray(MessageUnpacker unpacker, int depth, int bytes)
            throws IOException {
        int size = length(unpacker.unpackArrayHeader(), bytes);
        List<Object> list = new ArrayList<>(size);
        for (int at = 0; at < size; at++) {
            list.add(unpack(unpacker, depth, bytes));
        }
        return list;
    }

    private static int length(int claimed, int bytes) {
        if (claimed > bytes) {
            throw new ProtocolException("limit.length", "a length beyond that of the frame");
        }
        return claimed;
    }

    static int inside(int depth) {
        if (depth == 0) {
            throw new ProtocolException("limit.depth", "nested deeper than " + DEPTH);
        }
        return depth - 1;
    }

    static long integer(long value) {
        if (value > MAX_INTEGER || value < -MAX_INTEGER) {
            throw beyond(value);
        }
        return value;
    }

    static double finite(double value) {
        if (!Double.isFinite(value)) {
            throw new ProtocolException("encoding.type", value + " is no number of the profile");
        }
        return value;
    }

    static ProtocolException beyond(Object value) {
        return new ProtocolException("encoding.type", value + " is beyond 2^53 - 1");
    }

    static ProtocolException truncated() {
        return new ProtocolException("encoding.truncated", "the frame ends before the message");
    }
}
