// From MessagePack to messages, and back: everything follows from the lists of fields.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <msgpack/object.hpp>  // first: the next does not stand by itself
//
#include <msgpack/iterator.hpp>
#include <msgpack/pack.hpp>
#include <msgpack/sbuffer.hpp>
#include <msgpack/unpack.hpp>

#include "parley/errors.hpp"
#include "parley/messages.hpp"

namespace parley::wire {

using msgpack::object;

/// The greatest integer that the profile allows; a double holds every one up to it.
constexpr std::int64_t most = (std::int64_t{1} << 53) - 1;

/// A value is not what its definition says; the path grows from the inside out.
struct Invalid {
    std::string path, due;

    void inside(std::string_view name) {
        path = path.empty() ? std::string(name) : std::string(name) + "." + path;
    }
};

// Lists and messages hold each other: both are declared before either is read.
template <class Item>
void read(const object& from, std::vector<Item>& to);
template <class Type>
auto read(const object& from, Type& to) -> decltype(Type::fields(), void());
inline void read(const object& from, Event& to);

inline std::string_view text_of(const object& from) {
    return {from.via.str.ptr, from.via.str.size};
}

inline void read(const object& from, std::int64_t& to) {
    switch (from.type) {
        case msgpack::type::POSITIVE_INTEGER:
        case msgpack::type::NEGATIVE_INTEGER:
            to = from.via.i64;
            return;
        case msgpack::type::FLOAT32:
        case msgpack::type::FLOAT64:
            if (std::trunc(from.via.f64) == from.via.f64 && std::fabs(from.via.f64) <= most) {
                to = static_cast<std::int64_t>(from.via.f64);
                return;
            }
            break;
        default:
            break;
    }
    throw Invalid{"", "an integer is due"};
}

inline void read(const object& from, double& to) {
    switch (from.type) {
        case msgpack::type::POSITIVE_INTEGER:
        case msgpack::type::NEGATIVE_INTEGER:
            to = static_cast<double>(from.via.i64);
            return;
        case msgpack::type::FLOAT32:
        case msgpack::type::FLOAT64:
            to = from.via.f64;
            return;
        default:
            throw Invalid{"", "a number is due"};
    }
}

inline void read(const object& from, bool& to) {
    if (from.type != msgpack::type::BOOLEAN) throw Invalid{"", "true or false is due"};
    to = from.via.boolean;
}

inline void read(const object& from, std::string& to) {
    if (from.type != msgpack::type::STR) throw Invalid{"", "a text is due"};
    to.assign(from.via.str.ptr, from.via.str.size);
}

inline void read(const object& from, AnyMap& to) {
    if (from.type != msgpack::type::MAP) throw Invalid{"", "a map is due"};
    msgpack::sbuffer buffer;
    msgpack::pack(buffer, from);
    to.bytes.assign(buffer.data(), buffer.size());
}

inline const object& item(const object& from, std::uint32_t index, std::uint32_t size) {
    if (from.type != msgpack::type::ARRAY || from.via.array.size != size) {
        throw Invalid{"", "an array of " + std::to_string(size) + " is due"};
    }
    return from.via.array.ptr[index];
}

inline void read(const object& from, Span& to) {
    read(item(from, 0, 3), to.first);
    read(item(from, 1, 3), to.last);
    read(item(from, 2, 3), to.chunks);
}

inline void read(const object& from, NodeRange& to) {
    read(item(from, 0, 2), to.first);
    read(item(from, 1, 2), to.second);
}

inline void read(const object& from, Amounts& to) {
    if (from.type != msgpack::type::MAP) throw Invalid{"", "a map is due"};
    to.clear();
    to.reserve(from.via.map.size);
    for (const auto& [key, value] : from.via.map) {
        auto& [name, amount] = to.emplace_back();
        name = text_of(key);
        try {
            read(value, amount);
        } catch (Invalid& invalid) {
            invalid.inside(name);
            throw;
        }
    }
}

inline void read(const object& from, NodeRun& to) {
    read(item(from, 0, 4), to.first);
    read(item(from, 1, 4), to.last);
    read(item(from, 2, 4), to.free);
    std::string service;
    read(item(from, 3, 4), service);
    if (service != "up" && service != "down") throw Invalid{"3", "\"up\" or \"down\" is due"};
    to.up = service == "up";
}

template <class Type>
struct is_optional : std::false_type {};
template <class Type>
struct is_optional<std::optional<Type>> : std::true_type {};

/// The fields of a type as tables: their names, which are due, how each is read.
template <class Type>
class Table {
    static constexpr auto fields = Type::fields();
    static constexpr std::size_t count = std::tuple_size_v<decltype(fields)>;
    using Reader = void (*)(const object&, Type&);

