// Frames: bytes to a checked value and its envelope, messages to bytes.
#pragma once

#include <cstddef>
#include <string_view>


#include "reading.hpp"

namespace parley::wire {

/// The head of a message from the server; `body` lives as long as the decoder's last frame.
struct Envelope {
    std::int64_t v;
    std::string type;
    std::optional<std::string> session;
    std::optional<std::int64_t> epoch, seq;

    static constexpr auto fields() {
        return std::make_tuple(field("v", &Envelope::v), field("type", &Envelope::type),
                               field("session", &Envelope::session),
                               field("epoch", &Envelope::epoch), field("seq", &Envelope::seq));
    }
};

/// Decodes one frame at a time; texts point into the frame, all else lies in the decoder.
class Decoder {
public:
    /// Return the value in a frame, the whole of it checked against the profile of encoding.md.
    /// Throws ProtocolError with the code that encoding.md has for what is wrong.
    object decode(const char* bytes, std::size_t size);

private:
    msgpack::zone zone_;
};

/// Return the body of a message; throws ProtocolError if it has none that is a map.
const object& body_of(const object& message);

/// Read a message, or its envelope, or its body; throws ProtocolError `message.invalid`.
template <class Type>
Type read_as(const object& from, std::string_view where) {
    try {
        Type to{};
        read(from, to);
        return to;
    } catch (Invalid& invalid) {
        if (!where.empty()) invalid.inside(where);
        throw ProtocolError("message.invalid", invalid.due, invalid.path);
    }
}

/// Write the message of a client; `session` is empty in a hello, which has no `re` either.
template <class Body>
void encode(msgpack::sbuffer& to, const Body& body, const std::string& session,
            std::int64_t epoch, std::int64_t re) {
    to.clear();
    Packer packer(to);
    packer.pack_map(session.empty() ? 3 : 6);
    write_field(packer, "v", std::int64_t{1});
    write_field(packer, "type", std::string(Body::type));
    if (!session.empty()) {
        write_field(packer, "session", session);
        write_field(packer, "epoch", epoch);
        write_field(packer, "re", re);
    }
    write_field(packer, "body", body);
}

}  // namespace parley::wire
