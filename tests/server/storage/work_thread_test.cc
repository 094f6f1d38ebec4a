#include "server/storage/work_thread.h"

#include <vector>

#include "tests/catch.h"

namespace capstan::server {
namespace {

TEST_CASE("what waits when a thread ends still comes to its task, which sees that it is the end", "[server][storage]") {
  std::vector<int> seen;
  int woken = 0;
  {
    WorkThread<int, int> thread(
        "test", 16,
        [&](int&& work, const std::atomic<bool>& stopping) -> std::optional<int> {
          while (!stopping.load()) std::this_thread::yield();
          seen.push_back(work);
          if (work == 2) return std::nullopt;  // given up
          return work;
        },
        [&] { ++woken; });
    for (int i = 1; i <= 3; ++i) REQUIRE(thread.Submit(int{i}).ok());
  }
  CHECK(seen == std::vector<int>{1, 2, 3});
  CHECK(woken == 0);
}

}  // namespace
}  // namespace capstan::server
