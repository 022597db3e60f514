package parley.wire;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The body of {@code hello}; what is null is not said. */
public record Hello(
        List<String> versions,
        Welcome.Program client,
        Capabilities capabilities,
        String ask,
        List<String> wants,
        String scenario,
        Resume resume) {

    public Map<String, Object> wire() {
        Map<String, Object> who = new LinkedHashMap<>();
        who.put("name", client.name());
        who.put("version", client.version());
        who.put("language", client.language());
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("versions", versions);
        body.put("client", who);
        body.put("capabilities", capabilities == null ? null : capabilities.wire());
        body.put("ask", ask);
        body.put("wants", wants);
        body.put("scenario", scenario);
        body.put("resume", resume == null ? null : resume.wire());
        return body;
    }

    /** What the client can do; null is the default. */
    public record Capabilities(String state, String decisions, Boolean submit) {
        Map<String, Object> wire() {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("state", state);
            map.put("decisions", decisions);
            map.put("submit", submit);
            return map;
        }
    }

    /** A session to be taken up again. */
    public record Resume(String session, String token) {
        Map<String, Object> wire() {
            return Map.of("session", session, "token", token);
        }
    }
}
