#include "codec.hpp"

#include <limits>

namespace parley::wire {
namespace {

/// Deeper than any message of the protocol, and shallow enough for the stack.
constexpr std::size_t deepest = 256;

bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// Whether bytes are UTF-8, surrogates and needless length excluded (RFC 3629).
bool is_utf8(std::string_view text) {
    const auto* at = reinterpret_cast<const unsigned char*>(text.data());
    const auto* const end = at + text.size();
    while (at != end) {
        if (*at < 0x80) {
            ++at;
            continue;
        }
        const auto left = end - at;
        if (*at >= 0xC2 && *at <= 0xDF && left >= 2 && continues(at[1])) {
            at += 2;
        } else if (*at >= 0xE0 && *at <= 0xEF && left >= 3 && continues(at[1]) &&
                   continues(at[2]) && !(*at == 0xE0 && at[1] < 0xA0) &&
                   !(*at == 0xED && at[1] > 0x9F)) {
            at += 3;
        } else if (*at >= 0xF0 && *at <= 0xF4 && left >= 4 && continues(at[1]) &&
                   continues(at[2]) && continues(at[3]) && !(*at == 0xF0 && at[1] < 0x90) &&
                   !(*at == 0xF4 && at[1] > 0x8F)) {
            at += 4;
        } else {
            return false;
        }
    }
    return true;
}

[[noreturn]] void wrong_type(const std::string& what) {
    throw ProtocolError("encoding.type", what);
}

/// Hold a value to the profile: MessagePack allows much that the protocol does not.
void check(const object& value) {
    switch (value.type) {
        case msgpack::type::POSITIVE_INTEGER:
            if (value.via.u64 > static_cast<std::uint64_t>(most)) {
                wrong_type("an integer lies beyond 2^53 - 1");
            }
            return;
        case msgpack::type::NEGATIVE_INTEGER:
            if (value.via.i64 < -most) wrong_type("an integer lies beyond -(2^53 - 1)");
            return;
        case msgpack::type::FLOAT32:
        case msgpack::type::FLOAT64:
            if (!std::isfinite(value.via.f64)) wrong_type("a number is not finite");
            return;
        case msgpack::type::STR:
            if (!is_utf8(text_of(value))) wrong_type("a text is not UTF-8");
            return;
        case msgpack::type::ARRAY:
            for (const object& one : value.via.array) check(one);
            return;
        case msgpack::type::MAP:
            for (const auto& [key, one] : value.via.map) {
                if (key.type != msgpack::type::STR) wrong_type("a key is no text");
                check(key);
                check(one);
            }
            return;
        case msgpack::type::NIL:
        case msgpack::type::BOOLEAN:
            return;
        default:
            wrong_type("bin or an extension type is used");
    }
}

}  // namespace

object Decoder::decode(const char* bytes, std::size_t size) {
    if (size > 0 && bytes[0] == '{') {
        throw ProtocolError("encoding.dialect", "JSON text, where this client said hello without");
    }
    zone_.clear();
    // No array or map has more items than the frame has bytes, whatever its header says.
    const msgpack::unpack_limit limit(size, size, size, size, size, deepest);
    const auto refer = [](msgpack::type::object_type, std::size_t, void*) { return true; };
    object value;
    std::size_t read_bytes = 0;
    try {
        bool referenced = false;
        value = msgpack::unpack(zone_, bytes, size, read_bytes, referenced, refer, nullptr, limit);
    } catch (const msgpack::insufficient_bytes&) {
        throw ProtocolError("encoding.truncated", "the frame ends before its value does");
    } catch (const msgpack::depth_size_overflow&) {
        throw ProtocolError("limit.depth", "the message is nested too deeply");
    } catch (const msgpack::size_overflow&) {
        throw ProtocolError("limit.length", "a header announces more than the frame holds");
    } catch (const msgpack::unpack_error& error) {
        throw ProtocolError("encoding.malformed", "no MessagePack");
    }
    if (read_bytes != size) {
        throw ProtocolError("encoding.trailing", "bytes follow the value in the frame");
    }
    if (value.type != msgpack::type::MAP) {
        throw ProtocolError("encoding.malformed", "the frame holds no map");
    }
    check(value);
    return value;
}

const object& body_of(const object& message) {
    for (const auto& [key, value] : message.via.map) {
        if (text_of(key) == "body" && value.type == msgpack::type::MAP) return value;
    }
    throw ProtocolError("message.invalid", "a map is due", "body");
}

}  // namespace parley::wire
