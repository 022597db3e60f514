package parley.wire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * The fields of one map of a message, taken as the types that are due.
 *
 * <p>Nil counts as absent, a float without a fraction as the integer of that value, and neither a
 * text nor a boolean as a number. What is due and not there is refused as {@code message.invalid},
 * with its path.
 */
public final class Fields {
    private final Map<String, Object> map;
    private final String path;

    public Fields(Map<String, Object> map) {
        this(map, "");
    }

    private Fields(Map<String, Object> map, String path) {
        this.map = map;
        this.path = path;
    }

    public boolean has(String name) {
        return map.get(name) != null;
    }

    public String text(String name) {
        return typed(name, String.class, "a text");
    }

    public String textOrNull(String name) {
        return has(name) ? text(name) : null;
    }

    public boolean truth(String name) {
        return typed(name, Boolean.class, "true or false");
    }

    /** An integer within the profile's bounds. */
    public long integer(String name) {
        return asInteger(map.get(name), path + name);
    }

    public Long integerOrNull(String name) {
        return has(name) ? integer(name) : null;
    }

    public int count(String name) {
        long value = integer(name);
        if (value < 0 || value > Integer.MAX_VALUE) {
            throw invalid(path + name, "a count", value);
        }
        return (int) value;
    }

    /** A finite number, whole or not. */
    public Double amountOrNull(String name) {
        return has(name) ? (Double) typed(name, Number.class, "a number").doubleValue() : null;
    }

    public Fields fields(String name) {
        return new Fields(asMap(map.get(name), path + name), path + name + ".");
    }

    /** Any values, as they came. */
    public Map<String, Object> mapOrNull(String name) {
        return has(name) ? asMap(map.get(name), path + name) : null;
    }

    /** Amounts by the names of resources. */
    public Map<String, Long> amounts(String name) {
        return asAmounts(map.get(name), path + name);
    }

    /** Makes something of each map of an array. */
    public <T> List<T> each(String name, Function<Fields, T> make) {
        List<Object> items = asList(map.get(name), path + name);
        List<T> made = new ArrayList<>(items.size());
        for (Object item : items) {
            String where = path + name + "." + made.size();
            made.add(make.apply(new Fields(asMap(item, where), where + ".")));
        }
        return made;
    }

    public List<String> texts(String name) {
        List<String> texts = new ArrayList<>();
        for (Object item : asList(map.get(name), path + name)) {
            if (!(item instanceof String text)) {
                throw invalid(path + name, "an array of texts", item);
            }
            texts.add(text);
        }
        return texts;
    }

    public List<Object> items(String name) {
        return asList(map.get(name), path + name);
    }

    /** Where a message that holds these fields names one of them. */
    public String pathOf(String name) {
        return path + name;
    }

    static Map<String, Long> asAmounts(Object value, String path) {
        Map<String, Long> amounts = new LinkedHashMap<>();
        asMap(value, path).forEach((kind, amount) -> amounts.put(kind, natural(amount, path)));
        return amounts;
    }

    static long natural(Object value, String path) {
        long number = asInteger(value, path);
        if (number < 0) {
            throw invalid(path, "a number from 0", value);
        }
        return number;
    }

    static long asInteger(Object value, String path) {
        if (value instanceof Long whole) {
            return whole;
        }
        if (value instanceof Double number
                && number == Math.rint(number)
                && Math.abs(number) <= Codec.MAX_INTEGER) {
            return number.longValue();
        }
        throw invalid(path, "an integer", value);
    }

    @SuppressWarnings("unchecked") // the codec makes no map of other keys
    static Map<String, Object> asMap(Object value, String path) {
        if (value instanceof Map<?, ?> map) {
            return (Map<String, Object>) map;
        }
        if (path.isEmpty()) {
            throw new ProtocolException("encoding.malformed", "a message is a map");
        }
        throw invalid(path, "a map", value);
    }

    @SuppressWarnings("unchecked") // any list is one of objects
    static List<Object> asList(Object value, String path) {
        if (value instanceof List<?> list) {
            return (List<Object>) list;
        }
        throw invalid(path, "an array", value);
    }

    static ProtocolException invalid(String path, String due, Object value) {
        String found = value == null ? "nothing" : String.valueOf(value);
        if (found.length() > 40) {
            found = found.substring(0, 40) + "...";
        }
        return new ProtocolException("message.invalid", path + ": " + due + " is due, not " + found);
    }

    private <T> T typed(String name, Class<T> type, String due) {
        Object value = map.get(name);
        if (!type.isInstance(value)) {
            throw invalid(path + name, due, value);
        }
        return type.cast(value);
    }
}
