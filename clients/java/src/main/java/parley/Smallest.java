package parley;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.msgpack.core.MessagePack;
import org.msgpack.value.MapValue;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** First come, first served on whole nodes, with nothing of Parley's: JeroMQ and msgpack-java. */
public final class Smallest {
    private final ZMQ.Socket socket;
    private final Map<Value, Value> session = new HashMap<>();

    private Smallest(ZMQ.Socket socket) {
        this.socket = socket;
    }

    public static void main(String... arguments) throws Exception {
        String endpoint = System.getenv("PARLEY_ENDPOINT");
        if (endpoint == null) {
            System.err.println("smallest: PARLEY_ENDPOINT is not set (parley run sets it)");
            System.exit(2);
        }
        try (ZContext context = new ZContext()) {
            ZMQ.Socket socket = context.createSocket(SocketType.REQ);
            socket.connect(endpoint);
            Value end = new Smallest(socket).play();
            boolean refused = get(end, "type").toString().equals("error");
            Value last = get(get(end, "body"), refused ? "message" : "reason");
            if (!last.toString().equals("completed")) {
                System.err.println("smallest: " + last);
                System.exit(1);
            }
        }
    }

    /** Plays one session; returns the server's last message. */
    private Value play() throws Exception {
        Value me = map("name", text("smallest"), "version", text("1"));
        Value can = map("state", text("snapshot"));
        Value versions = ValueFactory.newArray(text("1.0"));
        Value answer = ask("hello", map("versions", versions, "client", me, "capabilities", can));
        for (String name : List.of("session", "epoch")) {
            session.put(text(name), get(answer, name));
        }
        answer = ask("ready", map(), text("re"), get(answer, "seq"));
        while (get(answer, "type").toString().equals("decision.request")) {
            Value request = get(answer, "body");
            Value starts = starts(get(request, "state"));
            Value reply =
                    map("decisions", starts, "state_version", get(request, "state_version"));
            answer = ask("decision.reply", reply, text("re"), get(answer, "seq"));
        }
        return answer;
    }

    /** Starts the first jobs, as long as there are nodes; on which of them is the server's to say. */
    private static Value starts(Value state) {
        long free = 0;
        for (Value run : get(state, "nodes").asArrayValue()) {
            List<Value> parts = run.asArrayValue().list();
            if (integer(get(parts.get(2), "core")) > 0) {
                free += integer(parts.get(1)) - integer(parts.get(0)) + 1;
            }
        }
        List<Value> starts = new ArrayList<>();
        for (Value job : get(state, "pending").asArrayValue()) {
            Value group = get(job, "request").asArrayValue().get(0);
            free -= integer(get(group, "chunks"));
            if (free < 0) {
                break;
            }
            Value id = ValueFactory.newInteger(starts.size());
            starts.add(map("id", id, "kind", text("start"), "job", get(job, "job")));
        }
        return ValueFactory.newArray(starts);
    }

    private Value ask(String type, Value body, Value... more) throws Exception {
        Map<Value, Value> message = new HashMap<>(session);
        message.putAll(map("v", ValueFactory.newInteger(1), "type", text(type)).map());
        message.put(text("body"), body);
        for (int at = 0; at < more.length; at += 2) {
            message.put(more[at], more[at + 1]);
        }
        try (var packer = MessagePack.newDefaultBufferPacker()) {
            packer.packValue(ValueFactory.newMap(message));
            packer.flush();
            socket.send(packer.toByteArray());
        }
        try (var unpacker = MessagePack.newDefaultUnpacker(socket.recv())) {
            return unpacker.unpackValue();
        }
    }

    /** An integer, which a sender may have written as a float. */
    private static long integer(Value value) {
        return (long) value.asNumberValue().toDouble();
    }

    private static Value get(Value map, String name) {
        return map.asMapValue().map().get(text(name));
    }

    private static Value text(String text) {
        return ValueFactory.newString(text);
    }

    private static MapValue map(Object... pairs) {
        Map<Value, Value> map = new HashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            map.put(text((String) pairs[at]), (Value) pairs[at + 1]);
        }
        return ValueFactory.newMap(map);
    }
}
