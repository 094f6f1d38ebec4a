// Memory over 10,000 rounds of pull and push: the client in C++ and in C, and the job that serves them in this process.
#include <capstan/capstan.h>
#include <capstan/client.h>
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <string>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace capstan {
namespace {

using e2e::InProcessJob;

constexpr std::uint64_t kRounds = 10'000, kWarm = 2'000;
constexpr std::uint64_t kCompared = 500;  // rounds of which the least is taken, because messages in flight come and go
constexpr std::size_t kGrowthMax = 64 << 10;  // a leak of 8 bytes a round is above it
constexpr std::size_t kElements = 3000;

// Returns the bytes allocated by malloc.
std::size_t AllocatedBytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class Watch {
 public:
  // Notes the allocated bytes at the steps that are compared. Call it in each round.
  void See(std::uint64_t step) {
    if (step >= kWarm && step < kWarm + kCompared) warm_ = std::min(warm_, AllocatedBytes());
    if (step >= kRounds - kCompared) end_ = std::min(end_, AllocatedBytes());
  }
  void CheckFlat() const {
    REQUIRE(end_ < SIZE_MAX);
    INFO(warm_ << " bytes after " << kWarm << " rounds, " << end_ << " after " << kRounds);
    CHECK(end_ < warm_ + kGrowthMax);
  }

 private:
  std::size_t warm_ = SIZE_MAX, end_ = SIZE_MAX;
};

EditableJobConfig MakeConfig() {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.steps = kRounds;
  config.job.slots = config.job.global_batch = 2;
  config.optimizer.kind = OptimizerKind::kMomentum;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 60;
  return config;
}

TEST_CASE("10,000 rounds in C++ take no more memory than 2,000", "[e2e][client]") {
  InProcessJob job(MakeConfig());
  job.StartShard(0);
  ClientOptions options;
  options.coordinator = job.address();
  options.worker = "w";
  const std::unique_ptr<Client> client = Client::Connect(options).value();
  REQUIRE(client->Declare({.tensors = {{"t", {kElements}}}}).ok());
  Watch watch;
  while (const auto work = client->NextWork(Client::kNoDeadline).value()) {
    watch.See(work->step);
    REQUIRE(client->WaitWeights(0, 0, Client::kNoDeadline).ok());
    for (const std::uint32_t slot : work->slots) {
      std::fill_n(client->BeginSlot(slot, 1).value(), kElements, 1.0F);
      REQUIRE(client->EndSlot(slot, {.loss_sum = 1.0, .predictions = 1}).ok());
    }
  }
  watch.CheckFlat();
}

TEST_CASE("10,000 rounds in C take no more memory than 2,000", "[e2e][client]") {
  InProcessJob job(MakeConfig());
  job.StartShard(0);
  const std::string address = job.address();
  capstan_options options{};
  options.size = sizeof options;
  options.coordinator = address.c_str();
  options.worker = "w";
  capstan_client* client = nullptr;
  REQUIRE(capstan_connect(&options, &client, nullptr, 0) == CAPSTAN_OK);
  constexpr std::int64_t kShape[] = {kElements};
  capstan_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.name = "t", tensor.shape = kShape, tensor.dimensions = 1;
  capstan_description description{};
  description.size = sizeof description;
  description.tensors = &tensor, description.tensor_count = 1;
  REQUIRE(capstan_declare(client, &description) == CAPSTAN_OK);
  capstan_work work{};
  work.size = sizeof work;
  capstan_result result{};
  result.size = sizeof result;
  result.predictions = 1;
  Watch watch;
  while (capstan_next_work(client, -1, &work) == CAPSTAN_OK && work.done == 0) {
    watch.See(work.step);
    REQUIRE(capstan_wait_weights(client, 0, 0, -1) == CAPSTAN_OK);
    for (std::size_t i = 0; i < work.slot_length; ++i) {
      float* gradient = nullptr;
      REQUIRE(capstan_begin_slot(client, work.slots[i], 1, &gradient) == CAPSTAN_OK);
      std::fill_n(gradient, kElements, 1.0F);
      REQUIRE(capstan_end_slot(client, work.slots[i], &result) == CAPSTAN_OK);
    }
  }
  watch.CheckFlat();
  capstan_free(client);
}

}  // namespace
}  // namespace capstan
