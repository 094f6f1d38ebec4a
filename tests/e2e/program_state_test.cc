// Program state: bytes that a program gives with a step and gets back with the next one, through the C functions of the
// client and a job in this process.
#include <capstan/capstan.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

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
  config.job.steps = 6;
  config.job.slots = config.job.global_batch = 3;
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 20;
  return config;
}

// The only client of a job with two shards.
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

  capstan_code NextWork(double seconds = kPatience) { return capstan_next_work(client_, seconds, &work); }
  capstan_code Give(const std::string& state) { return capstan_set_program_state(client_, state.data(), state.size()); }
  // Waits for the round's weights, and returns the program state of their version.
  std::string State() {
    REQUIRE(capstan_wait_weights(client_, 0, 0, kPatience) == CAPSTAN_OK);
    const void* state = nullptr;
    std::size_t bytes = 0;
    REQUIRE(capstan_program_state(client_, &state, &bytes) == CAPSTAN_OK);
    return {static_cast<const char*>(state), bytes};
  }
  void RunSlot(std::uint32_t slot, float value) {
    float* gradient = nullptr;
    REQUIRE(capstan_begin_slot(client_, slot, 1, &gradient) == CAPSTAN_OK);
    std::fill_n(gradient, kElements, value);
    capstan_result result{};
    result.size = sizeof result, result.loss_sum = 1, result.predictions = 1;
    REQUIRE(capstan_end_slot(client_, slot, &result) == CAPSTAN_OK);
  }
  std::string error() const { return capstan_last_error(client_); }
  capstan_client* client() { return client_; }

  capstan_work work{};

 private:
  InProcessJob job_;
  capstan_client* client_ = nullptr;
};

TEST_CASE("what a program gives with a step comes back with the next one, and stays until it gives another",
          "[e2e][program]") {
  Program program(MakeConfig());
  const std::array<std::string, 6> given = {std::string("a\0b", 3), "", std::string(65536, '\xFF'),
                                            "with a skip",          "", ""};
  std::string wanted;
  std::uint64_t updates = 0;
  for (std::uint64_t step = 0; step < given.size(); ++step) {
    REQUIRE(program.NextWork() == CAPSTAN_OK);
    REQUIRE(program.work.step == step);
    CHECK(program.work.updates == updates);
    CHECK(program.State() == wanted);
    const bool skipped = step == 3;
    for (std::size_t i = 0; i < program.work.slot_length; ++i) {
      if (i == 1) REQUIRE(program.Give(given.at(step)) == CAPSTAN_OK);  // slot 0 ends without one
      program.RunSlot(program.work.slots[i], skipped ? INFINITY : 1.0F);
    }
    if (!skipped) ++updates;
    if (!given.at(step).empty()) wanted = given.at(step);
  }
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.work.done == 1);
}

TEST_CASE("a program's state that is too long, missing or outside a round is invalid and says why", "[e2e][program]") {
  Program program(MakeConfig());
  CHECK(capstan_set_program_state(program.client(), nullptr, 1) == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("state is a null pointer"));
  CHECK(capstan_program_state(program.client(), nullptr, nullptr) == CAPSTAN_INVALID);
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.Give(std::string(65537, 's')) == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("the state of step 0 has 65537 bytes, and at most 65536 are kept with a step"));
  CHECK(program.NextWork(0) == CAPSTAN_INVALID);  // it cannot continue as if nothing had happened
  Program early(MakeConfig());
  CHECK(early.Give("s") == CAPSTAN_INVALID);
  CHECK_THAT(early.error(), Contains("SetProgramState comes in a round"));
}

TEST_CASE("without global steps there is nothing that a program's state could be kept with", "[e2e][program][async]") {
  Program program(MakeConfig(Mode::kAsync));
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.work.updates == 0);
  CHECK(program.Give("s") == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("only mode sync has steps"));
}

}  // namespace
}  // namespace capstan
