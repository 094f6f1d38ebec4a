#include "server/coordinator/membership.h"

#include <algorithm>
#include <set>

#include "common/base/random.h"
#include "server/coordinator/slot_assignment.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

using Slots = std::vector<SlotIndex>;

TEST_CASE("slots are dealt fairly, each once, earlier workers first", "[server][slots]") {
  CHECK(AssignSlots({{}, {}}, 5) == std::vector<Slots>{{0, 1, 2}, {3, 4}});
  CHECK(AssignSlots({{}, {}, {}}, 2) == std::vector<Slots>{{0}, {1}, {}});
  CHECK(AssignSlots({}, 5).empty());
  CHECK(AssignSlots({{}}, 3) == std::vector<Slots>{{0, 1, 2}});
}

TEST_CASE("a worker keeps what it has as far as its share goes", "[server][slots]") {
  CHECK(AssignSlots({{3, 4}, {0, 1, 2}}, 5) == std::vector<Slots>{{2, 3, 4}, {0, 1}});
  CHECK(AssignSlots({{0, 1, 2, 3}, {}}, 4) == std::vector<Slots>{{0, 1}, {2, 3}});
  CHECK(AssignSlots({{1, 1, 9}, {1}}, 2) == std::vector<Slots>{{1}, {0}});  // no doubled or unknown slot is kept
}

TEST_CASE("any deal is complete, disjoint, fair and sorted, and moves no more than it must", "[server][slots]") {
  RandomStream random(8);
  std::vector<Slots> owned;
  for (int round = 0; round < 2000; ++round) {
    const auto slot_count = static_cast<SlotIndex>(1 + random.Below(12));
    if (random.Below(3) == 0) owned.clear();
    owned.resize(1 + random.Below(6));
    const std::vector<Slots> before = owned;
    owned = AssignSlots(owned, slot_count);
    REQUIRE(owned.size() == before.size());
    std::set<SlotIndex> seen;
    for (std::size_t i = 0; i < owned.size(); ++i) {
      REQUIRE(std::is_sorted(owned[i].begin(), owned[i].end()));
      REQUIRE(owned[i].size() == slot_count / owned.size() + (i < slot_count % owned.size() ? 1 : 0));
      for (SlotIndex slot : owned[i]) REQUIRE(seen.insert(slot).second);
      std::size_t had = 0, kept = 0;
      for (SlotIndex slot : before[i]) had += slot < slot_count ? 1 : 0;
      for (SlotIndex slot : owned[i]) kept += std::count(before[i].begin(), before[i].end(), slot) != 0 ? 1 : 0;
      REQUIRE(kept == std::min(had, owned[i].size()));
    }
    REQUIRE(seen.size() == slot_count);
    REQUIRE(*seen.rbegin() == slot_count - 1);
  }
}

Worker Named(const std::string& name, std::uint64_t session, Instant last_message = {}) {
  Worker worker;
  worker.name = name;
  worker.session = SessionId{session};
  worker.last_message = last_message;
  return worker;
}

TEST_CASE("members are found by name and session, and silence ends a lease", "[server][membership]") {
  using std::chrono::seconds;
  Membership members;
  members.Add(Named("a", 1, seconds(0)));
  members.Add(Named("b", 2, seconds(5)));
  REQUIRE(members.Find("b") != nullptr);
  CHECK(members.Find("b")->session == SessionId{2});
  CHECK(members.Find("c") == nullptr);
  CHECK(members.Find(SessionId{1})->name == "a");
  CHECK(members.Find(SessionId{3}) == nullptr);
  CHECK(members.RemoveSilent(seconds(10) - Instant(1), seconds(10)).empty());
  const std::vector<Worker> lost = members.RemoveSilent(seconds(10), seconds(10));
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].name == "a");
  CHECK(members.size() == 1);
  members.RenewAll(seconds(14));
  CHECK(members.RemoveSilent(seconds(20), seconds(10)).empty());
  members.Remove(SessionId{2});
  CHECK(members.size() == 0);
}

TEST_CASE("members are in the order in which they joined, and keep their places when others leave",
          "[server][membership]") {
  Membership members;
  for (const auto& [name, session] : {std::pair{"a", 30}, {"b", 10}, {"c", 20}}) members.Add(Named(name, session));
  const auto names = [&] {
    std::string all;
    for (const auto& [joined, worker] : members.workers()) all += worker.name;
    return all;
  };
  CHECK(names() == "abc");
  CHECK(members.IsSenior(SessionId{30}, SessionId{10}));
  CHECK_FALSE(members.IsSenior(SessionId{20}, SessionId{10}));
  members.Remove(SessionId{30});
  members.Add(Named("a", 5));
  CHECK(names() == "bca");
  CHECK(members.Find(SessionId{30}) == nullptr);
  CHECK(members.Find(SessionId{5})->name == "a");
}

TEST_CASE("a deal counts the slots that moved", "[server][membership]") {
  Membership members;
  members.Add(Named("a", 1));
  CHECK(members.Assign(4) == 4);
  CHECK(members.Assign(4) == 0);
  members.Add(Named("b", 2));
  CHECK(members.Assign(4) == 2);
  CHECK(members.Find(SessionId{1})->slots == Slots{0, 1});
  members.Remove(SessionId{1});
  CHECK(members.Assign(4) == 2);
  CHECK(members.Find(SessionId{2})->slots == Slots{0, 1, 2, 3});
}

}  // namespace
}  // namespace capstan::server
