// Dynamic loss scaling: gradients that 16 bits cannot hold make a step void and the scale smaller.
//
// Kind:   a pure function; evaluated once per step, by the coordinator, for all.
// Why:    every contribution of a step has the same scale, and whether a step counts depends on the whole gradient.
// Source: Micikevicius et al., Mixed Precision Training, ICLR 2018, 3.2; the numbers are torch.cuda.amp.GradScaler's.
#pragma once

#include <algorithm>

#include "common/messages.h"

namespace capstan::server {

inline constexpr float kFirstLossScale = 65536.0F;
inline constexpr float kLeastLossScale = 0x1p-24F;  // below it no scale helps
inline constexpr std::uint32_t kGoodStepsToGrow = 2000;

// Scale and count of good steps after a step with `before`'s, whose gradient was `finite` or not.
inline void SetLossScale(const StepParameters& before, bool finite, StepParameters* next,
                         std::uint32_t good_steps_to_grow = kGoodStepsToGrow) {
  // Where steps that are not finite are skipped, there is no end to them: a scale of 0 could never grow again.
  next->loss_scale = finite ? before.loss_scale : std::max(before.loss_scale * 0.5F, kLeastLossScale);
  next->good_steps = finite ? before.good_steps + 1 : 0;
  if (next->good_steps < good_steps_to_grow) return;
  if (next->loss_scale < 0x1p126F) next->loss_scale *= 2.0F;
  next->good_steps = 0;
}

}  // namespace capstan::server
