// ScheduleSection: section [schedule] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

enum class ScheduleKind : std::uint8_t { kConstant, kCosine, kLinear };

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::uint64_t warmup_steps = 0;
  double min_lr = 0.0;  // cosine, linear: the rate at the last step
  bool operator==(const ScheduleSection&) const = default;
};

}  // namespace capstan
