package parley.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import parley.Repository;
import parley.wire.DecisionRequest;
import parley.wire.Event;
import parley.wire.Fields;
import parley.wire.JobDescription;
import parley.wire.Outcome;
import parley.wire.Span;
import parley.wire.Welcome;

final class MirrorTest {
    private static final Dispatcher STRICT =
            view -> {
                for (Job job : view.queue()) {
                    if (!view.start(job)) {
                        break;
                    }
                }
            };

    /** The recorded dispatcher was first come, first served with first fit. */
    @ParameterizedTest
    @ValueSource(strings = {"plain", "shared", "failing"})
    void theRequestsOfATranscriptAreAnsweredAsRecorded(String name) {
        View view = null;
        List<Map<String, Object>> due = null;
        int replies = 0;
        for (Map<String, Object> line : Repository.transcript(name + ".jsonl")) {
            Fields body = new Fields(Repository.at(line, "view")).fields("body");
            switch (Repository.<String>at(line, "view", "type")) {
                case "welcome" -> view = new View(Welcome.of(body), null);
                case "decision.request" -> {
                    view.update(DecisionRequest.of(body));
                    STRICT.decide(view);
                    due = view.sent().stream().map(sent -> sent.decision().wire()).toList();
                }
                case "decision.reply" -> {
                    assertEquals(plain(body.items("decisions")), plain(due));
                    replies++;
                }
                default -> {}
            }
        }
        assertTrue(replies > 5);
    }

    /** Where each request carries the state, the mirror leads itself to the same. */
    @Test
    void theMirrorComesToEveryStateThatIsTold() {
        View mirror = null;
        View told = null;
        int states = 0;
        for (Map<String, Object> line : Repository.transcript("shared.jsonl")) {
            Fields body = new Fields(Repository.at(line, "view")).fields("body");
            String type = Repository.at(line, "view", "type");
            if (type.equals("welcome")) {
                mirror = new View(Welcome.of(body), null);
                told = new View(Welcome.of(body), null);
            } else if (type.equals("decision.request")) {
                DecisionRequest request = DecisionRequest.of(body);
                told.update(request);
                mirror.update(states == 0 ? request : withoutState(request));

                assertEquals(told.digest(), mirror.digest());
                states++;
                STRICT.decide(mirror);
            }
        }
        assertTrue(states > 5);
    }

    private static DecisionRequest withoutState(DecisionRequest request) {
        return new DecisionRequest(
                request.nowUs(),
                request.attempt(),
                request.events(),
                request.outcomes(),
                request.stateVersion(),
                null,
                null,
                null);
    }

    /** The lines and their digest stand in decisions.md. */
    @Test
    void theDigestIsThatOfTheSpecification() {
        String lines =
                """
                now 7200000000
                pending 12
                held 12
                running 7 3600000000 0-3*1,9-9*2
                free core 14
                free gpu 0
                down 4-4
                down 6-7
                timer 1 9000000000
                """;
        assertEquals(
                "bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700",
                Mirror.sha256(lines));
    }

    /** The example carries its digest. */
    @Test
    void theDigestOfAStateIsThatOfTheServer() {
        Fields welcome = body("examples/welcome-resumed.json");
        Fields request = body("examples/decision.request-resumed.json");
        View view = new View(Welcome.of(welcome), null);

        view.update(DecisionRequest.of(request));

        assertEquals(request.text("state_digest"), view.digest());
        assertEquals(List.of(1L), view.fired());
        assertEquals(List.of(0L), view.ended());
        assertEquals("timer.unknown", view.rejected().get(0).code());
    }

    @Test
    void resourcesAreOrderedByCodePoints() {
        // As halves of surrogate pairs, the second would come first.
        assertTrue(Text.compareCodePoints("\uff5e", "\ud83e\uddee") < 0);
        assertTrue("\uff5e".compareTo("\ud83e\uddee") > 0);
    }

    @Test
    void aRefusedStartIsUndoneInItsPlace() {
        Fixture fixture = new Fixture(4);
        fixture.ask(fixture.submitted(0, 2, 60L), fixture.submitted(1, 2, 60L));
        Job first = fixture.view.queue().head();
        fixture.view.start(first);
        fixture.view.start(fixture.view.queue().head());
        String before = fixture.view.digest();

        fixture.told(List.of(outcome(0, "node.busy"), outcome(1, null)));

        assertNotEquals(before, fixture.view.digest());
        assertEquals(first, fixture.view.queue().head());
        assertEquals(2, fixture.view.nodes().available(first.shape()));
        assertEquals(1, fixture.view.running().size());
    }

