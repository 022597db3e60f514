package parley.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import parley.client.ClientException.ConnectionLost;
import parley.client.ClientException.ServerRefused;
import parley.client.ClientException.WrongUsage;
import parley.wire.DecisionRequest;
import parley.wire.Hello;
import parley.wire.Outcome;
import parley.wire.ProtocolException;
import parley.wire.SessionEnd;
import parley.wire.StateSnapshot;
import parley.wire.Welcome;

/**
 * A dispatcher's side of a session, over as many connections as it takes.
 *
 * <p>{@code SessionEnd end = new Session(dispatcher).serve("tcp://127.0.0.1:5555");}
 */
public final class Session {
    private static final String VERSION = "1.0";
    private static final String[] NEXT = {"decision.request", "session.end"};

    private final Dispatcher dispatcher;
    private Path sessionFile;
    private String scenario;
    private Duration patience = Duration.ofSeconds(60);
    private Hello.Resume resume;

    /** Whether the server holds the session for whoever resumes it. */
    private boolean waitedFor;

    public Session(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
    }

    /** Keeps what it takes to go on after a crash there; if the file is there, goes on. */
    public Session sessionFile(Path file) {
        sessionFile = file;
        return this;
    }

    /** Which scenario, where a server offers several. */
    public Session scenario(String name) {
        scenario = name;
        return this;
    }

    /** How long a server may take to appear; a minute if nothing is said. */
    public Session patience(Duration duration) {
        patience = duration;
        return this;
    }

    /**
     * Decides until the run is over.
     *
     * @param endpoint where the server listens; null takes it from {@code PARLEY_ENDPOINT}
     * @return the server's last words
     * @throws ConnectionLost the server did not appear, or went away
     * @throws ServerRefused the server sent an error, or something that is not the protocol
     * @throws WrongUsage no endpoint is known, or it is none
     */
    public SessionEnd serve(String endpoint) {
        Map<String, String> environment = System.getenv();
        String where = endpoint != null ? endpoint : environment.get("PARLEY_ENDPOINT");
        if (where == null || where.isEmpty()) {
            throw new WrongUsage(
                    "where is the server? give --connect ENDPOINT, or set PARLEY_ENDPOINT"
                            + " (parley run sets it)");
        }
        Ticket ticket = new Ticket(sessionFile);
        resume = ticket.find(environment);
        while (true) {
            try (Connection connection = new Connection(where, patience)) {
                SessionEnd end = converse(connection, ticket);
                ticket.forget();
                return end;
            } catch (ConnectionLost lost) {
                if (!waitedFor) {
                    throw lost;
                }
            } catch (ServerRefused refused) {
                if ("session.over".equals(refused.code)) {
                    ticket.forget();
                }
                throw refused;
            } catch (ProtocolException error) {
                throw Connection.foreign(error.getMessage());
            }
        }
    }

    private SessionEnd converse(Connection connection, Ticket ticket) {
        waitedFor = false;
        Message answer = connection.hello(hello().wire());
        Welcome welcome = Welcome.of(answer.body());
        if (!welcome.version().equals(VERSION)) {
            throw Connection.foreign("version " + welcome.version() + " was chosen");
        }
        resume = new Hello.Resume(answer.session(), welcome.token());
        waitedFor = welcome.policy().onDisconnect().equals("wait");
        try {
            ticket.keep(resume);
            return decide(connection, welcome);
        } catch (ServerRefused refused) {
            if (!refused.fatal) {
                connection.leave();
            }
            throw refused;
        } catch (ConnectionLost lost) {
            throw lost;
        } catch (RuntimeException fault) {
            // Of the dispatcher's, or of a message: the server need not wait for us.
            connection.leave();
            throw fault;
        }
    }

    private Hello hello() {
        return new Hello(
                List.of(VERSION),
                new Welcome.Program(dispatcher.name(), "0.1.0", "java"),
                new Hello.Capabilities("events", null, null),
                dispatcher.actionable() ? "actionable" : "always",
                null,
                scenario,
                resume);
    }

