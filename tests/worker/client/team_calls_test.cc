// A client's collective calls: what a member may give, and which events belong to the team that was asked for.
#include "worker/client/team_calls.h"

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace capstan::client {
namespace {

using Catch::Matchers::Contains;

// Calls of a team of two, in which this worker has a rank. What the session answers is put into `events` before.
struct Harness {
  Harness()
      : calls({.check = [] { return Status(); },
               .wait = [this](Collectives::Deadline) { return HandleNext(); },
               .look = [] { return Status(); },
               .command = [](const session::Command&) {},
               .finished = [] { return false; }}) {}

  Status HandleNext() {
    if (events.empty()) return Timeout("no event came");
    session::TeamEvent event = std::move(events.front());
    events.pop_front();
    std::visit([this](auto& one) { calls.On(one); }, event);
    return {};
  }
  void Form(std::uint32_t rank) {
    events.push_back(session::TeamFormed{rank, 2, 1});
    REQUIRE(calls.FormTeam(std::nullopt, {}).value().rank == rank);
  }
  // The call's only piece; a member gives `counts` numbers, by rank.
  void Brings(const std::array<std::size_t, 2>& counts) {
    session::TeamPieces pieces;
    pieces.call = 1;
    pieces.is_last = true;
    for (const std::size_t count : counts) {
      given.emplace_back(count, 1.0F);
      pieces.bytes.push_back(count * sizeof(float));
      pieces.parts.push_back({{}, reinterpret_cast<const std::byte*>(given.back().data()), count * sizeof(float)});
    }
    events.push_back(std::move(pieces));
  }

  std::deque<session::TeamEvent> events;
  std::deque<std::vector<float>> given;
  TeamCalls calls;
};

TEST_CASE("a member that gives another size than the others fails the reduction, and is named", "[client][team]") {
  for (const std::uint32_t other : {0U, 1U}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{4000}}) {
      Harness harness;
      harness.Form(1 - other);
      std::array<std::size_t, 2> counts = {2, 2};
      counts.at(other) = count;
      harness.Brings(counts);
      std::array<float, 2> values = {7.0F, 7.0F};
      const Status status = harness.calls.AllReduce(values.data(), 2, NumberType::kFloat32, Reduction::kSum, {});
      CHECK(status.code() == Code::kInvalid);
      CHECK_THAT(status.message(), Contains("rank " + std::to_string(other) + " gives another size"));
      CHECK(values == std::array<float, 2>{7.0F, 7.0F});
    }
  }
}

TEST_CASE("a root that gives another size than was asked for fails the broadcast, and is named", "[client][team]") {
  Harness harness;
  harness.Form(1);
  harness.Brings({4000, 0});
  std::array<float, 2> values = {};
  const Status status = harness.calls.Broadcast(values.data(), sizeof values, 0, {});
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("rank 0 gives another size"));
}

TEST_CASE("what came of an earlier wish for a team does not end the present one", "[client][team]") {
  Harness harness;
  harness.events.push_back(session::TeamFailed{Unreachable("lost"), 1});
  CHECK(harness.calls.FormTeam(std::nullopt, {}).status().code() == Code::kUnreachable);
  harness.events.push_back(session::TeamFailed{Unreachable("lost"), 1});
  harness.events.push_back(session::TeamFormed{0, 3, 1});
  harness.events.push_back(session::TeamFormed{1, 2, 2});
  const Result<TeamPlace> place = harness.calls.FormTeam(std::nullopt, {});
  REQUIRE(place.ok());
  CHECK(place->rank == 1);
  CHECK(place->ranks == 2);
}

}  // namespace
}  // namespace capstan::client
