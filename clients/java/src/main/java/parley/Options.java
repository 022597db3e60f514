package parley;

import java.math.BigDecimal;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import parley.client.ClientException.WrongUsage;

/**
 * What the command lines of the dispatchers have in common.
 *
 * @param connect where the server listens; null takes it from the environment
 * @param sessionFile keeps what it takes to go on after a crash; null for none
 * @param intervalUs decide only at multiples of this; 0 is at every instant
 * @param killOverdue kill jobs whose walltime has passed
 */
record Options(String connect, Path sessionFile, long intervalUs, boolean killOverdue) {
    static final String USAGE =
            "options: --connect ENDPOINT (else PARLEY_ENDPOINT), --session-file PATH,"
                    + " --interval SECONDS, --kill-overdue";

    private static final Pattern DURATION =
            Pattern.compile("([0-9]{1,12}(?:\\.[0-9]{1,6})?)([smhd]?)");

    static Options parse(String... arguments) {
        String connect = null;
        Path sessionFile = null;
        long intervalUs = 0;
        boolean killOverdue = false;
        Iterator<String> words = List.of(arguments).iterator();
        while (words.hasNext()) {
            String word = words.next();
            int sign = word.startsWith("--") ? word.indexOf('=') : -1;
            String name = sign < 0 ? word : word.substring(0, sign);
            String given = sign < 0 ? null : word.substring(sign + 1);
            switch (name) {
                case "--connect" -> connect = value(name, given, words);
                case "--session-file" -> sessionFile = path(value(name, given, words));
                case "--interval" -> intervalUs = microseconds(value(name, given, words));
                case "--kill-overdue" -> killOverdue = flag(name, given);
                default -> throw new WrongUsage("no option " + word + "; " + USAGE);
            }
        }
        return new Options(connect, sessionFile, intervalUs, killOverdue);
    }

    private static String value(String name, String given, Iterator<String> words) {
        if (given == null && !words.hasNext()) {
            throw new WrongUsage(name + " needs a value; " + USAGE);
        }
        return given == null ? words.next() : given;
    }

    private static boolean flag(String name, String given) {
        if (given != null) {
            throw new WrongUsage(name + " takes no value; " + USAGE);
        }
        return true;
    }

    private static Path path(String value) {
        try {
            return Path.of(value);
        } catch (InvalidPathException error) {
            throw new WrongUsage("--session-file: " + error.getMessage());
        }
    }

    /** Seconds, or a number with one of the units s, m, h, d, as whole microseconds. */
    static long microseconds(String text) {
        Matcher found = DURATION.matcher(text);
        if (found.matches()) {
            long unit =
                    switch (found.group(2)) {
                        case "m" -> 60;
                        case "h" -> 3600;
                        case "d" -> 86_400;
                        default -> 1;
                    };
            BigDecimal value = new BigDecimal(found.group(1));
            value = value.multiply(BigDecimal.valueOf(unit * 1_000_000));
            if (value.signum() > 0 && value.compareTo(BigDecimal.valueOf(1L << 53)) < 0) {
                return value.longValue();
            }
        }
        throw new WrongUsage(
                "--interval is a time longer than zero, such as 30 or 5m, not '" + text + "'");
    }
}