    template <std::size_t index>
    static void read_one(const object& from, Type& to) {
        auto& member = to.*(std::get<index>(fields).member);
        using Member = std::decay_t<decltype(member)>;
        if constexpr (is_optional<Member>::value) {
            read(from, member.emplace());
        } else {
            read(from, member);
        }
    }

    template <std::size_t... index>
    static constexpr auto make_names(std::index_sequence<index...>) {
        return std::array<std::string_view, count>{std::get<index>(fields).name...};
    }
    template <std::size_t... index>
    static constexpr auto make_readers(std::index_sequence<index...>) {
        return std::array<Reader, count>{&read_one<index>...};
    }
    template <std::size_t... index>
    static constexpr std::uint32_t make_due(std::index_sequence<index...>) {
        return (0u | ... |
                (is_optional<std::decay_t<decltype(std::declval<Type>().*
                                                   (std::get<index>(fields).member))>>::value
                     ? 0u
                     : 1u << index));
    }

    static constexpr auto all = std::make_index_sequence<count>{};

public:
    static constexpr auto names = make_names(all);
    static constexpr auto readers = make_readers(all);
    static constexpr std::uint32_t due = make_due(all);

    /// The field of a name; mostly they come in the order of the list.
    static std::size_t find(std::string_view name, std::size_t expected) {
        if (expected < count && names[expected] == name) return expected;
        for (std::size_t index = 0; index < count; ++index) {
            if (names[index] == name) return index;
        }
        return count;
    }

