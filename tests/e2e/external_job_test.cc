// Jobs whose optimizer stays in the program: programs with a momentum of their own, on threads of this process.
// Whatever joins or leaves, the final weights have the same bits.
#include <capstan/client.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using e2e::InProcessJob;

constexpr std::int64_t kElements = 300'000;  // two blocks, one on each shard
constexpr std::uint64_t kSteps = 24;
const auto kPatience = std::chrono::seconds(60 * testing::Patience());

EditableJobConfig MakeConfig() {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = 3;
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.kind = OptimizerKind::kExternal;
  config.optimizer.states = 1;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 60 * testing::Patience();
  config.limits.lease = 20 * testing::Patience();  // only a pause of the machine could exceed it
  config.snapshot.every_steps = 5;
  return config;
}

// A program: weights w, momentum m = 0.5 m + g, w -= m / (1 + its number of steps).
struct Program {
  std::vector<float> weights, momentum;
  std::uint64_t steps = 0;
  std::map<VersionSource, int> sources;  // how many rounds brought their version in each way
  int kept = 0;

  std::string State() const {
    std::string state(reinterpret_cast<const char*>(&steps), sizeof steps);
    return state.append(reinterpret_cast<const char*>(momentum.data()), momentum.size() * sizeof(float));
  }
  void Load(const float* values, const std::string& state) {
    weights.assign(values, values + kElements);
    momentum.assign(kElements, 0.0F);
    steps = 0;
    if (state.empty()) return;
    REQUIRE(state.size() == sizeof steps + kElements * sizeof(float));
    std::memcpy(&steps, state.data(), sizeof steps);
    std::memcpy(momentum.data(), state.data() + sizeof steps, kElements * sizeof(float));
  }
  void Step(const float* gradient) {
    const float rate = 1.0F / static_cast<float>(1 + ++steps);
    for (std::int64_t i = 0; i < kElements; ++i) {
      momentum[i] = 0.5F * momentum[i] + gradient[i];
      weights[i] -= rate * momentum[i];
    }
  }
};

using AtStep = std::function<bool(std::uint64_t step)>;  // returns whether the program goes on

std::unique_ptr<Client> Connect(const InProcessJob& job, const std::string& name) {
  ClientOptions options;
  options.coordinator = job.address();
  options.worker = name;
  options.on_notice = nullptr;
  std::unique_ptr<Client> client = Client::Connect(options).value();
  WorkerDescription description;
  description.tensors.push_back({.name = "t", .shape = {kElements}, .initial = InitialWeights::kUniform, .scale = 1});
  REQUIRE(client->Declare(description).ok());
  return client;
}

// Runs a program until the job is done, or until `at_step` returns false; then it closes its client. Calls `joined`
// once the program has joined the job.
Program Run(
    const InProcessJob& job, const std::string& name, const AtStep& at_step = [](std::uint64_t) { return true; },
    const std::function<void()>& joined = [] {}) {
  Program program;
  std::unique_ptr<Client> client = Connect(job, name);
  joined();
  while (std::optional<Work> work = client->NextWork(std::chrono::steady_clock::now() + kPatience).value()) {
    if (work->keep) {
      ++program.kept;
      REQUIRE(client->KeepVersion(program.weights.data(), program.State()).ok());
      continue;
    }
    const Status taken = client->TakeVersion();
    if (taken.code() == Code::kStale) continue;
    REQUIRE(taken.ok());
    ++program.sources[work->source];
    if (work->source == VersionSource::kWhole) program.Load(client->weights(), client->program_state());
    if (work->source == VersionSource::kGradient) program.Step(client->mean_gradient());
    for (const std::uint32_t slot : work->slots) {
      Result<float*> gradient = client->BeginSlot(slot, 1 + slot);
      if (!gradient.ok()) break;
      const bool skipped = work->step == 7 && slot == 1;
      for (std::int64_t i = 0; i < kElements; ++i) {
        (*gradient)[i] = 0.1F * program.weights[i] + static_cast<float>((i + slot + work->step) % 7);
      }
      if (skipped) (*gradient)[3] = INFINITY;
      (void)client->EndSlot(slot, {.loss_sum = 1, .predictions = 1}).ok();
    }
    if (!work->slots.empty() && !at_step(work->step)) return program;
  }
  return program;
}

