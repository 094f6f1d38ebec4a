#include "worker/client/slot_verdict.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/config/job_config.h"
#include "tests/catch.h"

namespace capstan::client {
namespace {

constexpr double kLoss = 1.0;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Catalog TwoTensors() {
  TensorSpec weight, mean;
  weight.name = "weight";
  weight.shape = {2};
  mean.name = "mean";
  mean.shape = {1};
  mean.kind = TensorKind::kStatistic;
  return *Catalog::Create({weight, mean});
}

JobConfig JobOf(const std::string& mode) {
  const Result<JobConfig> config =
      ParseJobConfig("[job]\nsteps = 1\nglobal_batch = 1\n[model]\nkind = \"client\"\n[optimizer]\nkind = \"sgd\"\n",
                     "job.toml", {"job.mode=" + mode});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *config;
}

TEST_CASE("only jobs without global steps have verdicts on slots", "[client]") {
  CHECK(SlotVerdict::Create(JobOf("sync")) == nullptr);
  CHECK(SlotVerdict::Create(JobOf("async")) != nullptr);
  CHECK(SlotVerdict::Create(JobOf("bounded")) != nullptr);
}

TEST_CASE("blocks wait for the whole gradient only where its norm or its end matters", "[client]") {
  CHECK_FALSE(SlotVerdict({}).waits_for_all());
  CHECK(SlotVerdict({.clip_norm = 1.0}).waits_for_all());
  CHECK(SlotVerdict({.on_nonfinite = NonFinitePolicy::kSkip}).waits_for_all());
  CHECK(SlotVerdict({.scales = true}).waits_for_all());
}

TEST_CASE("a gradient is clipped by the norm of its parameters, without the loss scale and the statistics",
          "[client]") {
  const Catalog catalog = TwoTensors();
  SlotVerdict verdict({.clip_norm = 1.0});
  std::vector<float> gradient = {6.0F, 8.0F, 100.0F};
  CHECK(verdict.Decide(0, catalog, gradient, 2.0F, kLoss));  // a norm of 5
  CHECK(gradient[0] == Approx(1.2F));
  CHECK(gradient[1] == Approx(1.6F));
  CHECK(gradient[2] == 100.0F);
  const std::vector<float> clipped = gradient;
  CHECK(verdict.Decide(0, catalog, gradient, 4.0F, kLoss));  // short enough
  CHECK(gradient == clipped);
}

TEST_CASE("a gradient that is not finite is left out or stops the job, and the next slot starts over", "[client]") {
  const Catalog catalog = TwoTensors();
  std::vector<float> gradient = {1.0F, kNan, 0.0F};
  SlotVerdict skips({.on_nonfinite = NonFinitePolicy::kSkip}), stops({.clip_norm = 1.0});
  CHECK(skips.Decide(0, catalog, gradient, 1.0F, kLoss));
  CHECK(skips.left_out());
  skips.BeginSlot();
  CHECK_FALSE(skips.left_out());
  CHECK_FALSE(stops.Decide(0, catalog, gradient, 1.0F, kLoss));
}

TEST_CASE("each slot keeps its own loss scale, and only a finite loss lets it shrink", "[client]") {
  const Catalog catalog = TwoTensors();
  CHECK_FALSE(SlotVerdict({}).LossScaleOf(0).has_value());
  SlotVerdict verdict({.scales = true});
  std::vector<float> gradient = {1.0F, kNan, 0.0F};
  CHECK(verdict.Decide(3, catalog, gradient, kFirstLossScale, kLoss));
  CHECK(verdict.left_out());
  CHECK(verdict.LossScaleOf(3) == kFirstLossScale / 2);
  CHECK(verdict.LossScaleOf(4) == kFirstLossScale);
  CHECK_FALSE(verdict.Decide(3, catalog, gradient, kFirstLossScale / 2, kNan));
}

}  // namespace
}  // namespace capstan::client
