// First come, first served on whole nodes, with nothing of Parley's: ZeroMQ and MessagePack.

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <msgpack.hpp>
#include <zmq.hpp>

using Map = std::map<std::string, msgpack::object>;

int main() {
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::req);
    socket.connect(std::getenv("PARLEY_ENDPOINT"));
    msgpack::zone zone;
    msgpack::object_handle last;
    Map session, answer;

    const auto ask = [&](const std::string& type, const Map& body) {
        Map message = session;
        message["v"] = msgpack::object(1, zone);
        message["type"] = msgpack::object(type, zone);
        message["body"] = msgpack::object(body, zone);
        if (!session.empty()) message["re"] = answer["seq"];
        msgpack::sbuffer out;
        msgpack::pack(out, message);
        (void)socket.send(zmq::buffer(out.data(), out.size()));
        zmq::message_t in;
        (void)socket.recv(in);
        last = msgpack::unpack(in.data<char>(), in.size());
        answer = last->as<Map>();
        zone.clear();
        return answer["body"].as<Map>();
    };
    const auto object = [&](const auto& value) { return msgpack::object(value, zone); };

    const Map me{{"name", object("smallest")}, {"version", object("1")}};
    const Map can{{"state", object("snapshot")}};
    ask("hello", {{"versions", object(std::vector<std::string>{"1.0"})},
                  {"client", object(me)}, {"capabilities", object(can)}});
    const msgpack::object_handle kept = msgpack::clone(answer["session"]);
    session = {{"session", *kept}, {"epoch", answer["epoch"]}};
    Map body = ask("ready", {});
    while (answer["type"].as<std::string>() == "decision.request") {
        Map state = body["state"].as<Map>();
        long free = 0;
        for (const auto& run : state["nodes"].as<std::vector<std::vector<msgpack::object>>>()) {
            if (run[2].as<Map>()["core"].as<long>() > 0) free += run[1].as<long>() - run[0].as<long>() + 1;
        }
        std::vector<Map> starts;
        for (Map& job : state["pending"].as<std::vector<Map>>()) {
            free -= job["request"].as<std::vector<Map>>()[0]["chunks"].as<long>();
            if (free < 0) break;
            starts.push_back({{"id", object(starts.size())}, {"kind", object("start")}, {"job", job["job"]}});
        }
        body = ask("decision.reply",
                   {{"decisions", object(starts)}, {"state_version", body["state_version"]}});
    }
    return answer["type"].as<std::string>() == "session.end" ? 0 : 1;
}
