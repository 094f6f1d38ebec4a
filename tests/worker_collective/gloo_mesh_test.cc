// How a mesh between processes is formed, or not.
#include "tests/worker_collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a mesh that not all ranks come to is not formed, and says who is missing", "[collective]") {
  InProcessRendezvous rendezvous(3, NameOfTestRank);
  std::vector<Status> statuses(2);
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 3, "127.0.0.1", NameOfTestRank}, &rendezvous, In(std::chrono::seconds(1))).status();
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("rank 2 (w-2)") && !Contains("rank 0") && !Contains("rank 1"));
  }
}

TEST_CASE("addresses of too few ranks are refused by their number", "[collective]") {
  struct Forgetful : Rendezvous {
    Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
      return std::vector<std::string>{bytes};
    }
  } rendezvous;
  const Status status = CreateGlooMesh({0, 3, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("1 of them to 3 ranks"));
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
