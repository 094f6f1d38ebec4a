// How the workers of a generation connect, and how a version gets from one of them to the others.
#include "worker/allreduce/connect_group.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "common/config/job_config.h"
#include "common/wire/messages/group.h"
#include "tests/catch.h"
#include "worker/allreduce/member_patience.h"
#include "worker/collective/rendezvous.h"
#include "worker/collective/secure_mesh.h"

namespace capstan::train {
namespace {

using Clock = std::chrono::steady_clock;
using collective::CollectiveThread;
using std::chrono::seconds;

EditableJobConfig Config() {
  return ParseJobConfig(
             "[job]\nmode = \"allreduce\"\nsteps = 5\nglobal_batch = 4\nslots = 1\n[model]\nkind = \"mlp\"\n[data]\n"
             "kind = \"synthetic\"\n[optimizer]\nkind = \"momentum\"\n",
             "test")
      .value();
}

Instant Soon() { return Clock::now().time_since_epoch() + seconds(15); }

// Two workers in one process. Every number of a worker's replica is its rank plus 1.
class TwoWorkers {
 public:
  TwoWorkers() {
    for (int rank : {0, 1}) {
      replicas.push_back(std::make_unique<Replica>(catalog_, config_));
      for (std::size_t i = 0; i < 2; ++i) std::ranges::fill(replicas.back()->array(i), static_cast<float>(rank + 1));
    }
  }
  Result<std::unique_ptr<CollectiveThread>> Connect(int rank) {
    ConnectOptions options;
    options.create_mesh = collective::CreateSecureMesh;
    options.host = "127.0.0.1";
    options.exchange = [this, rank](std::string address) {
      return addresses_.Exchange(rank, std::move(address), Clock::now() + seconds(15));
    };
    return ConnectGroup({{{"w0", ""}, {"w1", ""}}, rank, Soon()}, options);
  }
  // Connects the worker `rank`, which then sends its version (rank 1) or receives that version (rank 0).
  std::future<Status> Share(
      int rank, std::function<Status()> look_up = [] { return Status(); }) {
    return std::async(std::launch::async, [this, rank, look_up]() -> Status {
      CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveThread> group, Connect(rank));
      const Status status =
          ShareReplica({1, rank == 0, Soon()}, look_up, group.get(), replicas[std::size_t(rank)].get());
      if (!status.ok()) group->Abort();
      return status;
    });
  }

  std::vector<std::unique_ptr<Replica>> replicas;

 private:
  const JobConfig config_ = Config();
  const Catalog catalog_ = Catalog::Create({{"a", {8}, {InitKind::kZeros, 0.0F}, true}}).value();
  collective::InProcessRendezvous addresses_{2};
};

TEST_CASE("a member's version replaces the one of a member that has none", "[train][replica]") {
  TwoWorkers two;
  auto one = two.Share(0), other = two.Share(1);
  REQUIRE(one.get().ok());
  REQUIRE(other.get().ok());
  for (std::size_t i = 0; i < 2; ++i) CHECK(two.replicas[0]->array(i)[7] == 2.0F);
}

TEST_CASE("a worker that waits for the version hears that its generation is over", "[train][replica]") {
  TwoWorkers two;
  std::promise<void> go_on;
  auto paused = std::async(std::launch::async, [&]() -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<CollectiveThread> group, two.Connect(1));
    go_on.get_future().wait();
    return {};
  });
  std::atomic<int> looks{0};
  auto waits = two.Share(0, [&] { return ++looks < 5 ? Status() : Status(Code::kStale, "the round is over"); });
  const bool heard = waits.wait_for(seconds(20)) == std::future_status::ready;
  go_on.set_value();
  CHECK(heard);
  CHECK(waits.get().code() == Code::kStale);
  CHECK(paused.get().ok());
}

TEST_CASE("a version is waited for as long as a slow line may take", "[train][replica]") {
  CHECK(ShareMax(1000) >= seconds(600));
  constexpr std::uint64_t kOfSevenBillion = std::uint64_t{84} << 30;  // weights and the two states of adamw
  constexpr std::uint64_t kGigabitLine = std::uint64_t{100} << 20;    // bytes per second
  CHECK(ShareMax(kOfSevenBillion) > 2 * seconds(kOfSevenBillion / kGigabitLine));
}

}  // namespace
}  // namespace capstan::train
