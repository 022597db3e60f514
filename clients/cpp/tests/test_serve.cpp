// Against a server of a few lines, over real sockets.

#include <cstdlib>
#include <functional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <zmq.hpp>

#include "files.hpp"

namespace {

/// Answers each message by what a function makes of it; ends where that is nothing.
class Server {
public:
    using Answer = std::function<json(const json&)>;

    explicit Server(Answer answer) : socket_(context_, zmq::socket_type::router) {
        socket_.set(zmq::sockopt::linger, 200);
        socket_.bind("tcp://127.0.0.1:*");
        endpoint = socket_.get(zmq::sockopt::last_endpoint);
        thread_ = std::thread([this, answer = std::move(answer)] { run(answer); });
    }
    ~Server() { thread_.join(); }

    std::string endpoint;
    std::vector<json> said;

private:
    void run(const Answer& answer) {
        socket_.set(zmq::sockopt::rcvtimeo, 3000);
        for (;;) {
            zmq::message_t identity, empty, frame;
            if (!socket_.recv(identity) || !socket_.recv(empty) || !socket_.recv(frame)) break;
            said.push_back(from_frame({frame.data<char>(), frame.size()}));
            const json reply = answer(said.back());
            if (reply.is_null()) break;
            const std::string bytes = as_frame(reply);
            socket_.send(identity, zmq::send_flags::sndmore);
            socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
            socket_.send(zmq::buffer(bytes), zmq::send_flags::none);
            if (reply["type"] == "session.end" || reply["body"].value("fatal", false)) break;
        }
        socket_.close();
    }

