package parley.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import parley.Repository;

/** The records are held to the schemas, name by name: a field more or less there fails here. */
final class TypesTest {
    private static final Map<String, Class<?>> DEFINITIONS =
            Map.ofEntries(
                    Map.entry("Welcome", Welcome.class),
                    Map.entry("Program", Welcome.Program.class),
                    Map.entry("Granted", Welcome.Granted.class),
                    Map.entry("Limits", Welcome.Limits.class),
                    Map.entry("Policy", Welcome.Policy.class),
                    Map.entry("Scenario", Welcome.Scenario.class),
                    Map.entry("Rules", Welcome.Rules.class),
                    Map.entry("Platform", Welcome.Platform.class),
                    Map.entry("NodeGroup", Welcome.NodeGroup.class),
                    Map.entry("DecisionRequest", DecisionRequest.class),
                    Map.entry("State", State.class),
                    Map.entry("RunningJob", State.RunningJob.class),
                    Map.entry("Timer", State.Timer.class),
                    Map.entry("Job", JobDescription.class),
                    Map.entry("ChunkGroup", JobDescription.ChunkGroup.class),
                    Map.entry("Outcome", Outcome.class),
                    Map.entry("StateSnapshot", StateSnapshot.class),
                    Map.entry("SessionEnd", SessionEnd.class),
                    Map.entry("Stats", SessionEnd.Stats.class),
                    Map.entry("Error", ErrorReport.class),
                    Map.entry("Hello", Hello.class),
                    Map.entry("Capabilities", Hello.Capabilities.class),
                    Map.entry("Resume", Hello.Resume.class));

    private static final Map<String, Map<String, Object>> SCHEMAS =
            Repository.at(Repository.json("definitions.schema.json"), "$defs");

    static Stream<String> definitions() {
        return DEFINITIONS.keySet().stream().sorted();
    }

    @ParameterizedTest
    @MethodSource("definitions")
    void aRecordHasTheFieldsOfItsSchema(String name) {
        assertEquals(properties(name), components(DEFINITIONS.get(name)));
    }

    @Test
    void eachEventHasTheFieldsOfItsSchema() {
        for (Class<?> kind : Event.class.getPermittedSubclasses()) {
            Set<String> fields = components(kind);
            fields.add("kind");

            assertEquals(properties(kind.getSimpleName()), fields, kind.getSimpleName());
        }
    }

    @Test
    void everyEventOfTheRequestIsKnown() {
        assertEquals(
                names(Event.class),
                referenced(Repository.at(SCHEMAS.get("DecisionRequest"), "properties", "events")));
    }

    @Test
    void eachDecisionHasTheFieldsOfItsSchema() {
        List<Decision> all =
                List.of(
                        new Decision.Start(0, 1, List.of()),
                        new Decision.Reject(0, 1, "r"),
                        new Decision.Kill(0, 1),
                        new Decision.Requeue(0, 1),
                        new Decision.Hold(0, 1, "r"),
                        new Decision.Release(0, 1),
                        new Decision.Wake(0, 1, 2),
                        new Decision.WakeCancel(0, 1),
                        new Decision.Annotate(0, 1, 2L, "r"),
                        new Decision.Stop(0, "r"));
        for (Decision decision : all) {
            String name = decision.getClass().getSimpleName();
            Map<String, Object> said = Repository.at(SCHEMAS.get(name), "properties", "kind");

            assertEquals(properties(name), decision.wire().keySet(), name);
            assertEquals(said.get("const"), decision.wire().get("kind"));
        }
        assertEquals(Decision.class.getPermittedSubclasses().length, all.size());
    }

    @Test
    void everyDecisionIsOfferedButSubmit() {
        Set<String> known =
                referenced(Repository.at(SCHEMAS.get("DecisionReply"), "properties", "decisions"));
        known.removeAll(Set.of("Submit", "UnknownDecision"));

        assertEquals(known, names(Decision.class));
    }

