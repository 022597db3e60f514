package parley.client;

/** The dispatcher cannot go on; the message is one line for its user. */
public class ClientException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public ClientException(String message) {
        super(message);
    }

    /** Something was asked for that makes no sense, before any server was involved. */
    public static final class WrongUsage extends ClientException {
        private static final long serialVersionUID = 1L;

        public WrongUsage(String message) {
            super(message);
        }
    }

    /** The server is gone, or never was there. */
    public static final class ConnectionLost extends ClientException {
        private static final long serialVersionUID = 1L;

        public ConnectionLost(String message) {
            super(message);
        }
    }

    /** The server sent an error, or something that is not the protocol. */
    public static final class ServerRefused extends ClientException {
        private static final long serialVersionUID = 1L;

        /** The error's code; null if there was none. */
        public final String code;

        /** Whether the session is over by that. */
        public final boolean fatal;

        public ServerRefused(String message, String code, boolean fatal) {
            super(message);
            this.code = code;
            this.fatal = fatal;
        }
    }
}
