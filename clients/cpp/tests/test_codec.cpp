#include <doctest/doctest.h>

#include "codec.hpp"
#include "files.hpp"

using parley::ProtocolError;
namespace wire = parley::wire;

namespace {

std::string code_of(const std::string& frame) {
    wire::Decoder decoder;
    try {
        decoder.decode(frame.data(), frame.size());
    } catch (const ProtocolError& error) {
        return error.code();
    }
    return "";
}

template <class Body>
std::string encoded(const Body& body, const std::string& session, std::int64_t epoch,
                    std::int64_t re) {
    msgpack::sbuffer out;
    wire::encode(out, body, session, epoch, re);
    return {out.data(), out.size()};
}

template <class Body>
Body decoded(const std::string& frame) {
    wire::Decoder decoder;
    return wire::read_as<Body>(wire::body_of(decoder.decode(frame.data(), frame.size())), "body");
}

template <class Body>
void check_written_as_read(const std::string& name) {
    const std::string frame = from_hex(file("examples/" + name + ".hex"));
    const json message = json_file("examples/" + name + ".json");
    const std::string session = message.value("session", "");

    const std::string again = encoded(decoded<Body>(frame), session, message.value("epoch", 0),
                                      message.value("re", 0));

    CHECK_MESSAGE(from_frame(again) == message, name);
}

}  // namespace

TEST_CASE("every frame of the vectors is taken or refused as it is to be") {
    int valid = 0, invalid = 0, text = 0;
    const json vectors = json_file("vectors/codec.json");
    for (const json& vector : vectors["frames"]) {
        const std::string frame = from_hex(vector["hex"]);
        INFO(vector["name"]);
        if (!frame.empty() && frame.front() == '{') {
            // This client says hello in MessagePack; JSON text is for who does otherwise.
            ++text;
            CHECK(code_of(frame) == "encoding.dialect");
        } else if (vector["verdict"] == "valid") {
            ++valid;
            wire::Decoder decoder;
            msgpack::sbuffer out;
            msgpack::pack(out, decoder.decode(frame.data(), frame.size()));
            CHECK(from_frame({out.data(), out.size()}) == vector["value"]);
        } else if (vector["verdict"] == "invalid") {
            ++invalid;
            const json codes = vector["codes"];
            CHECK(std::find(codes.begin(), codes.end(), code_of(frame)) != codes.end());
        }
    }
    CHECK(valid >= 11);
    CHECK(invalid >= 16);
    CHECK(text >= 10);
}

TEST_CASE("an integer as a float of either width is the integer of that value") {
    int checked = 0;
    const json vectors = json_file("vectors/codec.json");
    for (const json& vector : vectors["frames"]) {
        if (vector["name"] != "floats" && vector["name"] != "float32") continue;
        const std::string frame = from_hex(vector["hex"]);
        wire::Decoder decoder;
        const auto message = decoder.decode(frame.data(), frame.size());

        CHECK(wire::read_as<parley::wire::Envelope>(message, "").v == 1);
        ++checked;
    }
    CHECK(checked == 2);
}

TEST_CASE("a field that is missing or of another type is named by its path") {
    json message = json_file("examples/decision.request-resumed.json");
    const auto complaint = [](const json& wrong) -> std::string {
        try {
            decoded<parley::DecisionRequest>(as_frame(wrong));
        } catch (const ProtocolError& error) {
            return error.what();
        }
        return "";
    };

    SUBCASE("missing") {
        message["body"].erase("now_us");
        CHECK(complaint(message) == "message.invalid: is missing (body.now_us)");
    }
    SUBCASE("another type, deep inside") {
        message["body"]["state"]["running"][0]["job"]["request"][0]["chunks"] = "3";
        CHECK(complaint(message) ==
              "message.invalid: an integer is due (body.state.running.0.job.request.0.chunks)");
    }
    SUBCASE("a boolean is no number") {
        message["body"]["attempt"] = true;
        CHECK(complaint(message) == "message.invalid: an integer is due (body.attempt)");
    }
    SUBCASE("a number with a fraction is no integer") {
        message["body"]["now_us"] = 1.5;
        CHECK(complaint(message) == "message.invalid: an integer is due (body.now_us)");
    }
    SUBCASE("a float beyond 2^53 - 1 is no integer") {
        message["body"]["now_us"] = 9007199254740992.0;
        CHECK(complaint(message) == "message.invalid: an integer is due (body.now_us)");
    }
}

TEST_CASE("nil is absent, what is not known is passed over, keys come in any order") {
    json message = json_file("examples/decision.request-resumed.json");
    message["body"]["state_digest"] = nullptr;
    message["body"]["of a later version"] = {{"x", 1}};
    message["body"]["events"].push_back({{"kind", "of.later"}, {"at_us", 61000000}, {"y", 2}});

    const auto request = decoded<parley::DecisionRequest>(as_frame(message));

    CHECK_FALSE(request.state_digest.has_value());
    CHECK(std::holds_alternative<parley::UnknownEvent>(request.events.back()));
    CHECK(std::get<parley::JobEnded>(request.events.front()).status == "requeued");
    CHECK(request.state->running[0].job.attributes.has_value());
}

TEST_CASE("what the dispatcher says is written as the examples have it") {
    check_written_as_read<parley::Hello>("hello");
    check_written_as_read<parley::Hello>("hello-resume");
    check_written_as_read<parley::Ready>("ready");
    check_written_as_read<parley::StateRequest>("state.request");
    check_written_as_read<parley::Progress>("progress");
    check_written_as_read<parley::Ping>("ping");
    check_written_as_read<parley::Bye>("bye");
}

TEST_CASE("each decision is written as the example has it") {
    const json example = json_file("examples/decision.reply.json");
    parley::NewJob probe{};
    probe.runtime_us = 5000000;
    probe.request = {{1, {{"core", 1}}, false}};
    probe.name = "probe";
    probe.walltime_us = 10000000;
    probe.user = "7";
    probe.group = "3";
    probe.queue = "5";
    probe.partition = "6";
    probe.attributes = parley::AnyMap{as_frame({{"purpose", "health check"}})};
    parley::DecisionReply reply{};
    reply.state_version = 12;
    reply.compute_us = 398750;
    reply.decisions = {
        parley::Start{7, 0, parley::Allocation{{{0, 0, 1}, {2, 3, 1}}}},
        parley::Start{8, 0, {}},
        parley::Hold{9, 0, "its project has no hours left"},
        parley::Release{10, 0},
        parley::Annotate{11, 0, 120000000, "waits for node 3"},
        parley::Requeue{12, 1},
        parley::Kill{13, 7},
        parley::Wake{14, 1, 100000000},
        parley::WakeCancel{15, 2},
        parley::Submit{16, probe, 65000000},
        parley::Reject{18, 0, "asks for a queue that is closed"},
        parley::Stop{19, "the question is answered"},
    };

    json written = from_frame(encoded(reply, "1", 2, 6));

    json due = example;
    due["body"]["decisions"][1].erase("allocation");  // nil there, absent here
    due["body"]["decisions"].erase(10);               // a kind that no version defines
    CHECK(written == due);
}