    @Test
    void repliesAndNotesHaveTheFieldsThatAreWritten() {
        assertEquals(
                Set.of("decisions", "state_version", "compute_us"), properties("DecisionReply"));
        assertEquals(Set.of("note"), properties("Progress"));
        assertEquals(Set.of("deadline_ms"), properties("ProgressAck"));
        assertEquals(Set.of("reason"), properties("Bye"));
        assertEquals(Set.of(), properties("Empty"));
    }

    static Stream<Path> examples() {
        return Repository.examples().stream();
    }

    @ParameterizedTest
    @MethodSource("examples")
    void whatTheServerSaysIsReadWithoutLoss(Path path) {
        Map<String, Object> message = Repository.read(path);
        Map<String, Object> body = Repository.at(message, "body");
        Fields fields = new Fields(message).fields("body");
        switch (Repository.<String>at(message, "type")) {
            case "welcome" -> assertRead(body, Welcome.of(fields));
            case "decision.request" -> assertRead(body, DecisionRequest.of(fields));
            case "state.snapshot" -> assertRead(body, StateSnapshot.of(fields));
            case "session.end" -> assertRead(body, SessionEnd.of(fields));
            case "error" -> assertRead(body, ErrorReport.of(fields));
            default -> assertFalse(body.containsKey("events"), "another request");
        }
    }

    @Test
    void anEventOfALaterVersionIsPassedOver() {
        Map<String, Object> map = Map.of("kind", "power.changed", "at_us", 3.0, "watts", 7L);

        Event event = Event.of(new Fields(map));

        assertEquals(3, assertInstanceOf(Event.UnknownEvent.class, event).atUs());
    }

    /** Everything that the message holds and that is no nil stands in the record. */
    private static void assertRead(Map<String, Object> said, Record read) {
        assertEquals(plain(said), plain(read));
    }

    private static Object plain(Object value) {
        if (value instanceof Event.NodeRange range) {
            return List.of(range.first() + 0L, range.last() + 0L);
        }
        if (value instanceof Span span) {
            return List.of(span.first() + 0L, span.last() + 0L, span.chunks());
        }
        if (value instanceof State.NodeRun run) {
            long first = run.first();
            long last = run.last();
            return List.of(first, last, run.free(), run.up() ? "up" : "down");
        }
        if (value instanceof Record record) {
            return plain(fieldsOf(record));
        }
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> kept = new LinkedHashMap<>();
            map.forEach((key, item) -> kept.put(key, plain(item)));
            kept.values().removeIf(item -> item == null);
            // An event of a later version, of which no more than the instant is read.
            kept.remove("watts");
            kept.remove("kind");
            return kept;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(TypesTest::plain).toList();
        }
        return value instanceof Integer number ? Long.valueOf(number) : value;
    }

    private static Map<String, Object> fieldsOf(Record record) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (RecordComponent component : record.getClass().getRecordComponents()) {
            try {
                component.getAccessor().setAccessible(true);
                fields.put(wireName(component), component.getAccessor().invoke(record));
            } catch (ReflectiveOperationException error) {
                throw new AssertionError(error);
            }
        }
        return fields;
    }

    private static Set<String> properties(String definition) {
        Map<String, Object> properties =
                Repository.at(SCHEMAS.get(definition), "properties");
        return properties == null ? Set.of() : new TreeSet<>(properties.keySet());
    }

    private static Set<String> components(Class<?> type) {
        return Arrays.stream(type.getRecordComponents())
                .map(TypesTest::wireName)
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private static String wireName(RecordComponent component) {
        return component.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
    }

    private static Set<String> names(Class<?> family) {
        return Arrays.stream(family.getPermittedSubclasses())
                .map(Class::getSimpleName)
                .collect(Collectors.toCollection(TreeSet::new));
    }

    private static Set<String> referenced(Object schema) {
        Set<String> found = new HashSet<>();
        var matcher = java.util.regex.Pattern.compile("\\$defs/(\\w+)").matcher(schema.toString());
        while (matcher.find()) {
            found.add(matcher.group(1));
        }
        return new TreeSet<>(found);
    }
}
