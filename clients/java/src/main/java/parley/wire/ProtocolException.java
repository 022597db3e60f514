package parley.wire;

/** A frame or message that is not the protocol's; {@link #code} is of its registry of errors. */
public final class ProtocolException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Such as {@code encoding.type} or {@code message.invalid}. */
    public final String code;

    public ProtocolException(String code, String message) {
        super(message);
        this.code = code;
    }
}
