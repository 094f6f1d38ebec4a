// A worker's part in a team, where messages of the coordinator are lost or late.
#include "worker/session/team_member.h"

#include <string>

#include "common/wire/messages/team.h"
#include "tests/catch.h"

namespace capstan::session {
namespace {

constexpr Instant kNow = std::chrono::seconds(100);

// A worker that has asked for teams, so many times.
TeamMember Forming(int times) {
  TeamMember member(PeerId{1}, 7);
  Outbox out;
  for (int i = 0; i < times; ++i) member.Form({0, 0, static_cast<std::uint64_t>(i + 1)}, SessionId{3}, kNow, &out);
  return member;
}

TeamState FailureOf(std::uint64_t team, std::uint64_t forming) {
  TeamState state;
  state.team = team;
  state.forming = forming;
  state.failure = Code::kUnreachable;
  state.message = "rank 1 of 2 is lost";
  return state;
}

std::vector<TeamFailed> Failures(TeamMember* member, const TeamState& state) {
  Outbox out;
  member->Handle(state, SessionId{3}, kNow, &out);
  std::vector<TeamFailed> failures;
  for (TeamEvent& event : member->TakeEvents()) {
    if (auto* failed = std::get_if<TeamFailed>(&event)) failures.push_back(std::move(*failed));
  }
  return failures;
}

TEST_CASE("a member that waits for its team learns of the failure of the one that it is in", "[client][team]") {
  TeamMember member = Forming(1);  // the TeamState with its place was lost
  const std::vector<TeamFailed> failures = Failures(&member, FailureOf(77, 1));
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].status.code() == Code::kUnreachable);
  CHECK(failures[0].status.message() == "rank 1 of 2 is lost");
  CHECK(failures[0].wish == 1);
}

TEST_CASE("a member that waits for another team does not fail with the one before", "[client][team]") {
  TeamMember member = Forming(2);
  CHECK(Failures(&member, FailureOf(77, 1)).empty());
  CHECK(Failures(&member, FailureOf(78, 2)).size() == 1);
}

TEST_CASE("a member of a team does not fail with another team", "[client][team]") {
  TeamMember member = Forming(1);
  TeamState formed;
  formed.team = 78;
  formed.forming = 1;
  formed.rank = 1;
  formed.ranks = 2;
  Outbox out;
  member.Handle(formed, SessionId{3}, kNow, &out);
  CHECK(Failures(&member, FailureOf(77, 1)).empty());
  CHECK(Failures(&member, FailureOf(78, 1)).size() == 1);
}

}  // namespace
}  // namespace capstan::session
