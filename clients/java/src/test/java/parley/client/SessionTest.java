package parley.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import parley.Repository;
import parley.client.ClientException.ConnectionLost;
import parley.client.ClientException.ServerRefused;
import parley.client.ClientException.WrongUsage;
import parley.wire.Codec;
import parley.wire.SessionEnd;

@Timeout(30)
final class SessionTest {
    private static final Map<String, Object> END =
            Repository.at(Repository.json("examples/session.end-stopped.json"), "body");

    @TempDir private Path folder;

    /** A server that says its lines whatever it hears, and notes what that was. */
    private static final class Script implements AutoCloseable {
        final List<Map<String, Object>> heard = new ArrayList<>();
        private final ZContext context = new ZContext();
        private final String endpoint;
        private final CompletableFuture<Void> course;

        Script(List<Map<String, Object>> lines) {
            ZMQ.Socket socket = context.createSocket(SocketType.ROUTER);
            // A client that fell silent is seen by what it has said.
            socket.setReceiveTimeOut(5000);
            endpoint = "tcp://127.0.0.1:" + socket.bindToRandomPort("tcp://127.0.0.1");
            course = CompletableFuture.runAsync(() -> lines.forEach(line -> turn(socket, line)));
        }

        private void turn(ZMQ.Socket socket, Map<String, Object> line) {
            byte[] client = socket.recv();
            if (client == null) {
                return;
            }
            socket.recv();
            heard.add(Codec.decode(socket.recv()));
            socket.send(client, ZMQ.SNDMORE);
            socket.send("", ZMQ.SNDMORE);
            socket.send(Codec.encode(line));
        }

        @Override
        public void close() {
            course.join();
            context.close();
        }

        List<Object> types() {
            return heard.stream().map(message -> message.get("type")).toList();
        }
    }

    private static Map<String, Object> message(long seq, String type, Map<String, ?> body) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("v", 1L);
        message.put("type", type);
        message.put("session", "s");
        message.put("epoch", 1L);
        message.put("seq", seq);
        message.put("body", body);
        return message;
    }

    private static Map<String, Object> welcome(long decisions) {
        Map<String, Object> body =
                Repository.at(Repository.json("examples/welcome-resumed.json"), "body");
        Map<String, Object> limits = Repository.at(body, "limits");
        limits.put("decisions", decisions);
        Map<String, Object> policy = Repository.at(body, "policy");
        policy.put("on_disconnect", "fail");
        return message(1, "welcome", body);
    }

    private static Map<String, Object> request(long seq) {
        Map<String, Object> body =
                Repository.at(Repository.json("examples/decision.request-resumed.json"), "body");
        return message(seq, "decision.request", body);
    }

    private static Map<String, Object> error(String code, boolean fatal) {
        return Map.of("code", code, "message", "told\nso", "fatal", fatal);
    }

    @Test
    void aRefusedHelloIsToldInOneLineAndTheTicketForgotten() throws Exception {
        Path file = folder.resolve("ticket");
        Files.writeString(file, "{\"session\": \"s\", \"token\": \"t\"}");
        var refusal = message(1, "error", error("session.over", true));
        try (Script script = new Script(List.of(refusal))) {
            var refused =
                    assertThrows(
                            ServerRefused.class,
                            () ->
                                    new Session(view -> {})
                                            .sessionFile(file)
                                            .serve(script.endpoint));

            assertEquals("the server says session.over: told so", refused.getMessage());
            assertEquals(
                    Map.of("session", "s", "token", "t"),
                    Repository.at(script.heard.get(0), "body", "resume"));
            assertFalse(Files.exists(file));
        }
    }

    @Test
    void afterAnErrorThatIsNotFatalTheSessionIsLeft() {
        var lines =
                List.of(
                        welcome(10),
                        request(2),
                        message(3, "error", error("of.later", false)),
                        message(4, "session.end", END));
        try (Script script = new Script(lines)) {
            var refused =
                    assertThrows(
                            ServerRefused.class,
                            () -> new Session(view -> {}).serve(script.endpoint));

            assertFalse(refused.fatal);
            script.course.join();
            assertEquals(List.of("hello", "ready", "decision.reply", "bye"), script.types());
            assertEquals(2L, script.heard.get(3).get("re"));
        }
    }

    @Test
    void afterAFatalErrorNothingIsSaid() {
        var lines =
                List.of(welcome(10), request(2), message(3, "error", error("epoch.stale", true)));
        try (Script script = new Script(lines)) {
            assertThrows(
                    ServerRefused.class, () -> new Session(view -> {}).serve(script.endpoint));
            assertEquals(List.of("hello", "ready", "decision.reply"), script.types());
        }
    }

    @Test
    void aDispatcherThatFailsLeavesTheSession() {
        var lines = List.of(welcome(10), request(2), message(3, "session.end", END));
        Dispatcher faulty =
                view -> {
                    throw new IllegalStateException("no idea");
                };
        try (Script script = new Script(lines)) {
            assertThrows(
                    IllegalStateException.class,
                    () -> new Session(faulty).serve(script.endpoint));
            script.course.join();
            assertEquals(List.of("hello", "ready", "bye"), script.types());
        }
    }

    @Test
    void noReplyHoldsMoreDecisionsThanTheServerTakes() {
        var lines = List.of(welcome(2), request(2), message(3, "session.end", END));
        Dispatcher eager =
                view -> {
                    for (int timer = 1; timer <= 5; timer++) {
                        view.callAt(view.nowUs() + timer);
                    }
                };
        try (Script script = new Script(lines)) {
            SessionEnd end = new Session(eager).serve(script.endpoint);

            assertTrue(end.complete());
            List<?> decisions = Repository.at(script.heard.get(2), "body", "decisions");
            assertEquals(2, decisions.size());
        }
    }

    @Test
    void aForeignDigestMakesTheClientAskForTheState() {
        Map<String, Object> request = request(2);
        Map<String, Object> body = Repository.at(request, "body");
        body.put("state_digest", "0".repeat(64));
        Map<String, Object> snapshot =
                Repository.at(Repository.json("examples/state.snapshot.json"), "body");
        var lines =
                List.of(
                        welcome(10),
                        request,
                        message(3, "state.snapshot", snapshot),
                        message(4, "session.end", END));
        try (Script script = new Script(lines)) {
            new Session(view -> {}).serve(script.endpoint);

            assertEquals(
                    List.of("hello", "ready", "state.request", "decision.reply"), script.types());
            assertEquals(2L, script.heard.get(3).get("re"));
        }
    }

    @Test
    void aServerThatNeverAnswersIsGivenUp() {
        var lost =
                assertThrows(
                        ConnectionLost.class,
                        () ->
                                new Session(view -> {})
                                        .patience(Duration.ofMillis(300))
                                        .serve("tcp://127.0.0.1:9"));

        assertTrue(lost.getMessage().contains("tcp://127.0.0.1:9"), lost.getMessage());
    }

    @Test
    void whatIsNoEndpointAndWhatIsNoTicketIsWrongUsage() throws Exception {
        Path file = folder.resolve("torn");
        Files.writeString(file, "{\"session\": ");

        for (String endpoint : List.of("nonsense", "tcp://", "tcp://127.0.0.1:port", "x://y")) {
            assertThrows(
                    WrongUsage.class,
                    () -> new Session(view -> {}).serve(endpoint),
                    endpoint);
        }
        var error =
                assertThrows(
                        WrongUsage.class,
                        () ->
                                new Session(view -> {})
                                        .sessionFile(file)
                                        .serve("tcp://127.0.0.1:9"));
        assertTrue(error.getMessage().startsWith(file.toString()), error.getMessage());
    }
}
