// LossScale: the factor on a loss that keeps its gradients within the range of 16 bits, and how it adapts.
//
// Kind:   a value. In sync and allreduce the coordinator keeps one for the job; else each slot has its own.
// Why:    a step whose gradients overflow 16 bits halves the scale and is skipped; many good steps in a row double it.
// Source: Micikevicius et al., Mixed Precision Training, ICLR 2018, 3.2; the first scale and the number of good steps
//         are those of torch.cuda.amp.GradScaler.
#pragma once

#include <algorithm>
#include <cstdint>

namespace capstan {

inline constexpr float kFirstLossScale = 65536.0F;
inline constexpr float kLeastLossScale = 0x1p-24F;  // below it no scale helps
inline constexpr std::uint32_t kGoodStepsToGrow = 2000;

struct LossScale {
  float scale = kFirstLossScale;
  std::uint32_t good_steps = 0;  // good steps since the scale last changed

  // Counts a step and adapts the scale. `finite`: whether the step's gradient was finite.
  void Count(bool finite, std::uint32_t good_steps_to_grow = kGoodStepsToGrow) {
    // The scale has a lower bound: any number of steps may be skipped, and a scale of 0 could never grow again.
    if (!finite) scale = std::max(scale * 0.5F, kLeastLossScale);
    good_steps = finite ? good_steps + 1 : 0;
    if (good_steps < good_steps_to_grow) return;
    if (scale < 0x1p126F) scale *= 2.0F;
    good_steps = 0;
  }
};

}  // namespace capstan
