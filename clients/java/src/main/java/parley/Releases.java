package parley;

import java.util.Map;
import java.util.TreeMap;
import parley.client.Job;

/** Slots by the instant of their estimated release, us. */
final class Releases {
    private static final long SECOND_US = 1_000_000;

    private final TreeMap<Long, Long> slotsAt = new TreeMap<>();

    /** When so many slots will have come back, and how many too many come with them. */
    record Shadow(long atUs, long extra) {}

    void add(long endUs, long slots) {
        slotsAt.merge(endUs, slots, Long::sum);
    }

    void remove(long endUs, long slots) {
        slotsAt.computeIfPresent(endUs, (end, held) -> held == slots ? null : held - slots);
    }

    /**
     * All releases of one instant count together, and those that are overdue come in one second. If
     * there never are so many, the instant is {@link Job#NEVER}. Costs O(instants until then).
     */
    Shadow earliest(long slots, long nowUs) {
        TreeMap<Long, Long> expected = slotsAt;
        if (!slotsAt.isEmpty() && slotsAt.firstKey() <= nowUs) {
            long overdue =
                    slotsAt.headMap(nowUs, true).values().stream().mapToLong(n -> n).sum();
            expected = new TreeMap<>(slotsAt.tailMap(nowUs, false));
            expected.merge(nowUs + SECOND_US, overdue, Long::sum);
        }
        long missing = slots;
        for (Map.Entry<Long, Long> release : expected.entrySet()) {
            missing -= release.getValue();
            if (missing <= 0) {
                return new Shadow(release.getKey(), -missing);
            }
        }
        return new Shadow(Job.NEVER, 0);
    }
}
