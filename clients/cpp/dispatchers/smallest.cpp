// First come, first served on whole nodes, with nothing of Parley's: ZeroMQ and MessagePack.
//
//     parley run SCENARIO -- clients/cpp/build/parley-smallest

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <msgpack.hpp>
#include <zmq.hpp>

using Value = msgpack::object;
using Map = std::map<std::string, Value>;

// A whole number may come as a float: that of the same value is meant.
long number(const Value& value) { return static_cast<long>(value.as<double>()); }

int main() {
    const char* const endpoint = std::getenv("PARLEY_ENDPOINT");
    if (endpoint == nullptr) return std::cerr << "set PARLEY_ENDPOINT\n", 2;
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::req);
    socket.connect(endpoint);
    msgpack::object_handle received;  // what `message` and `body` point into
    Map message, body;
    std::string session;
    long epoch = 0;

    const auto ask = [&](const std::string& type, const Map& said) {
        msgpack::zone zone;
        Map out{{"v", Value(1, zone)}, {"type", Value(type, zone)}, {"body", Value(said, zone)}};
        if (type != "hello") {
            out["session"] = Value(session, zone);
            out["epoch"] = Value(epoch, zone);
            out["re"] = Value(number(message["seq"]), zone);
        }
        msgpack::sbuffer bytes;
        msgpack::pack(bytes, out);
        socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::none);
        zmq::message_t frame;
        (void)socket.recv(frame);
        received = msgpack::unpack(frame.data<char>(), frame.size());
        message = received->as<Map>();
        body = message["body"].as<Map>();
        return message["type"].as<std::string>();
    };

    msgpack::zone zone;
    const auto value = [&](const auto& any) { return Value(any, zone); };
    const Map me{{"name", value("smallest")}, {"version", value("1")}};
    const Map can{{"state", value("snapshot")}};
    std::string type = ask("hello", {{"versions", value(std::vector<std::string>{"1.0"})},
                                     {"client", value(me)},
                                     {"capabilities", value(can)}});
    if (type == "welcome") {
        session = message["session"].as<std::string>();
        epoch = number(message["epoch"]);
        type = ask("ready", {});
    }
    while (type == "decision.request") {
        Map state = body["state"].as<Map>();
        long free = 0;
        for (const auto& run : state["nodes"].as<std::vector<std::vector<Value>>>()) {
            const bool idle = number(run[2].as<Map>()["core"]) > 0;
            if (idle) free += number(run[1]) - number(run[0]) + 1;
        }
        std::vector<Map> starts;
        for (Map& job : state["pending"].as<std::vector<Map>>()) {
            free -= number(job["request"].as<std::vector<Map>>()[0]["chunks"]);
            if (free < 0) break;
            const Value id = value(starts.size());
            starts.push_back({{"id", id}, {"kind", value("start")}, {"job", job["job"]}});
        }
        type = ask("decision.reply", {{"decisions", value(starts)},
                                      {"state_version", body["state_version"]}});
        zone.clear();
    }
    if (type == "error") std::cerr << body["message"].as<std::string>() << "\n";
    return type == "session.end" && body["reason"].as<std::string>() == "completed" ? 0 : 1;
}