// Returns how many snapshots began while another one was written, and so were left out.
int PassedOver(const InProcessJob& job) {
  for (const monitoring::Family& family : job.registry.Read()) {
    if (family.name != "capstan_snapshots_total") continue;
    for (const monitoring::Sample& sample : family.samples) {
      if (sample.labels == monitoring::Labels{{"result", "passed_over"}}) return static_cast<int>(sample.value);
    }
  }
  FAIL("the job does not count snapshots");
  return 0;
}

// The weights of an undisturbed job with one program.
const std::vector<float>& Undisturbed() {
  static const std::vector<float> weights = [] {
    InProcessJob job(MakeConfig());
    for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
    Program program = Run(job, "w");
    REQUIRE(job.WaitForEnds(1));
    CHECK(program.steps == kSteps - 1);  // one was skipped
    CHECK(program.sources[VersionSource::kSkipped] == 1);
    CHECK(program.sources[VersionSource::kWhole] == 1);
    // Versions 5, 10, 15, 20 and the last one, but none while the snapshot of another one is written.
    CHECK(program.kept == 4 + 1 - PassedOver(job));
    return program.weights;
  }();
  return weights;
}

TEST_CASE("limits for clipping are refused, because the program clips the mean gradient itself", "[e2e][external]") {
  InProcessJob job(MakeConfig());
  for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
  for (const bool by_norm : {true, false}) {
    const std::unique_ptr<Client> client = Connect(job, "w");
    const Status status = by_norm ? client->SetClipNorm(1.0) : client->SetClipValue(1.0);
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains(by_norm ? "SetClipNorm: with [optimizer] kind = \"external\""
                                                  : "SetClipValue: with [optimizer] kind = \"external\""));
  }
}

TEST_CASE("two programs, one of them late, make the bits of one", "[e2e][external]") {
  InProcessJob job(MakeConfig());
  for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
  std::promise<void> late;
  auto second = std::async(std::launch::async, [&] {
    late.get_future().wait();
    return Run(job, "late");
  });
  bool told = false;
  Program first = Run(job, "first", [&](std::uint64_t step) {
    if (step == 8 && !std::exchange(told, true)) late.set_value();
    return true;
  });
  Program other = second.get();
  CHECK(first.weights == Undisturbed());
  CHECK(other.weights == Undisturbed());
  CHECK(other.sources[VersionSource::kWhole] >= 1);
}

TEST_CASE("a program that leaves and one that comes change no bit", "[e2e][external]") {
  InProcessJob job(MakeConfig());
  for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
  std::promise<void> leaver_joined, comer_joined;
  std::atomic<bool> left{false};
  auto leaver = std::async(std::launch::async, [&] {
    (void)Run(
        job, "leaver", [](std::uint64_t step) { return step < 6; }, [&] { leaver_joined.set_value(); });
    left = true;
    return Run(
        job, "comer", [](std::uint64_t) { return true; }, [&] { comer_joined.set_value(); });
  });
  leaver_joined.get_future().wait();
  bool waited = false;
  Program stayer = Run(job, "stayer", [&](std::uint64_t) {
    if (left && !std::exchange(waited, true)) comer_joined.get_future().wait();  // before the job can be done
    return true;
  });
  Program comer = leaver.get();
  CHECK(stayer.weights == Undisturbed());
  CHECK(comer.weights == Undisturbed());
}

TEST_CASE("when the only program leaves, the next one begins at the newest snapshot", "[e2e][external]") {
  InProcessJob job(MakeConfig());
  for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
  (void)Run(job, "gone", [](std::uint64_t step) { return step < 13; });
  Program program = Run(job, "next");
  CHECK(program.weights == Undisturbed());
  CHECK(program.steps == kSteps - 1);
}

TEST_CASE("a program that does not take its version, or keeps too much, is told", "[e2e][external]") {
  InProcessJob job(MakeConfig());
  for (ShardIndex shard : {0U, 1U}) job.StartShard(shard);
  std::unique_ptr<Client> client = Connect(job, "w");
  REQUIRE(client->NextWork(std::chrono::steady_clock::now() + kPatience).value()->source == VersionSource::kWhole);
  const Result<float*> begun = client->BeginSlot(0, 1);
  CHECK_THAT(begun.status().message(), Contains("BeginSlot comes after TakeVersion"));

  std::unique_ptr<Client> second = Connect(job, "x");
  REQUIRE(second->NextWork(std::chrono::steady_clock::now() + kPatience).ok());
  CHECK_THAT(second->KeepVersion(second->weights(), "").message(), Contains("KeepVersion comes with weights"));
}

}  // namespace
}  // namespace capstan
