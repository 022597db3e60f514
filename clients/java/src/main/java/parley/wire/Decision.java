package parley.wire;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What is to be done, in the order of a reply; {@code id} is its place there. */
public sealed interface Decision {
    long id();

    /** The map that a message has for it. */
    Map<String, Object> wire();

    /** Starts a pending job now, on these spans of its only group. */
    record Start(long id, long job, List<Span> spans) implements Decision {
        @Override
        public Map<String, Object> wire() {
            List<List<Object>> written = spans.stream().map(Span::wire).toList();
            return said(id, "start", "job", job, "allocation", List.of(written));
        }
    }

    /** Removes a pending job for good. */
    record Reject(long id, long job, String reason) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "reject", "job", job, "reason", reason);
        }
    }

    /** Ends a running job now. */
    record Kill(long id, long job) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "kill", "job", job);
        }
    }

    /** Takes a running job off its nodes and makes it pending again. */
    record Requeue(long id, long job) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "requeue", "job", job);
        }
    }

    /** Keeps a pending job from being started. */
    record Hold(long id, long job, String reason) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "hold", "job", job, "reason", reason);
        }
    }

    /** Lets a held job be started again. */
    record Release(long id, long job) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "release", "job", job);
        }
    }

    /** Asks to be asked at an instant after this one. */
    record Wake(long id, long timer, long atUs) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "wake", "timer", timer, "at_us", atUs);
        }
    }

    /** Gives a waiting timer up. */
    record WakeCancel(long id, long timer) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "wake.cancel", "timer", timer);
        }
    }

    /** Notes when a pending job is expected to start, or why it waits. */
    record Annotate(long id, long job, Long expectedStartUs, String reason) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(
                    id, "annotate", "job", job, "expected_start_us", expectedStartUs, "reason",
                    reason);
        }
    }

    /** Ends the whole run. */
    record Stop(long id, String reason) implements Decision {
        @Override
        public Map<String, Object> wire() {
            return said(id, "stop", "reason", reason);
        }
    }

    private static Map<String, Object> said(long id, String kind, Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("id", id);
        map.put("kind", kind);
        for (int at = 0; at < pairs.length; at += 2) {
            map.put((String) pairs[at], pairs[at + 1]);
        }
        return map;
    }
}
