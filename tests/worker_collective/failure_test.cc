// How groups end when a member does not come, leaves or aborts.
#include "tests/worker_collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST_CASE("a barrier that one rank never reaches ends at its deadline and names the missing rank, on all that wait",
          "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  Groups groups(kind, 4);
  const Clock::time_point before = Clock::now();
  const std::vector<Status> statuses =
      groups.Run([](Group& group) { return group.rank() == 2 ? Status() : group.Barrier(In(milliseconds(300))); });
  CHECK(Clock::now() - before >= milliseconds(300));
  for (const int rank : {0, 1, 3}) {
    const Status& status = statuses[static_cast<std::size_t>(rank)];
    INFO(kind << ", rank " << rank << ": " << status.ToString());
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(),
               Contains("rank 2 (w-2)") && !Contains("rank 0") && !Contains("rank 1") && !Contains("rank 3"));
  }
}

TEST_CASE("calls after a failure return the first failure at once, also in groups that were split off",
          "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 3);
  std::vector<std::string> first(3), later(3), of_half(3);
  groups.Run([&](Group& group) {
    const auto place = static_cast<std::size_t>(group.rank());
    CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Group> half, group.Split({0, 1}));
    if (group.rank() == 2) return Status();
    std::vector<float> data(1000);
    first[place] = group.AllReduce(data, In(milliseconds(200))).ToString();
    later[place] = group.Barrier(In(kPatience)).ToString();
    of_half[place] = half->Barrier(In(kPatience)).ToString();
    return Status();
  });
  for (const std::size_t rank : {0u, 1u}) {
    CHECK_THAT(first[rank], Contains("timeout") && Contains("rank 2"));
    CHECK(later[rank] == first[rank]);
    CHECK(of_half[rank] == first[rank]);
  }
}

TEST_CASE("an abort from another thread ends a blocked call, and those of the other ranks, by name", "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  Groups groups(kind, 3);
  Guarded<int> waiting;
  std::thread aborter([&] {
    waiting.AwaitUntil(In(kPatience), [](int count) { return count == 2; });
    groups[0].Abort();
  });
  const std::vector<Status> statuses = groups.Run([&](Group& group) {
    if (group.rank() == 2) return Status();  // so that the others wait
    waiting.Change([](int& count) { ++count; });
    std::vector<float> data(100000);
    return group.AllReduce(data, In(kPatience));
  });
  aborter.join();
  for (const std::size_t rank : {0u, 1u}) {
    INFO(kind << ", rank " << rank << ": " << statuses[rank].ToString());
    CHECK(statuses[rank].code() == Code::kUnreachable);
    CHECK_THAT(statuses[rank].message(), Contains("aborted by rank 0 (w-0)"));
  }
}

TEST_CASE("a rank that comes late, but in time, is waited for", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 3);
  Guarded<int> waiting;
  groups.RunWell([&](Group& group) {
    if (group.rank() == 1) waiting.AwaitUntil(In(milliseconds(300)), [](int) { return false; });
    return group.Barrier(In(kPatience));
  });
}

TEST_CASE("ranks that call something else do not get each other's numbers", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 2);
  const std::vector<Status> statuses = groups.Run([](Group& group) {
    std::vector<float> data(group.rank() == 0 ? 1000 : 1001);
    return group.AllReduce(data, In(milliseconds(200)));
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("all members answer") && Contains("arrays of one size"));
  }
}

TEST_CASE("a mesh that not all ranks come to is not formed, and says who is missing", "[collective]") {
  InProcessRendezvous rendezvous(3, NameOfTestRank);
  std::vector<Status> statuses(2);
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 3, "127.0.0.1", NameOfTestRank}, &rendezvous, In(milliseconds(200))).status();
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("rank 2 (w-2)") && !Contains("rank 0") && !Contains("rank 1"));
  }
}

TEST_CASE("an address that is not of this machine is refused by name", "[collective]") {
  InProcessRendezvous rendezvous(2);
  const Status status = CreateGlooMesh({0, 2, "192.0.2.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kUnreachable);
  CHECK_THAT(status.message(), Contains("192.0.2.1"));
  CHECK(CreateGlooMesh({2, 2, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status().code() == Code::kInvalid);
}

}  // namespace
}  // namespace capstan::collective