    zmq::context_t context_;
    zmq::socket_t socket_;
    std::thread thread_;
};

json example(const std::string& name) { return json_file("examples/" + name + ".json"); }

json server_error(const std::string& code, bool fatal) {
    return {{"v", 1},
            {"type", "error"},
            {"session", "1"},
            {"epoch", 1},
            {"seq", 2},
            {"body", {{"code", code}, {"message", "as it is"}, {"fatal", fatal}}}};
}

/// The session of the text's example, until a message of a type is answered otherwise.
Server::Answer session_but(const std::string& type, json otherwise, bool resumed = false) {
    return [=](const json& message) -> json {
        if (message["type"] == type) return otherwise;
        if (message["type"] == "hello") {
            json welcome = example("session-02");
            welcome["body"]["resumed"] = resumed;
            return welcome;
        }
        if (message["type"] == "ready") return example("session-04");
        if (message["type"] == "bye") {
            json end = example("session-14");
            end["body"]["reason"] = "bye";
            return end;
        }
        return example("session-14");
    };
}

parley::Options options_for(const Server& server) {
    parley::Options options;
    options.endpoint = server.endpoint;
    options.name = "tested";
    options.patience_ms = 3000;
    return options;
}

struct Fifo : parley::Policy {
    void decide(parley::View& view) override {
        while (view.queue().head() != nullptr && view.start(*view.queue().head())) {
        }
    }
};

std::vector<std::string> types(const std::vector<json>& said) {
    std::vector<std::string> all;
    for (const json& message : said) all.push_back(message["type"]);
    return all;
}

template <class Exception>
std::string complaint(const std::function<void()>& act) {
    try {
        act();
    } catch (const Exception& error) {
        return error.what();
    }
    return "";
}

std::string fresh_path() {
    std::string path = "/tmp/parley-cpp-XXXXXX";
    ::close(::mkstemp(path.data()));
    ::unlink(path.c_str());
    return path;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a session is played to its end") {
    Fifo fifo;
    std::optional<Server> server(session_but("", nullptr));

    const parley::SessionEnd end = parley::serve(fifo, options_for(*server));

    CHECK(end.complete());
    CHECK(end.stats.completed == 2);
    const std::vector<json>& said = server->said;
    CHECK(types(said) == Words{"hello", "ready", "decision.reply"});
    CHECK(said[0]["body"]["client"]["name"] == "tested");
    CHECK_FALSE(said[0]["body"].contains("capabilities"));  // only what is used
    CHECK(said[2]["re"] == 2);
}

TEST_CASE("an error that is not fatal is told, and the session left") {
    Fifo fifo;
    Server server(session_but("decision.reply", server_error("state.version", false)));

    CHECK(complaint<parley::ServerRefused>([&] { parley::serve(fifo, options_for(server)); }) ==
          "the server says state.version: as it is");
    CHECK(types(server.said) == Words{"hello", "ready", "decision.reply", "bye"});
}

TEST_CASE("after a fatal error nothing more is said") {
    Fifo fifo;
    Server server(session_but("decision.reply", server_error("of.later", true)));

    CHECK_THROWS_AS(parley::serve(fifo, options_for(server)), parley::ServerRefused);
    CHECK(types(server.said) == Words{"hello", "ready", "decision.reply"});
}

TEST_CASE("what the policy throws is passed on, and the session left") {
    Server server(session_but("", nullptr));
    parley::FunctionPolicy thrower([](parley::View&) { throw std::runtime_error("no idea"); });

    CHECK(complaint<std::runtime_error>([&] { parley::serve(thrower, options_for(server)); }) ==
          "no idea");
    CHECK(types(server.said) == Words{"hello", "ready", "bye"});
    CHECK(server.said[2]["body"]["reason"] == "no idea");
}

TEST_CASE("a mirror that has drifted begins anew from the state that is asked for") {
    json drifted = example("session-08");
    drifted["body"]["state_digest"] = std::string(64, '0');
    json snapshot = example("state.snapshot");
    snapshot["body"]["state"] = {{"pending", {example("session-08")["body"]["events"][0]["job"]}},
                                 {"held", json::array()},
                                 {"running", json::array()},
                                 {"nodes", {{0, 3, {{"core", 1}}, "up"}}},
                                 {"timers", json::array()},
                                 {"exhausted", true}};
    Fifo fifo;
    bool asked = false;
    Server server([&](const json& message) -> json {
        if (message["type"] == "state.request") return snapshot;
        if (message["type"] == "decision.reply" && !asked) {
            asked = true;
            return drifted;
        }
        return session_but("", nullptr)(message);
    });

    parley::serve(fifo, options_for(server));

    CHECK(types(server.said) ==
          Words{"hello", "ready", "decision.reply", "state.request", "decision.reply"});
    CHECK(server.said[4]["body"]["decisions"][0]["job"] == 1);
    CHECK(server.said[4]["re"] == drifted["seq"]);
}

TEST_CASE("no more decisions are sent than the welcome allows; the rest is decided anew") {
    json welcome = example("session-02");
    welcome["body"]["limits"]["decisions"] = 1;
    json request = example("session-08");
    json first = example("session-06")["body"]["events"][0];
    first["job"]["request"][0]["chunks"] = 1;
    request["body"]["outcomes"] = json::array();
    request["body"]["events"].insert(request["body"]["events"].begin(), first);
    json again = request;
    again["body"]["events"] = json::array();
    again["body"]["outcomes"] = {{{"id", 0}, {"status", "applied"}}};
    int replies = 0;
    Fifo fifo;
    Server server([&](const json& message) -> json {
        if (message["type"] == "hello") return welcome;
        if (message["type"] == "ready") return example("session-04");
        ++replies;
        return replies == 1 ? request : replies == 2 ? again : example("session-14");
    });

    parley::serve(fifo, options_for(server));

    CHECK(server.said[3]["body"]["decisions"].size() == 1);
    CHECK(server.said[4]["body"]["decisions"].size() == 1);
    CHECK(server.said[4]["body"]["decisions"][0]["job"] == 1);
}

TEST_CASE("where the server waits for who comes back, a lost connection is resumed") {
    json welcome = example("session-02");
    welcome["body"]["policy"]["on_disconnect"] = "wait";
    const std::string path = fresh_path();
    Fifo fifo;
    std::string endpoint;
    std::vector<json> said_before;
    {
        Server server([&](const json& message) -> json {
            return message["type"] == "hello" ? welcome : json();
        });
        parley::Options options = options_for(server);
        options.session_file = path;
        options.patience_ms = 100;
        // Nobody comes back at this place: it gives up, and keeps what it takes to go on.
        CHECK_THROWS_AS(parley::serve(fifo, options), parley::ConnectionLost);
    }
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    {
        Server server(session_but("", nullptr, true));
        parley::Options options = options_for(server);
        options.session_file = path;

        parley::serve(fifo, options);

        CHECK(server.said[0]["body"]["resume"] ==
              json{{"session", "1"}, {"token", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"}});
    }
    CHECK(::stat(path.c_str(), &status) != 0);
}

TEST_CASE("a session that is handed over in the environment is resumed, if both halves are there") {
    ::setenv("PARLEY_SESSION", "7", 1);
    ::setenv("PARLEY_TOKEN", "", 1);
    Fifo fifo;
    {
        Server server(session_but("", nullptr));
        parley::serve(fifo, options_for(server));
        CHECK_FALSE(server.said[0]["body"].contains("resume"));
    }
    ::setenv("PARLEY_TOKEN", "secret", 1);
    {
        Server server(session_but("hello", server_error("session.over", true)));
        CHECK_THROWS_AS(parley::serve(fifo, options_for(server)), parley::ServerRefused);
        CHECK(server.said[0]["body"]["resume"] == json{{"session", "7"}, {"token", "secret"}});
    }
    ::unsetenv("PARLEY_SESSION");
    ::unsetenv("PARLEY_TOKEN");
}

TEST_CASE("wrong usage is told before any server is asked") {
    Fifo fifo;
    parley::Options options;
    ::unsetenv("PARLEY_ENDPOINT");
    const auto told = [&] {
        return complaint<parley::WrongUsage>([&] { parley::serve(fifo, options); });
    };
    CHECK(told().find("where is the server?") == 0);
    options.endpoint = "nonsense";
    CHECK(told().find("'nonsense' is no endpoint") == 0);
    options.session_file = fresh_path();
    std::ofstream(options.session_file) << "no ticket";
    CHECK(told() == options.session_file +
                        ": not the file of a session; remove it to begin anew");
    ::unlink(options.session_file.c_str());
}

TEST_CASE("what is not the protocol ends the session with the field in question") {
    json broken = example("session-06");
    broken["body"]["now_us"] = "now";
    Fifo fifo;
    Server server([&](const json& message) -> json {
        return message["type"] == "decision.reply" ? broken : session_but("", nullptr)(message);
    });

    CHECK(complaint<parley::ProtocolError>([&] { parley::serve(fifo, options_for(server)); }) ==
          "message.invalid: an integer is due (body.now_us)");
}
