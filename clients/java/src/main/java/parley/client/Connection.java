package parley.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import parley.client.ClientException.ConnectionLost;
import parley.client.ClientException.ServerRefused;
import parley.client.ClientException.WrongUsage;
import parley.wire.Codec;
import parley.wire.ErrorReport;
import parley.wire.Fields;
import parley.wire.ProtocolException;

/** One session's socket: a message out, its answer in. */
final class Connection implements AutoCloseable {
    /** How often who waits looks whether its server is still there. */
    private static final int TICK_MS = 500;

    /** How long the two sockets may take to find out what they speak; then it connects again. */
    private static final int HANDSHAKE_MS = 3000;

    private static final byte[] EMPTY = {};

    private final String endpoint;
    private final Duration patience;
    private final ZContext context = new ZContext();
    private final ZMQ.Socket socket;
    private final ZMQ.Socket monitor;

    /** Of the last welcome; null before it. */
    private Message welcome;

    /** The seq of the welcome, then of each request. */
    private long outstanding;

    /**
     * @param patience how long a server may take to answer the hello
     */
    Connection(String endpoint, Duration patience) {
        this.endpoint = endpoint;
        this.patience = patience;
        context.setLinger(1000);
        socket = context.createSocket(SocketType.DEALER);
        socket.setReceiveTimeOut(TICK_MS);
        socket.setSendTimeOut((int) patience.toMillis());
        socket.setHandshakeIvl(HANDSHAKE_MS);
        socket.monitor("inproc://monitor", ZMQ.EVENT_DISCONNECTED);
        monitor = context.createSocket(SocketType.PAIR);
        monitor.connect("inproc://monitor");
        try {
            if (!socket.connect(endpoint)) {
                throw new IllegalArgumentException("no such address");
            }
        } catch (IllegalArgumentException | ZMQException error) {
            close();
            throw new WrongUsage(
                    "'" + endpoint + "' is no endpoint to connect to; it looks like"
                            + " tcp://127.0.0.1:5555");
        }
    }

    @Override
    public void close() {
        context.close();
    }

    Message hello(Map<String, Object> body) {
        Message answer = ask("hello", body, "welcome");
        // What was lost on the way here was made up for by connecting again.
        while (ZMQ.Event.recv(monitor, ZMQ.DONTWAIT) != null) {}
        welcome = answer;
        outstanding = answer.seq();
        return answer;
    }

    /**
     * Sends a message and returns the server's answer.
     *
     * @throws ConnectionLost none came
     * @throws ServerRefused it was an error, or something that is not the protocol
     */
    Message ask(String type, Map<String, Object> body, String... due) {
        return exchange(type, frame(type, body), due);
    }

    /** Returns the bytes of a message that answers what is outstanding. */
    byte[] frame(String type, Map<String, Object> body) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("v", 1L);
        message.put("type", type);
        if (welcome != null) {
            message.put("session", welcome.session());
            message.put("epoch", welcome.epoch());
            message.put("re", outstanding);
        }
        message.put("body", body);
        return Codec.encode(message);
    }

    Message exchange(String type, byte[] frame, String... due) {
        if (!socket.send(EMPTY, ZMQ.SNDMORE) || !socket.send(frame)) {
            throw unanswered();
        }
        Message answer = read(receive(!type.equals("hello")));
        if (!List.of(due).contains(answer.type())) {
            throw foreign("the answer to " + type + " is " + answer.type());
        }
        if (answer.type().equals("decision.request")) {
            outstanding = answer.seq();
        }
        return answer;
    }

    /** Leaves a session that cannot be gone on with, so that the server need not wait. */
    void leave() {
        try {
            exchange("bye", frame("bye", Map.of()), "session.end");
        } catch (ClientException alreadyOver) {
            // The reason for leaving is the one to be told.
        }
    }

    private Message read(byte[] frame) {
        try {
            Fields envelope = new Fields(Codec.decode(frame));
            if (envelope.integer("v") != 1) {
                throw foreign("an envelope of version " + envelope.integer("v"));
            }
            if (envelope.text("type").equals("error")) {
                throw refused(ErrorReport.of(envelope.fields("body")));
            }
            return Message.of(envelope);
        } catch (ProtocolException error) {
            throw foreign(error.getMessage());
        }
    }

    static ServerRefused foreign(String what) {
        return new ServerRefused("the server does not speak the protocol: " + what, null, false);
    }

    private static ServerRefused refused(ErrorReport error) {
        StringBuilder told = new StringBuilder("the server says " + error.code());
        told.append(": ").append(error.message());
        if (error.path() != null) {
            told.append(" (").append(error.path()).append(")");
        }
        if (error.supported() != null && !error.supported().isEmpty()) {
            told.append("; expected: ").append(String.join(", ", error.supported()));
        }
        String line = told.toString().replaceAll("\\R", " ");
        return new ServerRefused(line, error.code(), error.fatal());
    }

    /** Waits for a message: the first for a while, others as long as the server is there. */
    private byte[] receive(boolean patient) {
        long began = System.nanoTime();
        while (true) {
            byte[] frame = socket.recv();
            if (frame != null) {
                return lastFrame(frame);
            }
            if (Thread.interrupted()) {
                throw new ConnectionLost("interrupted");
            }
            if (patient) {
                lookForServer();
            } else if (System.nanoTime() - began > patience.toNanos()) {
                throw unanswered();
            }
        }
    }

    private byte[] lastFrame(byte[] first) {
        byte[] frame = first;
        while (socket.hasReceiveMore()) {
            frame = socket.recv();
        }
        return frame;
    }

    private void lookForServer() {
        while (ZMQ.Event.recv(monitor, ZMQ.DONTWAIT) != null) {
            if ((socket.getEvents() & ZMQ.Poller.POLLIN) == 0) {
                throw new ConnectionLost("the server at " + endpoint + " is gone");
            }
        }
    }

    private ConnectionLost unanswered() {
        return new ConnectionLost(
                "no server answered at " + endpoint + " within " + patience.toSeconds() + " s");
    }
}
