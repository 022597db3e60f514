package parley.wire;

import java.util.List;
import java.util.Map;

/** The body of {@code welcome}: what the session will be like. */
public record Welcome(
        String version,
        Program server,
        Granted granted,
        String ask,
        List<String> wants,
        String token,
        boolean resumed,
        long seed,
        Limits limits,
        Policy policy,
        Scenario scenario,
        Platform platform) {

    public static Welcome of(Fields body) {
        return new Welcome(
                body.text("version"),
                Program.of(body.fields("server")),
                Granted.of(body.fields("granted")),
                body.text("ask"),
                body.texts("wants"),
                body.text("token"),
                body.truth("resumed"),
                body.integer("seed"),
                Limits.of(body.fields("limits")),
                Policy.of(body.fields("policy")),
                Scenario.of(body.fields("scenario")),
                Platform.of(body.fields("platform")));
    }

    /** Who is speaking; {@code language} may be null. */
    public record Program(String name, String version, String language) {
        static Program of(Fields map) {
            return new Program(
                    map.text("name"), map.text("version"), map.textOrNull("language"));
        }
    }

    /** The capabilities in force. */
    public record Granted(String state, String decisions, boolean submit) {
        static Granted of(Fields map) {
            return new Granted(map.text("state"), map.text("decisions"), map.truth("submit"));
        }
    }

    /** What the server bears; {@code sessions} is null where it is without limit. */
    public record Limits(
            long messageBytes,
            long depth,
            long stringBytes,
            long arrayItems,
            long containers,
            long decisions,
            long undecodable,
            Long sessions) {
        static Limits of(Fields map) {
            return new Limits(
                    map.integer("message_bytes"),
                    map.integer("depth"),
                    map.integer("string_bytes"),
                    map.integer("array_items"),
                    map.integer("containers"),
                    map.integer("decisions"),
                    map.integer("undecodable"),
                    map.integerOrNull("sessions"));
        }
    }

    /** How the server takes what goes wrong, and how long decisions last in simulated time. */
    public record Policy(
            String onReject,
            long reasks,
            String onTimeout,
            String onDisconnect,
            long reconnectMs,
            String latencyModel,
            Long latencyUs,
            Double latencyFactor,
            String onNodeDown) {
        static Policy of(Fields map) {
            return new Policy(
                    map.text("on_reject"),
                    map.integer("reasks"),
                    map.text("on_timeout"),
                    map.text("on_disconnect"),
                    map.integer("reconnect_ms"),
                    map.text("latency_model"),
                    map.integerOrNull("latency_us"),
                    map.amountOrNull("latency_factor"),
                    map.text("on_node_down"));
        }
    }

    /** What is simulated. */
    public record Scenario(String name, String digest, Rules rules) {
        static Scenario of(Fields map) {
            return new Scenario(
                    map.text("name"), map.text("digest"), Rules.of(map.fields("rules")));
        }
    }

    /** How the workload was read, in the words of a scenario. */
    public record Rules(
            String request,
            String select,
            String onOverrun,
            String estimate,
            String estimateMissing) {
        static Rules of(Fields map) {
            return new Rules(
                    map.text("request"),
                    map.text("select"),
                    map.text("on_overrun"),
                    map.text("estimate"),
                    map.text("estimate_missing"));
        }
    }

    /** The machine: nodes 0 to {@code nodeCount - 1}, in groups, ascending. */
    public record Platform(int nodeCount, List<NodeGroup> groups) {
        static Platform of(Fields map) {
            return new Platform(map.count("node_count"), map.each("groups", NodeGroup::of));
        }
    }

    /** Nodes of one kind, with the capacity of each by resource. */
    public record NodeGroup(String name, int first, int last, Map<String, Long> capacity) {
        static NodeGroup of(Fields map) {
            return new NodeGroup(
                    map.text("name"),
                    map.count("first"),
                    map.count("last"),
                    map.amounts("capacity"));
        }
    }
}
