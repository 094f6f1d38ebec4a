// How groups end when a member does not join, leaves or aborts.
#include "tests/worker/collective/gated_mesh.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Groups GatedGroups(const std::string& kind, int ranks, Gate* gate) {
  std::vector<std::shared_ptr<Mesh>> meshes;
  for (auto& mesh : CreateMeshes(kind, ranks)) meshes.push_back(std::make_shared<GatedMesh>(std::move(mesh), gate));
  return Groups(std::move(meshes));
}

TEST_CASE("a barrier that one rank never reaches ends at its deadline and names the missing rank, on all that wait",
          "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const int ranks = GENERATE(4, 9);
  Gate gate;
  Groups groups = GatedGroups(kind, ranks, &gate);
  groups.RunWell([](Group& group) { return group.Barrier(In(kPatience)); });
  gate.Await(ranks - 1);
  const Clock::time_point deadline = In(milliseconds(100));  // all members query at once, when all have arrived
  const std::vector<Status> statuses =
      groups.Run([&](Group& group) { return group.rank() == 2 ? Status() : group.Barrier(deadline); });
  CHECK(Clock::now() >= deadline);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 2) continue;
    const Status& status = statuses[static_cast<std::size_t>(rank)];
    INFO(kind << ", rank " << rank << " of " << ranks << ": " << status.ToString());
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("missing in it: rank 2 (w-2);"));
  }
}

TEST_CASE("what a failed call was to fill is not touched any more when the others come after all", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 2);
  Guarded<bool> has_failed;
  const std::vector<float> mine(1000, -1.0F);
  std::vector<float> filled(1000);
  const std::vector<Status> statuses = groups.Run([&](Group& group) {
    if (group.rank() == 1) {
      has_failed.AwaitUntil(In(kPatience), [](bool failed) { return failed; });
      std::vector<float> data(1000, 7.0F);
      return group.Broadcast(data, 1, In(kPatience));
    }
    const Status status = group.Broadcast(filled, 1, In(milliseconds(100)));
    filled = mine;
    has_failed.Change([](bool& failed) { failed = true; });
    return status;
  });
  CHECK_THAT(statuses[0].message(), Contains("missing in it: rank 1 (w-1);"));
  CHECK_FALSE(statuses[1].ok());
  CHECK(filled == mine);
}

TEST_CASE("calls after a failure return the first failure at once", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 3);
  std::vector<std::string> first(3), later(3);
  groups.Run([&](Group& group) {
    const auto place = static_cast<std::size_t>(group.rank());
    if (group.rank() == 2) return Status();
    std::vector<float> data(1000);
    first[place] = group.AllReduce(data, In(milliseconds(200))).ToString();
    later[place] = group.Barrier(In(kPatience)).ToString();
    return Status();
  });
  for (const std::size_t rank : {0u, 1u}) {
    CHECK_THAT(first[rank], Contains("timeout") && Contains("rank 2"));
    CHECK(later[rank] == first[rank]);
  }
}

TEST_CASE("an abort from another thread ends a blocked call, and those of the other ranks, by name", "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const bool is_itself_in_it = GENERATE(true, false);
  Groups groups(kind, 3);
  Guarded<int> waiting;
  std::thread aborter([&] {
    waiting.AwaitUntil(In(kPatience), [&](int count) { return count == (is_itself_in_it ? 2 : 1); });
    groups[0].Abort();
  });
  const std::vector<Status> statuses = groups.Run([&](Group& group) {
    if (group.rank() == 2 || (group.rank() == 0 && !is_itself_in_it)) return Status();  // so that the others wait
    waiting.Change([](int& count) { ++count; });
    std::vector<float> data(100000);
    return group.AllReduce(data, In(kPatience));
  });
  aborter.join();
  for (const std::size_t rank : {0u, 1u}) {
    if (rank == 0 && !is_itself_in_it) continue;
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
  Gate gate;
  Groups groups = GatedGroups(GENERATE(from_range(kKinds)), 2, &gate);
  gate.Await(2);
  const std::vector<Status> statuses = groups.Run([](Group& group) {
    std::vector<float> data(group.rank() == 0 ? 1000 : 1001);
    return group.AllReduce(data, In(milliseconds(100)));
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("all members answer") && Contains("arrays of one size"));
  }
}

}  // namespace
}  // namespace capstan::collective