    private SessionEnd decide(Connection connection, Welcome welcome) {
        View view = new View(welcome, new Asides(connection));
        dispatcher.begin(view);
        Reply reply = new Reply(connection, welcome.limits());
        Message answer = connection.ask("ready", Map.of(), NEXT);
        while (answer.type().equals("decision.request")) {
            long began = System.nanoTime();
            DecisionRequest request = DecisionRequest.of(answer.body());
            follow(connection, view, reply.withKeptBack(request));
            dispatcher.decide(view);
            if (view.leaving()) {
                answer = connection.ask("bye", Map.of(), "session.end");
            } else {
                byte[] frame = reply.frame(view, request, began);
                answer = connection.exchange("decision.reply", frame, NEXT);
            }
        }
        return SessionEnd.of(answer.body());
    }

    /** Takes in a request; where the mirror turns out to have drifted, asks for the state. */
    private static void follow(Connection connection, View view, DecisionRequest request) {
        boolean drifted;
        try {
            view.update(request);
            String digest = request.stateDigest();
            drifted = digest != null && !digest.equals(view.digest());
        } catch (Drift contradiction) {
            drifted = true;
        }
        if (drifted) {
            Message answer = connection.ask("state.request", Map.of(), "state.snapshot");
            view.load(StateSnapshot.of(answer.body()));
        }
    }

    private record Asides(Connection connection) implements View.Aside {
        @Override
        public void ping() {
            connection.ask("ping", Map.of(), "pong");
        }

        @Override
        public void progress(String note) {
            Map<String, Object> body = note == null ? Map.of() : Map.of("note", note);
            connection.ask("progress", body, "progress.ack");
        }
    }

    /** Puts decisions into replies, as many as the server takes. */
    private static final class Reply {
        private final Connection connection;
        private final Welcome.Limits limits;
        private List<View.Sent> keptBack = List.of();

        Reply(Connection connection, Welcome.Limits limits) {
            this.connection = connection;
            this.limits = limits;
        }

        /** Returns a request which also says that what was kept back has not happened. */
        DecisionRequest withKeptBack(DecisionRequest request) {
            if (keptBack.isEmpty()) {
                return request;
            }
            List<Outcome> outcomes = new ArrayList<>(request.outcomes());
            Long atUs = outcomes.isEmpty() ? null : outcomes.get(0).atUs();
            for (View.Sent sent : keptBack) {
                long id = sent.decision().id();
                outcomes.add(
                        new Outcome(id, "rejected", "limit.decisions", null, null, null, atUs));
            }
            return new DecisionRequest(
                    request.nowUs(),
                    request.attempt(),
                    request.events(),
                    outcomes,
                    request.stateVersion(),
                    request.state(),
                    request.stateDigest(),
                    request.deadlineMs());
        }

        byte[] frame(View view, DecisionRequest request, long beganNs) {
            List<View.Sent> all = view.sent();
            int count = within(all);
            while (true) {
                List<Map<String, Object>> decisions = new ArrayList<>(count);
                all.subList(0, count).forEach(sent -> decisions.add(sent.decision().wire()));
                Map<String, Object> body = new LinkedHashMap<>();
                body.put("decisions", decisions);
                body.put("state_version", request.stateVersion());
                body.put("compute_us", (System.nanoTime() - beganNs) / 1000);
                byte[] frame = connection.frame("decision.reply", body);
                if (frame.length <= limits.messageBytes() || count == 0) {
                    keptBack = List.copyOf(all.subList(count, all.size()));
                    return frame;
                }
                count /= 2;
            }
        }

        /** How many decisions the limits on their number and on maps and arrays leave room for. */
        private int within(List<View.Sent> all) {
            long most = Math.min(limits.decisions(), limits.arrayItems());
            // The message, its body, the list.
            long containers = 3;
            int count = 0;
            for (View.Sent sent : all) {
                containers += containersOf(sent);
                if (count == most || containers > limits.containers()) {
                    break;
                }
                count++;
            }
            return count;
        }

        private static long containersOf(View.Sent sent) {
            boolean placed = sent.decision() instanceof parley.wire.Decision.Start;
            return placed ? 3L + ((parley.wire.Decision.Start) sent.decision()).spans().size() : 1;
        }
    }
}
