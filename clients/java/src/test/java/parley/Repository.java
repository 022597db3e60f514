package parley;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import parley.wire.JsonText;

/** The project's schemas, vectors and transcripts, which every implementation is held to. */
public final class Repository {
    private static final Path SCHEMAS = Path.of("..", "..", "schemas");

    private Repository() {}

    public static Map<String, Object> json(String path) {
        return read(SCHEMAS.resolve(path));
    }

    /** The messages of a transcript: direction and view of each. */
    public static List<Map<String, Object>> transcript(String name) {
        try {
            List<Map<String, Object>> lines = new ArrayList<>();
            for (String line : Files.readAllLines(SCHEMAS.resolve("transcripts/" + name))) {
                Map<String, Object> entry = JsonText.read(line.getBytes("UTF-8"));
                if (entry.containsKey("dir")) {
                    lines.add(entry);
                }
            }
            return lines;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static List<Path> examples() {
        try (var files = Files.list(SCHEMAS.resolve("examples"))) {
            return files.filter(path -> path.toString().endsWith(".json")).sorted().toList();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static Map<String, Object> read(Path path) {
        try {
            return JsonText.read(Files.readAllBytes(path), 64);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @SuppressWarnings("unchecked") // the caller knows what stands there
    public static <T> T at(Object value, String... path) {
        for (String name : path) {
            value = ((Map<String, Object>) value).get(name);
        }
        return (T) value;
    }
}
