#include <random>

#include <doctest/doctest.h>

#include "files.hpp"

using parley::Easy;
using parley::Micros;
using parley::View;

namespace {

constexpr Micros s = 1'000'000;

parley::Event submitted(std::int64_t number, std::int64_t chunks, std::optional<Micros> walltime_us,
                        parley::Amounts per_chunk = {{"core", 1}}, bool exclusive = false) {
    return parley::JobSubmitted{
        0, job_description(number, chunks, walltime_us, std::move(per_chunk), exclusive)};
}

std::vector<std::int64_t> started(View& view) {
    std::vector<std::int64_t> numbers;
    for (const parley::Decision& decision : view.take_decisions()) {
        const auto* start = std::get_if<parley::Start>(&decision);
        if (start != nullptr) numbers.push_back(start->job);
    }
    return numbers;
}

/// A machine of single-core nodes on which one job of so many nodes runs since 0 s.
View busy(std::int64_t nodes, std::int64_t taken, std::optional<Micros> walltime_us) {
    View view(welcome_to({{"nodes", 0, nodes - 1, {{"core", 1}}}}));
    auto first = request_at(0, {submitted(0, taken, walltime_us)});
    view.update(first);
    view.start(*view.queue().head());
    (void)view.take_decisions();
    return view;
}

std::vector<std::int64_t> easy_at(View& view, Micros now_us, std::vector<parley::Event> events) {
    auto request = request_at(now_us, std::move(events));
    view.update(request);
    Easy easy;
    easy.decide(view);
    return started(view);
}

using Numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("behind the head a job starts that is over by the shadow time, or at it") {
    View view = busy(4, 3, 100 * s);

    CHECK(easy_at(view, 40 * s, {submitted(1, 4, 10 * s), submitted(2, 1, 61 * s),
                                 submitted(3, 1, 60 * s)}) == Numbers{3});
}

TEST_CASE("a job may last if it takes only what the head leaves over") {
    View view = busy(4, 2, 100 * s);

    // At 100 s four nodes are free, of which the head takes three.
    CHECK(easy_at(view, 0, {submitted(1, 3, 10 * s), submitted(2, 1, 5000 * s),
                            submitted(3, 1, 5000 * s), submitted(4, 1, {})}) == Numbers{2});
}

TEST_CASE("releases of one instant count together") {
    View view(welcome_to({{"nodes", 0, 3, {{"core", 1}}}}));
    auto first = request_at(0, {submitted(0, 1, 50 * s), submitted(1, 2, 50 * s)});
    view.update(first);
    while (view.queue().head() != nullptr) view.start(*view.queue().head());
    (void)view.take_decisions();

    // Two would do for the head; all three come back at once, so that two are left over.
    CHECK(easy_at(view, 0, {submitted(2, 2, 9 * s), submitted(3, 1, 900 * s)}) == Numbers{3});
}

TEST_CASE("an overdue job is taken to end a second from now") {
    View view = busy(4, 3, 10 * s);

    CHECK(easy_at(view, 500 * s, {submitted(1, 4, 10 * s), submitted(2, 1, 2 * s),
                                  submitted(3, 1, 1 * s)}) == Numbers{3});
}

TEST_CASE("an estimate of zero counts as a second") {
    View view = busy(4, 3, 10 * s);

    CHECK(easy_at(view, 9 * s + 1, {submitted(1, 4, 10 * s), submitted(2, 1, 0)}).empty());
    CHECK(easy_at(view, 9 * s + 1, {}).empty());
}

TEST_CASE("who waits for a job without walltime has no shadow time") {
    View view = busy(4, 2, {});

    // The head wants three; one is left over when all are back.
    CHECK(easy_at(view, 0, {submitted(1, 3, 10 * s), submitted(2, 1, 9'000'000 * s),
                            submitted(3, 1, {})}) == Numbers{2, 3});
    View other = busy(4, 3, {});
    CHECK(easy_at(other, 0, {submitted(1, 4, 10 * s), submitted(2, 1, {})}).empty());
}

TEST_CASE("counting slots and looking at the nodes decide alike") {
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
        std::mt19937 random(seed);
        const auto upto = [&](std::uint32_t most) {
            return static_cast<std::int64_t>(random() % (most + 1));
        };
        const bool exclusive = upto(1) == 1;
        const auto walltime = [&]() -> std::optional<Micros> {
            if (upto(9) == 0) return std::nullopt;
            return upto(6) * s;
        };
        const std::int64_t cores = exclusive ? 1 : 1 + upto(2);
        const parley::Welcome welcome = welcome_to({{"nodes", 0, 9, {{"core", cores}}}});
        View counted(welcome), looked_at(welcome);
        std::int64_t number = 0;
        for (Micros now_us = 0; now_us < 8 * s; now_us += upto(2) * s / 2) {
            std::vector<parley::Event> events;
            for (std::int64_t job = 0; job <= upto(2); ++job, ++number) {
                const std::int64_t chunks = 1 + upto(8);
                events.push_back(submitted(number, chunks, walltime(), {{"core", 1}}, exclusive));
            }
            auto other = events;
            // A job of another kind, which never fits: now only the nodes can tell.
            if (number > 0 && looked_at.one_kind()) {
                other.push_back(submitted(1'000'000, 100, 1 * s, {{"core", 1}}, !exclusive));
                std::get<parley::JobSubmitted>(other.back()).job.submit_us = 1;
            }
            REQUIRE(easy_at(counted, now_us, events) == easy_at(looked_at, now_us, other));
            REQUIRE(counted.one_kind());
            REQUIRE_FALSE(looked_at.one_kind());
        }
    }
}

TEST_CASE("with an interval it is decided at its multiples, and a timer set for the next") {
    View view(welcome_to({{"nodes", 0, 3, {{"core", 1}}}}));
    parley::Periodic periodic(std::make_unique<Easy>(), 30 * s);
    auto first = request_at(10 * s, {submitted(0, 1, 5 * s)});
    view.update(first);
    periodic.begin(view);

    periodic.decide(view);
    CHECK(view.timers() == std::map<std::int64_t, Micros>{{1, 30 * s}});
    CHECK(started(view).empty());
    periodic.decide(view);
    CHECK(view.take_decisions().empty());  // one timer will do

    auto then = request_at(30 * s, {parley::TimerFired{30 * s, 1}});
    view.update(then);
    periodic.decide(view);
    CHECK(started(view) == Numbers{0});
}

TEST_CASE("overdue jobs are killed in the order of their numbers, before anything else") {
    View view(welcome_to({{"nodes", 0, 3, {{"core", 1}}}}));
    auto first = request_at(0, {submitted(0, 1, 20 * s), submitted(1, 1, 10 * s),
                                submitted(2, 1, 21 * s), submitted(3, 1, {})});
    view.update(first);
    while (view.queue().head() != nullptr) view.start(*view.queue().head());
    (void)view.take_decisions();
    auto then = request_at(20 * s, {});
    view.update(then);
    parley::KillOverdue policy(std::make_unique<Easy>());

    policy.decide(view);

    std::vector<std::int64_t> killed;
    for (const parley::Decision& decision : view.take_decisions()) {
        killed.push_back(std::get<parley::Kill>(decision).job);
    }
    CHECK(killed == Numbers{0, 1});
}