    @Test
    void aStartThatTakesTimeHoldsNothingUntilItTakesEffect() {
        Fixture fixture = new Fixture(4);
        fixture.ask(fixture.submitted(0, 2, 60L));
        fixture.view.start(fixture.view.queue().head());
        Outcome late = new Outcome(0, "applied", null, null, null, null, 7_000_000L);

        fixture.told(
                List.of(late),
                new Event.NodeDown(3_000_000, List.of(new Event.NodeRange(0, 0))),
                new Event.NodeUp(5_000_000, List.of(new Event.NodeRange(0, 0))));

        assertEquals(7_000_000, fixture.view.running(0).startUs());
        assertEquals(List.of(new Span(0, 1, 1)), fixture.view.running(0).spans());
    }

    @Test
    void whatCannotBeIsNoticed() {
        Fixture fixture = new Fixture(4);

        assertThrows(Drift.class, () -> fixture.ask(new Event.JobEnded(0, 9, "completed")));
        assertThrows(Drift.class, () -> fixture.told(List.of(outcome(4, "node.busy"))));
    }

    @Test
    void decisionsAboutOtherJobsAreRefusedAtOnce() {
        Fixture fixture = new Fixture(4);
        fixture.ask(fixture.submitted(0, 2, 60L));
        Job job = fixture.view.queue().head();
        assertTrue(fixture.view.start(job));

        assertThrows(ClientException.class, () -> fixture.view.start(job));
        assertThrows(ClientException.class, () -> fixture.view.release(job));
        assertThrows(ClientException.class, () -> fixture.view.cancel(3));
        assertFalse(fixture.view.queue().contains(job));
    }

    @Test
    void jobsMayLeaveWhileOneIterates() {
        Fixture fixture = new Fixture(4);
        Event[] events = new Event[6];
        for (int job = 0; job < events.length; job++) {
            events[job] = fixture.submitted(job, 1, 60L);
        }
        fixture.ask(events);
        List<Long> seen = new ArrayList<>();
        for (Job job : fixture.view.queue()) {
            seen.add(job.number());
            fixture.view.reject(job, null);
            if (job.number() == 2) {
                fixture.view.reject(fixture.view.queue().get(3), null);
            }
        }

        assertEquals(List.of(0L, 1L, 2L, 4L, 5L), seen);
        assertEquals(0, fixture.view.queue().size());
    }

    private static Outcome outcome(long id, String code) {
        return new Outcome(id, code == null ? "applied" : "rejected", code, null, null, null, null);
    }

    private static Fields body(String path) {
        return new Fields(Repository.json(path)).fields("body");
    }

    /** Numbers by value, whatever they were held in. */
    private static String plain(Object value) {
        return value instanceof Map<?, ?> map
                ? new java.util.TreeMap<>(map).toString()
                : ((List<?>) value)
                        .stream().map(item -> new java.util.TreeMap<>((Map<?, ?>) item).toString())
                                .toList()
                                .toString();
    }

    static JobDescription job(long number, long chunks, Long walltimeUs) {
        var group = new JobDescription.ChunkGroup(chunks, Map.of("core", 1L), true);
        return new JobDescription(
                number, "j" + number, 0, walltimeUs, List.of(group), null, null, null, null, null);
    }

    /** A session on whole nodes of one core. */
    static final class Fixture {
        final View view;

        Fixture(int nodes) {
            this(
                    new Welcome.Platform(
                            nodes,
                            List.of(new Welcome.NodeGroup("n", 0, nodes - 1, Map.of("core", 1L)))));
        }

        Fixture(Welcome.Platform platform) {
            view =
                    new View(
                            new Welcome(
                                    "1.0", null, null, "always", List.of(), "", false, 0, null,
                                    null, null, platform),
                            null);
        }

        Event submitted(long number, long chunks, Long walltimeUs) {
            return new Event.JobSubmitted(0, job(number, chunks, walltimeUs));
        }

        void ask(Event... events) {
            told(List.of(), events);
        }

        void told(List<Outcome> outcomes, Event... events) {
            view.update(
                    new DecisionRequest(
                            view.nowUs() + 10_000_000,
                            1,
                            List.of(events),
                            outcomes,
                            1,
                            null,
                            null,
                            null));
        }
    }
}
