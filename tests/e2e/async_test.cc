// Mode async over real sockets: nobody is held up by a slow worker, and no pull ever sees half of an update.
#include <capstan/client.h>

#include <atomic>
#include <future>
#include <vector>

#include "common/job/cluster_section.h"
#include "common/job/job_section.h"
#include "common/job/limits_section.h"
#include "common/job/optimizer_section.h"
#include "common/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

namespace capstan {
namespace {

using e2e::InProcessJob;

constexpr std::uint32_t kSlots = 4;
constexpr std::uint64_t kSteps = 12;

JobConfig MakeConfig(std::uint32_t shards) {
  JobConfig config;
  config.job.mode = Mode::kAsync;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = kSlots;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.05;
  config.cluster.servers = shards;
  config.cluster.workers = config.cluster.min_workers = kSlots;
  config.limits.join = config.limits.stall = 60;
  return config;
}

// Two and a half blocks, and a small tensor.
WorkerDescription Describe() {
  WorkerDescription description;
  description.tensors = {{"large", {5, 131072}}, {"small", {7}}};
  return description;
}

struct Observed {
  Status status;
  std::vector<double> losses;  // of 1/2 (w - 1)^2 at the first weight
  std::uint64_t torn_blocks = 0;
};

// Every weight of a tensor starts at 0 and gets the same gradient w - 1, so within a block all weights are always
// equal: a pull that saw half of an update would show two values.
Observed Train(const std::string& coordinator, const std::string& name, const std::function<void()>& before_slot) {
  Observed observed;
  Result<std::unique_ptr<Client>> connected =
      Client::Connect({.coordinator = coordinator, .worker = name, .on_notice = {}});
  observed.status = connected.status();
  if (!observed.status.ok()) return observed;
  Client& client = **connected;
  observed.status = client.Declare(Describe());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (observed.status.ok()) {
    Result<std::optional<Work>> work = client.NextWork(deadline);
    observed.status = work.status();
    if (!work.ok() || !*work) return observed;
    before_slot();
    float* gradient = client.BeginSlot((**work).slots.front(), 1).value();
    if (!client.WaitWeights(0, 1, deadline).ok()) continue;
    const float* weights = client.weights();
    for (std::uint64_t block = 0; block < 5 * 131072; block += kBlockElements) {
      const std::uint64_t end = std::min<std::uint64_t>(block + kBlockElements, 5 * 131072);
      for (std::uint64_t i = block; i < end; ++i) {
        if (weights[i] != weights[block]) {
          ++observed.torn_blocks;
          break;
        }
      }
    }
    for (std::uint64_t i = 0; i < client.element_count(); ++i) gradient[i] = weights[i] - 1.0F;
    observed.losses.push_back(0.5 * (weights[0] - 1.0) * (weights[0] - 1.0));
    observed.status = client.GradientReady(0, 1);  // not a CHECK: the runner belongs to the main thread
    (void)client.EndSlot((**work).slots.front(), {.loss_sum = observed.losses.back(), .predictions = 1}).ok();
  }
  return observed;
}

}  // namespace

TEST_CASE("async: three workers finish all their steps while the fourth stands still", "[e2e][async]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  job.StartShard(1);
  std::atomic<std::uint64_t> computed_by_fast{0};
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::vector<std::future<Observed>> workers;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const std::function<void()> before = i == 0 ? std::function<void()>([released] { released.wait(); }) : [&] {
      // The last of the fast ones' steps lets the slow one go.
      if (++computed_by_fast == (kSlots - 1) * kSteps) release.set_value();
    };
    workers.push_back(std::async(std::launch::async, Train, job.address(), "w" + std::to_string(i), before));
  }
  std::uint64_t rounds = 0;
  for (std::future<Observed>& worker : workers) {
    const Observed observed = worker.get();
    INFO(observed.status.message());
    CHECK(observed.status.ok());
    CHECK(observed.torn_blocks == 0);
    rounds += observed.losses.size();
    REQUIRE(!observed.losses.empty());
    CHECK(observed.losses.back() <= observed.losses.front());
  }
  CHECK(rounds >= kSlots * kSteps);
  REQUIRE(job.WaitForEnds(3));
  CHECK(job.coordinator->outcome().ok());
}

}  // namespace capstan
