// ClientProgram: the only program of a job in this process with two shards, through the C functions of the client.
//
// Kind:   a value of one test.
#pragma once

#include <capstan/capstan.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

namespace capstan::e2e {

class ClientProgram {
 public:
  static constexpr double kPatience = 60;             // seconds
  static constexpr std::int64_t kElements = 300'000;  // two blocks, one on each shard

  static EditableJobConfig MakeConfig(Mode mode, std::uint64_t steps, std::uint32_t slots) {
    EditableJobConfig config;
    config.model.kind = ModelKind::kClient;
    config.job.mode = mode;
    config.job.steps = steps;
    config.job.slots = config.job.global_batch = slots;
    config.job.on_nonfinite = NonFinitePolicy::kSkip;
    config.optimizer.kind = OptimizerKind::kSgd;
    config.cluster.servers = 2;
    config.cluster.workers = config.cluster.min_workers = 1;
    config.limits.join = config.limits.stall = 20;
    return config;
  }

  explicit ClientProgram(const JobConfig& config) : job_(config) {
    for (ShardIndex shard : {0U, 1U}) job_.StartShard(shard);
    const std::string coordinator = job_.address();
    capstan_options options{};
    options.size = sizeof options, options.coordinator = coordinator.c_str(), options.worker = "w";
    REQUIRE(capstan_connect(&options, &client_, nullptr, 0) == CAPSTAN_OK);
    capstan_tensor tensor{};
    tensor.size = sizeof tensor, tensor.name = "t", tensor.shape = &kElements, tensor.dimensions = 1;
    capstan_description description{};
    description.size = sizeof description, description.tensors = &tensor, description.tensor_count = 1;
    REQUIRE(capstan_declare(client_, &description) == CAPSTAN_OK);
    work.size = sizeof work;
  }
  ~ClientProgram() { capstan_free(client_); }
  ClientProgram(const ClientProgram&) = delete;
  ClientProgram& operator=(const ClientProgram&) = delete;

  capstan_code NextWork(double seconds = kPatience) { return capstan_next_work(client_, seconds, &work); }
  // Begins a slot and fills its gradient; the slot's settings may still be given before EndSlot.
  void BeginSlot(std::uint32_t slot, float value) {
    float* gradient = nullptr;
    REQUIRE(capstan_begin_slot(client_, slot, 1, &gradient) == CAPSTAN_OK);
    std::fill_n(gradient, kElements, value);
  }
  void EndSlot(std::uint32_t slot) {
    capstan_result result{};
    result.size = sizeof result, result.loss_sum = 1, result.predictions = 1;
    REQUIRE(capstan_end_slot(client_, slot, &result) == CAPSTAN_OK);
  }
  void RunSlot(std::uint32_t slot, float value) {
    BeginSlot(slot, value);
    EndSlot(slot);
  }
  void RunSlots(float value) {
    for (std::size_t i = 0; i < work.slot_length; ++i) RunSlot(work.slots[i], value);
  }
  std::string error() const { return capstan_last_error(client_); }
  capstan_client* client() { return client_; }

  capstan_work work{};

 private:
  InProcessJob job_;
  capstan_client* client_ = nullptr;
};

}  // namespace capstan::e2e
