#include <type_traits>
#include <utility>

#include "common/config/job/limits_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"

using namespace capstan;

static_assert(!std::is_assignable_v<decltype((JobConfig().limits)), LimitsSection>);

TEST_CASE("a copy of a job file's values has sections of its own", "[config]") {
  EditableJobConfig config;
  config.schedule.warmup_steps = 3;
  EditableJobConfig copy = config;
  CHECK(copy == config);
  copy.schedule.warmup_steps = 4;
  copy.limits.stall = 5;
  CHECK(config.schedule.warmup_steps == 3);
  CHECK(config.limits.stall == LimitsSection().stall);
  CHECK_FALSE(copy == config);
}

TEST_CASE("an assigned job file keeps nothing of what was there", "[config]") {
  EditableJobConfig config, other;
  config.schedule.warmup_steps = 3;
  other.limits.stall = 9;
  ScheduleSection* const section = &other.schedule;
  other = config;
  CHECK(other == config);
  CHECK(&other.schedule == section);
  other.schedule.warmup_steps = 4;
  CHECK(config.schedule.warmup_steps == 3);
  const JobConfig& self = other;
  other = self;
  CHECK(other.schedule.warmup_steps == 4);
}

TEST_CASE("a job file's values that were moved from are still whole", "[config]") {
  EditableJobConfig config;
  config.schedule.warmup_steps = 3;
  const JobConfig moved = std::move(config);
  CHECK(moved.schedule.warmup_steps == 3);
  CHECK(config.schedule.warmup_steps == 3);
}
