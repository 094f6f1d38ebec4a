#include "update/schedule.h"

#include "common/config/job/schedule_section.h"
#include "kernels/base/elementary.h"

namespace capstan {

namespace {

// Returns the rate's position between min_lr (0) and base_lr (1).
double Height(const ScheduleRule& rule, std::uint64_t updates, std::uint64_t total_steps) {
  if (updates < rule.warmup_steps) return static_cast<double>(updates) / static_cast<double>(rule.warmup_steps);
  if (rule.kind == ScheduleKind::kConstant) return 1.0;
  if (updates >= total_steps) return 0.0;
  const double progress =
      static_cast<double>(updates - rule.warmup_steps) / static_cast<double>(total_steps - rule.warmup_steps);
  if (rule.kind == ScheduleKind::kLinear) return 1.0 - progress;
  return 0.5 * (1.0 + kernels::SinCos2Pi(0.5 * progress).cosine);
}

}  // namespace

ScheduleRule MakeScheduleRule(const ScheduleSection& section) {
  return {.kind = section.kind, .warmup_steps = section.warmup_steps, .min_lr = section.min_lr};
}

float LearningRate(const ScheduleRule& rule, double base_lr, std::uint64_t updates, std::uint64_t total_steps) {
  const double height = Height(rule, updates, total_steps);
  return static_cast<float>(rule.min_lr + (base_lr - rule.min_lr) * height);
}

}  // namespace capstan
