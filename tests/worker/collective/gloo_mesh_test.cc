// How a mesh over Gloo is formed, and why forming it may fail.
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;

// A rendezvous that ranks 0 and 1 of three use. Both have given their bytes before the deadline of either can pass, so
// only rank 2 is missing.
class BothCome : public Rendezvous {
 public:
  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    static_cast<void>(all_.Exchange(rank, bytes, Clock::now()));
    come_.Change([](int& come) { ++come; });
    come_.AwaitUntil(In(kPatience), [](int come) { return come == 2; });
    return all_.Exchange(rank, std::move(bytes), deadline);
  }

 private:
  InProcessRendezvous all_{3, NameOfTestRank};
  Guarded<int> come_;
};

TEST_CASE("a mesh that not all ranks come to is not formed, and says who is missing", "[collective]") {
  BothCome rendezvous;
  std::vector<Status> statuses(2);
  const Deadline deadline = In(std::chrono::milliseconds(100));
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 3, "127.0.0.1", NameOfTestRank}, &rendezvous, deadline).status();
  });
  CHECK(Clock::now() >= deadline);
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
