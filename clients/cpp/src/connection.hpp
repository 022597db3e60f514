// One session's socket: a message out, a message in.
#pragma once

#include <string>

#include <zmq.hpp>

#include "codec.hpp"
#include "parley/serve.hpp"

namespace parley {

/// A message from the server, valid until the next one is asked for.
struct Answer {
    std::string type;
    msgpack::object body;

    template <class Body>
    bool is() const {
        return type == Body::type;
    }
    template <class Body>
    Body as() const {
        return wire::read_as<Body>(body, "body");
    }
};

class Connection {
public:
    /// Throws WrongUsage if the endpoint is none.
    explicit Connection(const Options& options);
    ~Connection();

    /// Send a message and return the server's answer. An answer that leaves the dialogue where it
    /// was (a pong, a snapshot) does not change what is outstanding.
    /// Throws ConnectionLost, ServerRefused (an error came), ProtocolError, Interrupted.
    template <class Body>
    Answer ask(const Body& body) {
        wire::encode(out_, body, session_, epoch_, outstanding_);
        return exchange(Body::type == Hello::type);
    }

    /// Speak in the session of a welcome from now on.
    void join(const Welcome& welcome);
    bool joined() const { return !session_.empty() && !over_; }
    const std::string& session() const { return session_; }

    /// Leave the session if one is open and it is this side's turn; wait shortly for its end.
    void leave(const std::string& reason) noexcept;

private:
    Answer exchange(bool first);
    void send(bool first);
    void receive(bool first);
    void watch();
    [[noreturn]] void refuse(const msgpack::object& body);
    [[noreturn]] void nobody() const;

    const Options& options_;
    zmq::context_t context_;
    zmq::socket_t socket_;
    zmq::socket_t monitor_;
    zmq::message_t frame_;
    wire::Decoder decoder_;
    msgpack::sbuffer out_;
    std::string session_;
    std::int64_t epoch_ = 0;
    std::int64_t outstanding_ = 0;
    std::int64_t welcomed_ = 0;
    std::size_t most_bytes_ = 16'777'216;  // the reference server's, until the welcome says
    bool our_turn_ = false;
    bool over_ = false;
};

}  // namespace parley