    static void read_map(const object& from, Type& to) {
        if (from.type != msgpack::type::MAP) throw Invalid{"", "a map is due"};
        std::uint32_t seen = 0;
        std::size_t expected = 0;
        for (const auto& [key, value] : from.via.map) {
            const std::size_t index = find(text_of(key), expected);
            if (index == count) continue;
            expected = index + 1;
            if (value.is_nil()) continue;  // nil is as good as absent
            try {
                if constexpr (count > 0) readers[index](value, to);
            } catch (Invalid& invalid) {
                invalid.inside(names[index]);
                throw;
            }
            seen |= 1u << index;
        }
        if (const std::uint32_t missing = due & ~seen; missing != 0) {
            for (std::size_t index = 0; index < count; ++index) {
                if (missing >> index & 1u) throw Invalid{std::string(names[index]), "is missing"};
            }
        }
    }
};

template <class Type>
auto read(const object& from, Type& to) -> decltype(Type::fields(), void()) {
    Table<Type>::read_map(from, to);
}

template <class Kind>
bool read_kind(const object& from, std::string_view kind, Event& to) {
    if (!Kind::kind.empty() && kind != Kind::kind) return false;
    read(from, to.emplace<Kind>());
    return true;
}

template <class... Kinds>
void read_any(const object& from, std::string_view kind, std::variant<Kinds...>& to) {
    (void)(read_kind<Kinds>(from, kind, to) || ...);
}

inline void read(const object& from, Event& to) {
    if (from.type != msgpack::type::MAP) throw Invalid{"", "a map is due"};
    for (const auto& [key, value] : from.via.map) {
        if (text_of(key) != "kind") continue;
        if (value.type != msgpack::type::STR) throw Invalid{"kind", "a text is due"};
        return read_any(from, text_of(value), to);
    }
    throw Invalid{"kind", "is missing"};
}

template <class Item>
void read(const object& from, std::vector<Item>& to) {
    if (from.type != msgpack::type::ARRAY) throw Invalid{"", "an array is due"};
    to.resize(from.via.array.size);
    for (std::uint32_t index = 0; index < from.via.array.size; ++index) {
        try {
            read(from.via.array.ptr[index], to[index]);
        } catch (Invalid& invalid) {
            invalid.inside(std::to_string(index));
            throw;
        }
    }
}

// ---------------------------------------------------------------- writing

using Packer = msgpack::packer<msgpack::sbuffer>;

inline void write(Packer& packer, std::string_view text) {
    packer.pack_str(static_cast<std::uint32_t>(text.size()));
    packer.pack_str_body(text.data(), static_cast<std::uint32_t>(text.size()));
}
inline void write(Packer& packer, const std::string& text) {
    write(packer, std::string_view(text));
}
inline void write(Packer& packer, std::int64_t number) { packer.pack_int64(number); }
inline void write(Packer& packer, bool truth) { truth ? packer.pack_true() : packer.pack_false(); }

/// What was kept goes out as it came: the packer's name for bytes without a header.
inline void write(Packer& packer, const AnyMap& kept) {
    packer.pack_bin_body(kept.bytes.data(), static_cast<std::uint32_t>(kept.bytes.size()));
}

inline void write(Packer& packer, const Span& span) {
    packer.pack_array(3);
    write(packer, span.first);
    write(packer, span.last);
    write(packer, span.chunks);
}

inline void write(Packer& packer, const Amounts& amounts) {
    packer.pack_map(static_cast<std::uint32_t>(amounts.size()));
    for (const auto& [name, amount] : amounts) {
        write(packer, name);
        write(packer, amount);
    }
}

template <class Item>
void write(Packer& packer, const std::vector<Item>& items);
template <class Type>
auto write(Packer& packer, const Type& from) -> decltype(Type::fields(), void());

inline void write(Packer& packer, const Decision& decision);

template <class Kind, class = void>
struct has_kind : std::false_type {};
template <class Kind>
struct has_kind<Kind, std::void_t<decltype(Kind::kind)>> : std::true_type {};

template <class Type>
bool present(const Type&) {
    return true;
}
template <class Type>
bool present(const std::optional<Type>& value) {
    return value.has_value();
}

template <class Type>
void write_field(Packer& packer, std::string_view name, const Type& value) {
    write(packer, name);
    write(packer, value);
}
template <class Type>
void write_field(Packer& packer, std::string_view name, const std::optional<Type>& value) {
    if (!value) return;
    write(packer, name);
    write(packer, *value);
}

/// Write a message or a part of one; what is absent is left out.
template <class Type>
auto write(Packer& packer, const Type& from) -> decltype(Type::fields(), void()) {
    std::apply(
        [&](const auto&... fields) {
            const std::uint32_t pairs =
                (0u + ... + static_cast<std::uint32_t>(present(from.*(fields.member))));
            if constexpr (has_kind<Type>::value) {
                packer.pack_map(pairs + 1);
                write_field(packer, "kind", std::string(Type::kind));
            } else {
                packer.pack_map(pairs);
            }
            (write_field(packer, fields.name, from.*(fields.member)), ...);
        },
        Type::fields());
}

inline void write(Packer& packer, const Decision& decision) {
    std::visit([&](const auto& one) { write(packer, one); }, decision);
}

template <class Item>
void write(Packer& packer, const std::vector<Item>& items) {
    packer.pack_array(static_cast<std::uint32_t>(items.size()));
    for (const Item& one : items) write(packer, one);
}

}  // namespace parley::wire
