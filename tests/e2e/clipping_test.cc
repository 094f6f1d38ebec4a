// Clipping by the program, and the norm that comes back with the next round, through the C functions of the client and
// a job in this process.
#include <capstan/capstan.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/client_program.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

constexpr double kPatience = e2e::ClientProgram::kPatience;
constexpr std::int64_t kElements = e2e::ClientProgram::kElements;

EditableJobConfig MakeConfig(Mode mode = Mode::kSync) {
  EditableJobConfig config = e2e::ClientProgram::MakeConfig(mode, 5, 2);
  config.optimizer.lr = 1.0;
  return config;
}

// Gradients of this program have one value for all elements.
class Program : public e2e::ClientProgram {
 public:
  using ClientProgram::ClientProgram;

  void NextWork() {
    REQUIRE(ClientProgram::NextWork() == CAPSTAN_OK);
    if (work.done == 0) REQUIRE(capstan_wait_weights(client(), 0, 0, kPatience) == CAPSTAN_OK);
  }
  void BeginSlot(std::uint32_t slot, float value) {
    ClientProgram::BeginSlot(slot, value);
    REQUIRE(capstan_gradient_ready(client(), 0, 0) == CAPSTAN_OK);  // the limits may come after it
  }
  float Weight(std::int64_t element) {
    const float* weights = nullptr;
    REQUIRE(capstan_weights(client(), &weights) == CAPSTAN_OK);
    return weights[element];
  }
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
