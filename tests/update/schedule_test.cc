#include "update/schedule.h"
#include "common/config/job/schedule_section.h"

#include <cmath>

#include "tests/catch.h"

namespace capstan::server {
namespace {

TEST_CASE("warm-up and cosine have the published values", "[server][schedule]") {
  const ScheduleRule rule{.kind = ScheduleKind::kCosine, .warmup_steps = 100, .min_lr = 0.1};
  REQUIRE(LearningRate(rule, 0.8, 0, 1000) == 0.1F);
  REQUIRE(LearningRate(rule, 0.8, 50, 1000) == 0.45F);
  REQUIRE(LearningRate(rule, 0.8, 100, 1000) == 0.8F);
  REQUIRE(LearningRate(rule, 0.8, 550, 1000) == 0.45F);
  REQUIRE(LearningRate(rule, 0.8, 1000, 1000) == 0.1F);
  REQUIRE(LearningRate(rule, 0.8, 5000, 1000) == 0.1F);
}

TEST_CASE("a cosine schedule follows the formula at every update", "[server][schedule]") {
  const ScheduleRule rule{.kind = ScheduleKind::kCosine, .warmup_steps = 7, .min_lr = 1e-5};
  for (std::uint64_t updates = 7; updates <= 300; ++updates) {
    const double progress = static_cast<double>(updates - 7) / 293.0;
    const double expected = 1e-5 + (3e-4 - 1e-5) * 0.5 * (1 + std::cos(std::acos(-1.0) * progress));
    REQUIRE(static_cast<double>(LearningRate(rule, 3e-4, updates, 300)) == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("a linear schedule falls along a line and stays at its minimum", "[server][schedule]") {
  const ScheduleRule rule{.kind = ScheduleKind::kLinear, .warmup_steps = 10, .min_lr = 0.5};
  REQUIRE(LearningRate(rule, 1.5, 5, 110) == 1.0F);
  REQUIRE(LearningRate(rule, 1.5, 10, 110) == 1.5F);
  REQUIRE(LearningRate(rule, 1.5, 35, 110) == 1.25F);
  REQUIRE(LearningRate(rule, 1.5, 110, 110) == 0.5F);
  REQUIRE(LearningRate(rule, 1.5, 111, 110) == 0.5F);
}

TEST_CASE("a constant schedule is the base rate after warm-up, however long the job", "[server][schedule]") {
  REQUIRE(LearningRate({}, 0.01, 0, 10) == 0.01F);
  REQUIRE(LearningRate({}, 0.01, 9, 10) == 0.01F);
  const ScheduleRule rule{.kind = ScheduleKind::kConstant, .warmup_steps = 4};
  REQUIRE(LearningRate(rule, 0.01, 1, 10) == 0.0025F);
  REQUIRE(LearningRate(rule, 0.01, 4, 10) == 0.01F);
  REQUIRE(LearningRate(rule, 0.01, 400, 10) == 0.01F);
}

TEST_CASE("a job that ends within its warm-up has a rate at every update", "[server][schedule]") {
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const ScheduleRule rule{.kind = kind, .warmup_steps = 20};
    for (std::uint64_t updates = 0; updates <= 30; ++updates) {
      const float rate = LearningRate(rule, 0.1, updates, 10);
      REQUIRE(rate >= 0.0F);
      REQUIRE(rate <= 0.1F);
    }
  }
}

TEST_CASE("a schedule follows from the job file", "[server][schedule]") {
  ScheduleSection section;
  section.kind = ScheduleKind::kLinear;
  section.warmup_steps = 12;
  section.min_lr = 0.25;
  const ScheduleRule rule = MakeScheduleRule(section);
  REQUIRE(rule.kind == ScheduleKind::kLinear);
  REQUIRE(rule.warmup_steps == 12);
  REQUIRE(rule.min_lr == 0.25);
}

}  // namespace
}  // namespace capstan::server
