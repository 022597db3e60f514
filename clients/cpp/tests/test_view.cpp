#include <doctest/doctest.h>

#include "files.hpp"

using parley::View;

namespace {

constexpr parley::Micros s = 1'000'000;

View two_pending() {
    View view(welcome_to({{"nodes", 0, 3, {{"core", 1}}}}));
    auto request = request_at(0, {parley::JobSubmitted{0, job_description(0, 2, 9 * s)},
                                  parley::JobSubmitted{0, job_description(1, 2, 9 * s)}});
    view.update(request);
    return view;
}

parley::Outcome outcome(std::int64_t id, const std::string& code = "",
                        std::optional<parley::Micros> at_us = {}) {
    parley::Outcome told{};
    told.id = id;
    told.status = code.empty() ? "applied" : "rejected";
    if (!code.empty()) told.code = code;
    told.at_us = at_us;
    return told;
}

}  // namespace

TEST_CASE("a decision that was refused is undone, whatever its kind") {
    View view = two_pending();
    const std::string before = view.digest();
    view.start(*view.find(0));
    view.hold(*view.find(1));
    view.release(*view.find(1));
    view.reject(*view.find(1));
    view.cancel(view.call_at(5 * s));
    (void)view.take_decisions();
    CHECK(view.digest() != before);
    auto request = request_at(0, {});
    for (std::int64_t id = 0; id < 6; ++id) request.outcomes.push_back(outcome(id, "of.later"));

    view.update(request);

    CHECK(view.digest() == before);
    CHECK(view.queue().size() == 2);
    CHECK(view.queue().head()->number == 0);
    CHECK(view.rejected().size() == 6);
}

TEST_CASE("a job of which the server knows nothing is not tried again") {
    View view = two_pending();
    view.start(*view.find(0));
    (void)view.take_decisions();
    auto request = request_at(0, {});
    request.outcomes = {outcome(0, "job.not_pending")};

    view.update(request);

    CHECK(view.find(0) == nullptr);
    CHECK(view.queue().size() == 1);
}

TEST_CASE("what takes time takes effect behind the events of its instant") {
    View view = two_pending();
    view.start(*view.find(0));
    (void)view.take_decisions();
    auto request = request_at(
        3 * s, {parley::NodeDown{1 * s, {{0, 3}}}, parley::NodeUp{2 * s, {{0, 3}}}});
    request.outcomes = {outcome(0, "", 2 * s)};

    view.update(request);

    CHECK(view.find(0)->start_us == 2 * s);
    CHECK(view.cluster().available(*view.find(1)->shape) == 2);
}

TEST_CASE("spans that could be one are one, however they are given") {
    View view = two_pending();
    View other = two_pending();

    view.start(*view.find(0), {{1, 1, 1}, {2, 2, 1}});
    other.start(*other.find(0), {{1, 2, 1}});

    CHECK(view.find(0)->spans == parley::Spans{{1, 2, 1}});
    CHECK(view.digest() == other.digest());
}

TEST_CASE("a requeued job has its old place in the queue") {
    View view = two_pending();
    view.start(*view.find(0));
    (void)view.take_decisions();
    auto request = request_at(1 * s, {parley::JobEnded{1 * s, 0, "requeued"}});
    request.outcomes = {outcome(0)};

    view.update(request);

    CHECK(view.queue().head()->number == 0);
    CHECK(view.queue().size() == 2);
}

TEST_CASE("what contradicts what was told before is a drift") {
    View view = two_pending();

    SUBCASE("a job ends that does not run") {
        auto request = request_at(1 * s, {parley::JobEnded{1 * s, 0, "completed"}});
        CHECK_THROWS_AS(view.update(request), parley::Drifted);
    }
    SUBCASE("a job comes twice") {
        auto request = request_at(1 * s, {parley::JobSubmitted{0, job_description(1, 2, 9 * s)}});
        CHECK_THROWS_AS(view.update(request), parley::Drifted);
    }
    SUBCASE("an outcome of nothing that was sent") {
        auto request = request_at(1 * s, {});
        request.outcomes = {outcome(0, "job.unknown")};
        CHECK_THROWS_AS(view.update(request), parley::Drifted);
    }
}

TEST_CASE("a job that is not what a decision is for is refused on the spot") {
    View view = two_pending();
    CHECK_THROWS_AS(view.kill(*view.find(0)), parley::Error);
    CHECK_THROWS_AS(view.release(*view.find(0)), parley::Error);
    view.start(*view.find(0));
    CHECK_THROWS_AS(view.start(*view.find(0)), parley::Error);
    CHECK_THROWS_AS(view.cancel(7), parley::Error);
}

TEST_CASE("jobs leave the queue anywhere and keep their order, however many") {
    View view(welcome_to({{"nodes", 0, 0, {{"core", 1}}}}));
    std::vector<parley::Event> events;
    for (std::int64_t number = 0; number < 500; ++number) {
        events.push_back(parley::JobSubmitted{0, job_description(number, 1, s)});
    }
    auto request = request_at(0, std::move(events));
    view.update(request);
    std::vector<std::int64_t> left;
    for (std::int64_t number = 0; number < 500; ++number) {
        if (number * 7 % 5 != 0) {
            view.reject(*view.find(number));
        } else {
            left.push_back(number);
        }
    }
    (void)view.take_decisions();
    auto then = request_at(s, {parley::JobSubmitted{0, job_description(500, 1, s)}});
    for (std::int64_t id = 0; id < 400; ++id) then.outcomes.push_back(outcome(id));

    view.update(then);

    left.push_back(500);
    std::vector<std::int64_t> queued;
    for (const parley::Job& job : view.queue()) queued.push_back(job.number);
    CHECK(queued == left);
    CHECK(view.queue().size() == left.size());
}
