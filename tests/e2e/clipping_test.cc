// Clipping by the program, and the norm that comes back with the next round, through the C functions of the client and
// a job in this process.
#include <capstan/capstan.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using e2e::InProcessJob;

constexpr double kPatience = 60;
constexpr std::int64_t kElements = 300'000;  // two blocks, one on each shard

EditableJobConfig MakeConfig(Mode mode = Mode::kSync) {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.mode = mode;
  config.job.steps = 5;
  config.job.slots = config.job.global_batch = 2;
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 1.0;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 20;
  return config;
}

// The only client of a job with two shards. Its gradients have one value for all elements.
class Program {
 public:
  explicit Program(const JobConfig& config) : job_(config) {
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
  ~Program() { capstan_free(client_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void NextWork() {
    REQUIRE(capstan_next_work(client_, kPatience, &work) == CAPSTAN_OK);
    if (work.done == 0) REQUIRE(capstan_wait_weights(client_, 0, 0, kPatience) == CAPSTAN_OK);
  }
  // Begins a slot and fills its gradient; the limits may still be set before EndSlot.
  void BeginSlot(std::uint32_t slot, float value) {
    float* gradient = nullptr;
    REQUIRE(capstan_begin_slot(client_, slot, 1, &gradient) == CAPSTAN_OK);
    std::fill_n(gradient, kElements, value);
    REQUIRE(capstan_gradient_ready(client_, 0, 0) == CAPSTAN_OK);
  }
  void EndSlot(std::uint32_t slot) {
    capstan_result result{};
    result.size = sizeof result, result.loss_sum = 1, result.predictions = 1;
    REQUIRE(capstan_end_slot(client_, slot, &result) == CAPSTAN_OK);
  }
  void RunSlots(float value) {
    for (std::size_t i = 0; i < work.slot_length; ++i) {
      BeginSlot(work.slots[i], value);
      EndSlot(work.slots[i]);
    }
  }
  float Weight(std::int64_t element) {
    const float* weights = nullptr;
    REQUIRE(capstan_weights(client_, &weights) == CAPSTAN_OK);
    return weights[element];
  }
  std::string error() const { return capstan_last_error(client_); }
  capstan_client* client() { return client_; }

  capstan_work work{};

 private:
  InProcessJob job_;
  capstan_client* client_ = nullptr;
};

TEST_CASE("a step is clipped by the norm that the program gives after its gradients, and the norm comes back",
          "[e2e][clipping]") {
  Program program(MakeConfig());
  const double norm = 2.0 * std::sqrt(static_cast<double>(kElements));  // of gradients of 2
  program.NextWork();
  CHECK(program.work.gradient_norm == 0.0);
  program.RunSlots(2.0F);  // not clipped
  program.NextWork();
  CHECK(program.work.gradient_norm == norm);
  CHECK(program.Weight(0) == -2.0F);
  for (std::size_t i = 0; i < program.work.slot_length; ++i) {
    program.BeginSlot(program.work.slots[i], 2.0F);
    if (i == 0) REQUIRE(capstan_set_clip_norm(program.client(), norm / 4) == CAPSTAN_OK);
    program.EndSlot(program.work.slots[i]);
  }
  program.NextWork();
  CHECK(program.work.gradient_norm == norm);  // before clipping
  const float clipped = -2.0F - 2.0F * static_cast<float>(norm / 4 / (norm + 1e-6));
  CHECK(program.Weight(0) == clipped);
  CHECK(program.Weight(kElements - 1) == clipped);
  program.RunSlots(INFINITY);  // skipped
  program.NextWork();
  CHECK(program.work.gradient_norm == INFINITY);
  REQUIRE(capstan_set_clip_norm(program.client(), 0) == CAPSTAN_OK);
  program.RunSlots(2.0F);
  program.NextWork();
  CHECK(program.Weight(0) == clipped - 2.0F);
}

TEST_CASE("a program's norm takes the place of the job file's", "[e2e][clipping]") {
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 1.0;
  Program program(config);
  REQUIRE(capstan_set_clip_norm(program.client(), 1e6) == CAPSTAN_OK);
  program.NextWork();
  program.RunSlots(2.0F);
  program.NextWork();
  CHECK(program.Weight(7) == -2.0F);
}

TEST_CASE("each element is clipped by the value that the program gives", "[e2e][clipping]") {
  Program program(MakeConfig());
  REQUIRE(capstan_set_clip_value(program.client(), 0.5) == CAPSTAN_OK);
  program.NextWork();
  program.RunSlots(-2.0F);
  program.NextWork();
  CHECK(program.Weight(0) == 0.5F);
  CHECK(program.Weight(kElements - 1) == 0.5F);
  CHECK(program.work.gradient_norm == 2.0 * std::sqrt(static_cast<double>(kElements)));
}

TEST_CASE("a limit that does not fit is invalid in the call that gives it", "[e2e][clipping]") {
  Program negative(MakeConfig());
  CHECK(capstan_set_clip_norm(negative.client(), -1.0) == CAPSTAN_INVALID);
  CHECK_THAT(negative.error(), Contains("SetClipNorm: the norm to clip to is -1"));
  Program both(MakeConfig());
  REQUIRE(capstan_set_clip_norm(both.client(), 1.0) == CAPSTAN_OK);
  CHECK(capstan_set_clip_value(both.client(), 1.0) == CAPSTAN_INVALID);
  CHECK_THAT(both.error(), Contains("set one of them to 0"));
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 1.0;
  Program of_job(config);
  CHECK(capstan_set_clip_value(of_job.client(), 1.0) == CAPSTAN_INVALID);
  CHECK_THAT(of_job.error(), Contains("leave optimizer.clip_norm out of it"));
  Program async(MakeConfig(Mode::kAsync));
  CHECK(capstan_set_clip_norm(async.client(), 1.0) == CAPSTAN_INVALID);
  CHECK_THAT(async.error(), Contains("only mode sync") && Contains("optimizer.clip_norm in the job file"));
}

TEST_CASE("slots with different limits stop the job, and both are named", "[e2e][clipping]") {
  Program program(MakeConfig());
  program.NextWork();
  for (std::size_t i = 0; i < program.work.slot_length; ++i) {
    REQUIRE(capstan_set_clip_norm(program.client(), 1.0 + static_cast<double>(i)) == CAPSTAN_OK);
    program.BeginSlot(program.work.slots[i], 2.0F);
    program.EndSlot(program.work.slots[i]);
  }
  CHECK(capstan_next_work(program.client(), kPatience, &program.work) == CAPSTAN_REFUSED);
  CHECK_THAT(program.error(), Contains("slots 0 and 1 ended with different limits for clipping (norm 1, and norm 2)"));
}

}  // namespace
}  // namespace capstan
