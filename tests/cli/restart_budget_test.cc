#include "cli/launch/restart_budget.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using LastRun = RestartBudget::LastRun;

const RestartBudget::TimePoint kStart{};

TEST_CASE("a process is started again so many times within an hour, and then again when the hour is over",
          "[cli][restarts]") {
  RestartBudget budget(3);
  for (int i = 0; i < 3; ++i) CHECK(budget.Next(kStart + minutes(10 * i), LastRun::kOfUse));
  CHECK(budget.count() == 3);
  CHECK_FALSE(budget.Next(kStart + minutes(59), LastRun::kOfUse));
  CHECK(budget.Next(kStart + minutes(60), LastRun::kOfUse));
  CHECK_FALSE(budget.Next(kStart + minutes(69), LastRun::kOfUse));
  CHECK(budget.Next(kStart + minutes(70), LastRun::kOfUse));
}

TEST_CASE("deaths that are far apart never use the budget up", "[cli][restarts]") {
  RestartBudget budget(1);
  for (int i = 0; i < 1000; ++i) REQUIRE(budget.Next(kStart + hours(i), LastRun::kOfUse));
  CHECK(budget.count() == 1);
}

TEST_CASE("without a budget nothing is started again", "[cli][restarts]") {
  CHECK_FALSE(RestartBudget(0).Next(kStart, LastRun::kOfUse));
}

TEST_CASE("the wait doubles while lives are of no use, up to its longest, and begins again after one of use",
          "[cli][restarts]") {
  RestartBudget budget(100);
  milliseconds wanted = RestartBudget::kFirstWait;
  for (int i = 0; i < 12; ++i) {
    CHECK(budget.Next(kStart, LastRun::kOfNoUse) == kStart + wanted);
    wanted = std::min(2 * wanted, RestartBudget::kLongestWait);
  }
  CHECK(wanted == RestartBudget::kLongestWait);
  CHECK(budget.Next(kStart, LastRun::kOfUse) == kStart + RestartBudget::kFirstWait);
  CHECK(budget.Next(kStart, LastRun::kOfNoUse) == kStart + 2 * RestartBudget::kFirstWait);
}

}  // namespace
}  // namespace capstan::cli
