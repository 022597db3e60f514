package parley.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashMap;
import java.util.Map;
import parley.client.ClientException.WrongUsage;
import parley.wire.Fields;
import parley.wire.Hello.Resume;
import parley.wire.JsonText;
import parley.wire.ProtocolException;

/**
 * Where a dispatcher finds, and keeps, what it takes to go on with a session after a crash.
 *
 * <p>A server that starts a dispatcher again hands it session and token in {@code PARLEY_SESSION}
 * and {@code PARLEY_TOKEN}; a dispatcher that is started by others keeps them in a file.
 */
final class Ticket {
    private final Path file;

    /** Null keeps it in memory only. */
    Ticket(Path file) {
        this.file = file;
    }

    /** Returns what to resume, or null. */
    Resume find(Map<String, String> environment) {
        String session = environment.getOrDefault("PARLEY_SESSION", "");
        String token = environment.getOrDefault("PARLEY_TOKEN", "");
        if (!session.isEmpty() && !token.isEmpty()) {
            return new Resume(session, token);
        }
        if (file == null) {
            return null;
        }
        try {
            Fields content = new Fields(JsonText.read(Files.readAllBytes(file)));
            return new Resume(content.text("session"), content.text("token"));
        } catch (NoSuchFileException none) {
            return null;
        } catch (IOException | ProtocolException error) {
            throw new WrongUsage(
                    file + ": not the file of a session (" + error.getMessage()
                            + "); remove it to begin anew");
        }
    }

    /** Notes the session that is open now; only the user may read it. */
    void keep(Resume resume) {
        if (file == null) {
            return;
        }
        Map<String, String> content = new LinkedHashMap<>();
        content.put("session", resume.session());
        content.put("token", resume.token());
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        try {
            Files.deleteIfExists(fresh);
            var mine = PosixFilePermissions.fromString("rw-------");
            Files.createFile(fresh, PosixFilePermissions.asFileAttribute(mine));
            Files.writeString(fresh, JsonText.write(content));
            Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new WrongUsage(file + ": cannot be written: " + error);
        }
    }

    /** The session is over: there is nothing to take up. */
    void forget() {
        if (file == null) {
            return;
        }
        try {
            Files.deleteIfExists(file);
        } catch (IOException error) {
            throw new WrongUsage(file + ": cannot be removed: " + error);
        }
    }
}
