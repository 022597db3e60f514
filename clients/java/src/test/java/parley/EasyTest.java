package parley;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import parley.client.Job;
import parley.Releases.Shadow;

final class EasyTest {
    @Test
    void allReleasesOfOneInstantCountTogether() {
        Releases releases = new Releases();
        releases.add(10_000_000, 2);
        releases.add(20_000_000, 3);
        releases.add(20_000_000, 4);

        assertEquals(new Shadow(10_000_000, 0), releases.earliest(2, 0));
        assertEquals(new Shadow(20_000_000, 6), releases.earliest(3, 0));
        assertEquals(new Shadow(Job.NEVER, 0), releases.earliest(10, 0));
        releases.remove(20_000_000, 3);
        assertEquals(new Shadow(20_000_000, 3), releases.earliest(3, 0));
    }

    @Test
    void whatIsOverdueComesInOneSecond() {
        Releases releases = new Releases();
        releases.add(5_000_000, 2);
        releases.add(9_000_000, 1);
        releases.add(10_000_000, 4);

        assertEquals(new Shadow(10_000_000, 5), releases.earliest(2, 9_000_000));
        assertEquals(new Shadow(9_500_000, 1), releases.earliest(2, 8_500_000));
        assertEquals(new Shadow(9_000_000, 0), releases.earliest(1, 8_500_000));
    }

    @Test
    void aJobWithoutLimitEndsNever() {
        Releases releases = new Releases();
        releases.add(Job.NEVER, 4);

        assertEquals(new Shadow(Job.NEVER, 1), releases.earliest(3, 0));
    }
}
