#include <doctest/doctest.h>

#include "codec.hpp"
#include "files.hpp"

using parley::Job;
using parley::View;
namespace wire = parley::wire;

namespace {

template <class Body>
Body body(const std::string& frame) {
    wire::Decoder decoder;
    return wire::read_as<Body>(wire::body_of(decoder.decode(frame.data(), frame.size())), "body");
}

/// Decide as the recorded dispatcher did; whatever the server placed, first fit places.
void repeat(View& view, const json& decisions) {
    for (const json& decision : decisions) {
        const Job* job = view.find(decision["job"]);
        REQUIRE(job != nullptr);
        REQUIRE(decision["kind"] == "start");
        if (!decision.contains("allocation")) {
            REQUIRE(view.start(*job));
            continue;
        }
        parley::Spans spans;
        for (const json& span : decision["allocation"][0]) {
            spans.push_back({span[0], span[1], span[2]});
        }
        view.start(*job, spans);
    }
}

/// What a state says of the nodes, against what the mirror knows of them.
void check_nodes(View& view, const parley::State& state) {
    for (const parley::NodeRun& run : state.nodes) {
        for (std::int64_t node = run.first; node <= run.last; ++node) {
            CHECK(view.cluster().up(node) == run.up);
            REQUIRE(run.free.size() == view.cluster().resources().size());
            for (const auto& [name, amount] : run.free) {
                const auto& names = view.cluster().resources();
                const auto at = std::find(names.begin(), names.end(), name) - names.begin();
                CHECK(view.cluster().free(node, static_cast<std::size_t>(at)) == amount);
            }
        }
    }
}

/// Replay a transcript; wherever a state was recorded, the mirror led up to it must equal it.
int states_checked(const std::string& name) {
    std::optional<parley::Welcome> welcome;
    std::optional<View> view;
    bool begun = false;
    int checked = 0;
    std::istringstream lines(file("transcripts/" + name + ".jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const json entry = json::parse(line);
        if (!entry.contains("bytes")) continue;
        std::string frame = from_hex(entry["bytes"]);
        // One dispatcher spoke JSON text; what it was told is the same.
        if (frame.front() == '{') frame = as_frame(json::parse(frame));
        const std::string type = entry["view"]["type"];
        if (type == "welcome") view.emplace(welcome.emplace(body<parley::Welcome>(frame)));
        if (type == "decision.reply") {
            repeat(*view, entry["view"]["body"]["decisions"]);
            const std::vector<parley::Decision> decided = view->take_decisions();
            CHECK(decided.size() == entry["view"]["body"]["decisions"].size());
        }
        if (type != "decision.request") continue;
        auto request = body<parley::DecisionRequest>(frame);
        const std::optional<parley::State> state = request.state;
        if (begun) request.state.reset();  // by events alone
        // The recorded dispatchers numbered their decisions in ways of their own.
        std::int64_t id = 0;
        for (parley::Outcome& outcome : request.outcomes) outcome.id = id++;
        view->update(request);
        begun = true;
        if (!state) continue;
        check_nodes(*view, *state);
        const std::string led_on = view->digest();
        View anew(*welcome);
        auto loaded = request_at(request.now_us, {});
        loaded.state = state;
        anew.update(loaded);
        CHECK(anew.digest() == led_on);
        ++checked;
    }
    return checked;
}

}  // namespace

TEST_CASE("events alone lead a mirror to every state that was recorded") {
    CHECK(states_checked("shared") == 10);
    CHECK(states_checked("plain") == 1);
    CHECK(states_checked("failing") == 1);
    CHECK(states_checked("tiny") == 1);
}

TEST_CASE("the digest of the state in the examples is the one beside it") {
    const auto welcome = body<parley::Welcome>(from_hex(file("examples/welcome-resumed.hex")));
    auto request =
        body<parley::DecisionRequest>(from_hex(file("examples/decision.request-resumed.hex")));
    View view(welcome);

    view.update(request);

    CHECK(view.digest() == *request.state_digest);
}

TEST_CASE("the digest of the text's own example is that of the text") {
    View view(welcome_to({{"a", 0, 3, {{"core", 2}, {"gpu", 0}}}, {"b", 4, 12, {{"core", 2}}}}));
    parley::State state{};
    state.pending = {job_description(12, 1, 60'000'000)};
    state.held = {12};
    // Spans as a dispatcher may write them; in the digest they are merged.
    const parley::Allocation unmerged{{{0, 1, 1}, {2, 3, 1}, {9, 9, 2}}};
    state.running = {{job_description(7, 6, {}), 3'600'000'000, unmerged}};
    state.nodes = {{4, 4, {}, false}, {6, 6, {}, false}, {7, 7, {}, false}};
    state.timers = {{1, 9'000'000'000}};
    auto request = request_at(7'200'000'000, {});
    request.state = state;

    view.update(request);

    CHECK(view.digest() == "bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700");
}

TEST_CASE("a mirror that begins from a state has the digest that the vectors have for it") {
    const json vectors = json_file("vectors/digest.json");
    for (const json& vector : vectors["states"]) {
        parley::Welcome welcome{};
        const json request = {{"body",
                               {{"now_us", vector["now_us"]},
                                {"attempt", 1},
                                {"events", json::array()},
                                {"outcomes", json::array()},
                                {"state_version", 0},
                                {"state", vector["state"]}}}};
        welcome.platform = body<parley::Platform>(as_frame({{"body", vector["platform"]}}));
        View view(welcome);
        auto first = body<parley::DecisionRequest>(as_frame(request));

        view.update(first);

        CHECK_MESSAGE(view.digest() == vector["digest"].get<std::string>(), vector["name"]);
    }
    CHECK(vectors["states"].size() >= 7);
}
