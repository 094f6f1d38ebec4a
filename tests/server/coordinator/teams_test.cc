// Teams at the coordinator: questions of workers that come again or late.
#include "server/coordinator/teams.h"

#include <string>
#include <vector>

#include "common/wire/messages/team.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

// Two workers that ask a coordinator for teams.
class TeamsHarness {
 public:
  TeamsHarness() {
    for (const std::uint64_t number : {1U, 2U}) {
      Worker worker;
      worker.session = SessionId{number};
      worker.name = "w" + std::to_string(number);
      worker.nonce = 100 + number;
      worker.peer = PeerId{1000 + number};
      members_.Add(std::move(worker));
    }
  }
  // The worker's wish for a team comes; returns what the coordinator sends to all.
  std::vector<TeamState> Asks(std::uint64_t worker, std::uint64_t forming) {
    TeamAsk ask;
    ask.session = SessionId{worker};
    ask.nonce = 100 + worker;
    ask.forming = forming;
    Outbox out;
    (void)teams_.Handle(*members_.Find(SessionId{worker}), ask, {members_, Term{1}, 2, 2, true}, &out);
    std::vector<TeamState> states;
    for (const Envelope& envelope : out.envelopes) states.push_back(*envelope.message.header.As<TeamState>());
    return states;
  }
  // Whether these are the answers with which a team of both has formed.
  static bool Formed(const std::vector<TeamState>& states, std::uint64_t forming) {
    if (states.size() < 2) return false;
    return states[0].team != 0 && states[0].ranks == 2 && states[0].forming == forming &&
           states[0].failure == Code::kOk;
  }

 private:
  Membership members_;
  Teams teams_;
};

TEST_CASE("a wish that comes again when its team has formed does not count as a wish for another one",
          "[server][team]") {
  TeamsHarness harness;
  CHECK_FALSE(TeamsHarness::Formed(harness.Asks(1, 1), 1));
  const std::vector<TeamState> first = harness.Asks(2, 1);
  REQUIRE(TeamsHarness::Formed(first, 1));
  const std::vector<TeamState> again = harness.Asks(1, 1);
  REQUIRE(again.size() == 1);
  CHECK(again[0].team == first[0].team);
  CHECK(again[0].waiting == 0);
  CHECK(harness.Asks(2, 1).at(0).team == first[0].team);  // both again: still no other team
  (void)harness.Asks(1, 2);
  const std::vector<TeamState> second = harness.Asks(2, 2);
  REQUIRE(TeamsHarness::Formed(second, 2));
  CHECK(second[0].team != first[0].team);
}

TEST_CASE("a late copy of an earlier wish does not take the place of the present one", "[server][team]") {
  TeamsHarness harness;
  (void)harness.Asks(1, 2);
  CHECK(harness.Asks(1, 1).empty());
  CHECK(TeamsHarness::Formed(harness.Asks(2, 2), 2));
  CHECK(harness.Asks(1, 1).empty());  // it is in the team of its second wish
}

}  // namespace
}  // namespace capstan::server
