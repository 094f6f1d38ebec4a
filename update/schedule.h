// LearningRate: the learning rate of an update, by the job's schedule.
//
// Kind:   a pure function, in double. The coordinator evaluates it and sends the result's bits with a step's
//         parameters.
// Why:    a replayed step must get the same rate, also on a machine with another libm.
#pragma once

#include <cstdint>

#include "common/config/job/schedule_section.h"

namespace capstan {

using capstan::ScheduleKind;

struct ScheduleRule {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::uint64_t warmup_steps = 0;
  double min_lr = 0.0;
};

ScheduleRule MakeScheduleRule(const ScheduleSection& section);

// Returns the rate of the next update. `updates`: updates applied so far; 0 before the first. The rate rises linearly
// from min_lr to base_lr during the first warmup_steps updates. Then it stays at base_lr (constant), or falls to min_lr
// along half a cosine or a line; it is min_lr once total_steps updates were applied.
float LearningRate(const ScheduleRule& rule, double base_lr, std::uint64_t updates, std::uint64_t total_steps);

}  // namespace capstan
