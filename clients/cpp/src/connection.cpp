#include "connection.hpp"

#include <cerrno>
#include <chrono>

namespace parley {
namespace {

/// How often a waiting client looks whether its server is still there, milliseconds.
constexpr int tick_ms = 1000;
/// How long a server has to answer a `bye`, milliseconds.
constexpr int farewell_ms = 2000;

using Clock = std::chrono::steady_clock;

bool is_answer_aside(const std::string& type) {
    return type == "pong" || type == "state.snapshot" || type == "progress.ack";
}

}  // namespace

Connection::Connection(const Options& options)
    : options_(options), socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 1000);
    socket_.set(zmq::sockopt::rcvtimeo, tick_ms);
    // A server that turns the connection away leaves nobody to send to.
    socket_.set(zmq::sockopt::sndtimeo, std::max(1, options.patience_ms));
    constexpr const char* watched = "inproc://monitor";
    if (zmq_socket_monitor(socket_.handle(), watched, ZMQ_EVENT_DISCONNECTED) != 0) {
        throw Error(std::string("cannot watch the connection: ") + zmq_strerror(zmq_errno()));
    }
    monitor_ = zmq::socket_t(context_, zmq::socket_type::pair);
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.connect(watched);
    try {
        socket_.connect(options.endpoint);
    } catch (const zmq::error_t& error) {
        throw WrongUsage("'" + options.endpoint + "' is no endpoint to connect to (" +
                         error.what() + "); it looks like tcp://127.0.0.1:5555");
    }
}

Connection::~Connection() {
    if (options_.interrupted()) socket_.set(zmq::sockopt::linger, 0);
    zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

void Connection::join(const Welcome& welcome) {
    most_bytes_ = static_cast<std::size_t>(welcome.limits.message_bytes);
}

Answer Connection::exchange(bool first) {
    send(first);
    receive(first);
    const auto message = decoder_.decode(frame_.data<char>(), frame_.size());
    const auto envelope = wire::read_as<wire::Envelope>(message, "");
    const auto& body = wire::body_of(message);
    if (envelope.type == ErrorMessage::type) refuse(body);
    if (!envelope.session || !envelope.epoch || !envelope.seq) {
        throw ProtocolError("message.invalid", "session, epoch and seq are due");
    }
    if (first) {
        session_ = *envelope.session;
        epoch_ = *envelope.epoch;
    }
    if (!is_answer_aside(envelope.type)) outstanding_ = *envelope.seq;
    over_ = envelope.type == SessionEnd::type;
    our_turn_ = true;
    return {envelope.type, body};
}

void Connection::send(bool first) {
    if (out_.size() > most_bytes_) {
        throw Error("a message of " + std::to_string(out_.size()) +
                    " bytes is more than the server takes");
    }
    our_turn_ = false;
    const auto sent = socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
    if (!sent) nobody();
    if (!socket_.send(zmq::buffer(out_.data(), out_.size()), zmq::send_flags::none)) nobody();
    (void)first;
}

void Connection::nobody() const {
    throw ConnectionLost("no server answered at " + options_.endpoint + " within " +
                         std::to_string(options_.patience_ms / 1000) + " s");
}

/// Wait for a message: the first for a while, the others as long as the server lives.
void Connection::receive(bool first) {
    const auto began = Clock::now();
    for (;;) {
        if (options_.interrupted()) throw Interrupted("interrupted");
        try {
            bool more = true;
            while (more) {
                if (!socket_.recv(frame_)) break;
                more = frame_.more();  // the message is the last of the frames
            }
            if (!more) return;
        } catch (const zmq::error_t& error) {
            if (error.num() != EINTR) throw;
            continue;
        }
        if (!first) {
            watch();
        } else if (Clock::now() - began > std::chrono::milliseconds(options_.patience_ms)) {
            nobody();
        }
    }
}

/// Notice that the server is gone, which the socket itself never tells.
void Connection::watch() {
    zmq::message_t event;
    while (monitor_.recv(event, zmq::recv_flags::dontwait)) {
        while (event.more()) {
            if (!monitor_.recv(event, zmq::recv_flags::none)) break;
        }
        if ((socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) == 0) {
            throw ConnectionLost("the server at " + options_.endpoint + " is gone");
        }
    }
}

void Connection::refuse(const msgpack::object& body) {
    const auto error = wire::read_as<ErrorMessage>(body, "body");
    std::string text = "the server says " + error.code + ": " + error.message;
    if (error.path) text += " (" + *error.path + ")";
    if (error.supported && !error.supported->empty()) {
        const char* before = "; expected: ";
        for (const std::string& one : *error.supported) {
            text += before + one;
            before = ", ";
        }
    }
    over_ = error.fatal;
    our_turn_ = !error.fatal;
    throw ServerRefused(text, error.code, error.fatal);
}

void Connection::leave(const std::string& reason) noexcept {
    if (!joined() || !our_turn_) return;
    try {
        wire::encode(out_, Bye{reason}, session_, epoch_, outstanding_);
        send(false);
        socket_.set(zmq::sockopt::rcvtimeo, farewell_ms);
        (void)socket_.recv(frame_);
    } catch (const std::exception&) {
        // Who leaves because something is wrong has said so; nobody listens any more.
    }
}

}  // namespace parley
