package parley.client;

import parley.wire.Fields;

/** A message of the server's, its envelope read. */
record Message(String type, String session, long epoch, long seq, Fields body) {

    /** Reads one that is no error. */
    static Message of(Fields envelope) {
        return new Message(
                envelope.text("type"),
                envelope.text("session"),
                envelope.integer("epoch"),
                envelope.integer("seq"),
                envelope.fields("body"));
    }
}
