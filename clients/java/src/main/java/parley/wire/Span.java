package parley.wire;

import java.util.ArrayList;
import java.util.List;

/** Nodes {@code first} to {@code last}, each with so many chunks of a job. */
public record Span(int first, int last, long chunks) {

    /** Joins neighbouring spans with equally many chunks a node; they must ascend. */
    public static List<Span> merged(List<Span> spans) {
        List<Span> result = new ArrayList<>(spans.size());
        for (Span span : spans) {
            Span before = result.isEmpty() ? null : result.get(result.size() - 1);
            if (before != null
                    && before.last + 1 == span.first
                    && before.chunks == span.chunks) {
                result.set(result.size() - 1, new Span(before.first, span.last, span.chunks));
            } else {
                result.add(span);
            }
        }
        return result;
    }

    /** Reads an allocation: a list of spans for each group of a request. */
    static List<List<Span>> allocation(Fields fields, String name) {
        String path = fields.pathOf(name);
        List<List<Span>> groups = new ArrayList<>();
        for (Object group : fields.items(name)) {
            List<Span> spans = new ArrayList<>();
            for (Object span : Fields.asList(group, path)) {
                List<Object> numbers = Fields.asList(span, path);
                if (numbers.size() != 3) {
                    throw Fields.invalid(path, "[first, last, chunks]", span);
                }
                spans.add(
                        new Span(
                                node(numbers.get(0), path),
                                node(numbers.get(1), path),
                                Fields.natural(numbers.get(2), path)));
            }
            groups.add(spans);
        }
        return groups;
    }

    static int node(Object value, String path) {
        long number = Fields.natural(value, path);
        if (number > Integer.MAX_VALUE) {
            throw Fields.invalid(path, "a node", value);
        }
        return (int) number;
    }

    List<Object> wire() {
        return List.of(first, last, chunks);
    }
}
