#include "parley/serve.hpp"

#include <chrono>
#include <cstdlib>

#include "connection.hpp"
#include "ticket.hpp"

namespace parley {
namespace {

constexpr const char* version = "0.1.0";
using Clock = std::chrono::steady_clock;

std::string endpoint_of(const Options& options) {
    if (!options.endpoint.empty()) return options.endpoint;
    const char* const found = std::getenv("PARLEY_ENDPOINT");
    if (found != nullptr && *found != '\0') return found;
    throw WrongUsage(
        "where is the server? pass an endpoint, or set PARLEY_ENDPOINT (parley run sets it)");
}

/// A dispatcher's side of a session, over as many connections as it takes.
class Session {
public:
    Session(Policy& policy, const Options& options)
        : policy_(policy), options_(options), file_(options.session_file), ticket_(file_.find()) {}

    /// Whether the server holds the session for whoever resumes it.
    bool waited_for() const { return waited_for_; }
    const TicketFile& file() const { return file_; }

    SessionEnd converse(Connection& connection);

private:
    Hello hello() const;
    void join(Connection& connection, const Welcome& welcome);
    DecisionReply reply_to(DecisionRequest request, Connection& connection, View& view);
    bool follow(DecisionRequest& request, Connection& connection, View& view) const;
    void add_kept_back(DecisionRequest& request);

    Policy& policy_;
    const Options& options_;
    TicketFile file_;
    std::optional<Resume> ticket_;
    bool waited_for_ = false;
    std::size_t most_decisions_ = 0;
    std::size_t kept_back_first_ = 0;
    std::size_t kept_back_count_ = 0;
};

Hello Session::hello() const {
    return {{"1.0"},
            {options_.name, version, "c++"},
            options_.capabilities,
            policy_.ask() == Ask::actionable ? "actionable" : "always",
            {},
            options_.scenario,
            ticket_};
}

SessionEnd Session::converse(Connection& connection) {
    waited_for_ = false;
    kept_back_count_ = 0;
    Answer answer = connection.ask(hello());
    if (!answer.is<Welcome>()) {
        throw ProtocolError("message.unexpected", "a welcome was due, not " + answer.type);
    }
    const auto welcome = answer.as<Welcome>();
    join(connection, welcome);
    View view(welcome);
    answer = connection.ask(Ready{});
    while (answer.is<DecisionRequest>()) {
        answer = connection.ask(reply_to(answer.as<DecisionRequest>(), connection, view));
    }
    if (!answer.is<SessionEnd>()) {
        throw ProtocolError("message.unexpected", "a request was due, not " + answer.type);
    }
    return answer.as<SessionEnd>();
}

void Session::join(Connection& connection, const Welcome& welcome) {
    connection.join(welcome);
    most_decisions_ = static_cast<std::size_t>(welcome.limits.decisions);
    ticket_ = Resume{connection.session(), welcome.token};
    file_.keep(*ticket_);
    waited_for_ = welcome.policy.on_disconnect == "wait";
}

DecisionReply Session::reply_to(DecisionRequest request, Connection& connection, View& view) {
    const auto began = Clock::now();
    add_kept_back(request);
    if (follow(request, connection, view)) policy_.begin(view);
    policy_.decide(view);
    DecisionReply reply{view.take_decisions(), request.state_version, {}};
    kept_back_count_ = 0;
    if (reply.decisions.size() > most_decisions_) {
        kept_back_first_ = most_decisions_;
        kept_back_count_ = reply.decisions.size() - most_decisions_;
        reply.decisions.resize(most_decisions_);
    }
    reply.compute_us =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count();
    return reply;
}

/// Take in a request; return whether the picture of the state began anew. Where it is not the
/// server's, the whole state is asked for, and goes for the truth whatever the digest was.
bool Session::follow(DecisionRequest& request, Connection& connection, View& view) const {
    try {
        view.update(request);
        if (!request.state_digest || *request.state_digest == view.digest()) {
            return request.state.has_value();
        }
    } catch (const Drifted&) {
    }
    const Answer answer = connection.ask(StateRequest{});
    if (!answer.is<StateSnapshot>()) {
        throw ProtocolError("message.unexpected", "a state.snapshot was due, not " + answer.type);
    }
    request.state = answer.as<StateSnapshot>().state;
    try {
        view.update(request);
    } catch (const Drifted& drifted) {
        throw Error(std::string("the server's state contradicts itself: ") + drifted.what());
    }
    return true;
}

/// What was beyond the limit of decisions has not happened: as if it had been refused.
void Session::add_kept_back(DecisionRequest& request) {
    std::optional<Micros> at_us;
    for (const Outcome& outcome : request.outcomes) {
        if (!at_us) at_us = outcome.at_us;
    }
    for (std::size_t more = 0; more < kept_back_count_; ++more) {
        Outcome refused{};
        refused.id = static_cast<std::int64_t>(kept_back_first_ + more);
        refused.status = "rejected";
        refused.code = "limit.decisions";
        refused.at_us = at_us;
        request.outcomes.push_back(std::move(refused));
    }
}

}  // namespace

SessionEnd serve(Policy& policy, const Options& given) {
    Options options = given;
    options.endpoint = endpoint_of(given);
    Session session(policy, options);
    for (;;) {
        Connection connection(options);
        try {
            SessionEnd end = session.converse(connection);
            session.file().forget();
            return end;
        } catch (const ConnectionLost&) {
            if (!session.waited_for()) throw;
        } catch (const ServerRefused& error) {
            if (error.code() == "session.over") session.file().forget();
            connection.leave(error.what());
            throw;
        } catch (const std::exception& error) {
            connection.leave(error.what());
            throw;
        }
    }
}

}  // namespace parley
