// A schema that gains a field, or a type that is new, fails here until the types follow.

#include <set>

#include <doctest/doctest.h>

#include "files.hpp"
#include "reading.hpp"

namespace {

using Names = std::set<std::string>;

template <class Type>
Names names_of() {
    Names names;
    std::apply([&](const auto&... fields) { (names.emplace(fields.name), ...); }, Type::fields());
    if constexpr (parley::wire::has_kind<Type>::value) names.emplace("kind");
    return names;
}

Names properties(const json& schema) {
    Names names;
    if (!schema.contains("properties")) return names;
    for (const auto& [name, property] : schema["properties"].items()) names.insert(name);
    return names;
}

/// The name of the definition of a message's body.
std::string body_of(std::string_view type) {
    const json schema = json_file(std::string(type) + ".schema.json");
    const std::string ref = schema.at("properties").at("body").at("$ref");
    return ref.substr(ref.rfind('/') + 1);
}

class Definitions {
public:
    template <class Type>
    void check(const std::string& name) {
        CHECK_MESSAGE(names_of<Type>() == properties(all_.at(name)), name);
        checked_.insert(name);
    }

    template <class... Types>
    void check_bodies() {
        (check<Types>(body_of(Types::type)), ...);
    }

    Names unchecked() const {
        Names names;
        for (const auto& [name, schema] : all_.items()) {
            if (checked_.count(name) == 0) names.insert(name);
        }
        return names;
    }

private:
    json all_ = json_file("definitions.schema.json")["$defs"];
    Names checked_;
};

}  // namespace

TEST_CASE("each message, and whatever it is made of, has exactly the fields of its schema") {
    Definitions all;
    all.check_bodies<parley::Hello, parley::Ready, parley::DecisionReply, parley::StateRequest,
                     parley::Progress, parley::Ping, parley::Bye, parley::Welcome,
                     parley::DecisionRequest, parley::StateSnapshot, parley::ProgressAck,
                     parley::SessionEnd, parley::Pong, parley::ErrorMessage>();
    all.check<parley::Annotate>("Annotate");
    all.check<parley::Capabilities>("Capabilities");
    all.check<parley::ChunkGroup>("ChunkGroup");
    all.check<parley::Granted>("Granted");
    all.check<parley::Hold>("Hold");
    all.check<parley::JobDescription>("Job");
    all.check<parley::JobEnded>("JobEnded");
    all.check<parley::JobStarted>("JobStarted");
    all.check<parley::JobSubmitted>("JobSubmitted");
    all.check<parley::Kill>("Kill");
    all.check<parley::Limits>("Limits");
    all.check<parley::NewJob>("NewJob");
    all.check<parley::NodeDown>("NodeDown");
    all.check<parley::NodeGroup>("NodeGroup");
    all.check<parley::NodeUp>("NodeUp");
    all.check<parley::Outcome>("Outcome");
    all.check<parley::Platform>("Platform");
    all.check<parley::ServerPolicy>("Policy");
    all.check<parley::Program>("Program");
    all.check<parley::Reject>("Reject");
    all.check<parley::Release>("Release");
    all.check<parley::Requeue>("Requeue");
    all.check<parley::Resume>("Resume");
    all.check<parley::Rules>("Rules");
    all.check<parley::RunningJob>("RunningJob");
    all.check<parley::Scenario>("Scenario");
    all.check<parley::SessionStart>("SessionStart");
    all.check<parley::Start>("Start");
    all.check<parley::State>("State");
    all.check<parley::Stats>("Stats");
    all.check<parley::Stop>("Stop");
    all.check<parley::Submit>("Submit");
    all.check<parley::Timer>("Timer");
    all.check<parley::TimerFired>("TimerFired");
    all.check<parley::UnknownEvent>("UnknownEvent");
    all.check<parley::Wake>("Wake");
    all.check<parley::WakeCancel>("WakeCancel");
    all.check<parley::WorkloadExhausted>("WorkloadExhausted");

    // Any value, and a decision that nobody can make, need no type.
    CHECK(all.unchecked() == Names{"JsonValue", "UnknownDecision"});
}

TEST_CASE("each kind of event and decision is one of the catalog") {
    const json catalog = json_file("catalog.json");
    const std::string text = catalog.dump();
    for (const std::string_view kind :
         {parley::JobSubmitted::kind, parley::JobEnded::kind, parley::NodeDown::kind,
          parley::WakeCancel::kind, parley::Annotate::kind}) {
        CHECK(text.find("\"" + std::string(kind) + "\"") != std::string::npos);
    }
}
