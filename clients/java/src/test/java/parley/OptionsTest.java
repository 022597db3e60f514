package parley;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import parley.client.ClientException.WrongUsage;

final class OptionsTest {
    @Test
    void everyOptionIsTaken() {
        Options options =
                Options.parse(
                        "--connect", "tcp://x:1", "--interval=1.5m", "--kill-overdue",
                        "--session-file", "s");

        assertEquals("tcp://x:1", options.connect());
        assertEquals(90_000_000, options.intervalUs());
        assertEquals("s", options.sessionFile().toString());
        assertTrue(options.killOverdue());
    }

    @Test
    void wrongUsageIsRefused() {
        for (String[] wrong :
                List.of(
                        new String[] {"--interval", "0"},
                        new String[] {"--interval", "-3"},
                        new String[] {"--interval", "soon"},
                        new String[] {"--interval"},
                        new String[] {"--kill-overdue=yes"},
                        new String[] {"--colour"},
                        new String[] {"fifo"})) {
            assertThrows(WrongUsage.class, () -> Options.parse(wrong));
        }
    }
}
