// LossScale: what a loss is multiplied with so that 16 bits can hold its gradients, and how it follows what they hold.
//
// Kind:   a value. In sync the coordinator has one for all, in other modes each slot has its own.
// Why:    gradients that 16 bits cannot hold make a step void and the scale smaller; good steps make it larger.
// Source: Micikevicius et al., Mixed Precision Training, ICLR 2018, 3.2; the numbers are torch.cuda.amp.GradScaler's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace capstan {

inline constexpr float kFirstLossScale = 65536.0F;
inline constexpr float kLeastLossScale = 0x1p-24F;  // below it no scale helps
inline constexpr std::uint32_t kGoodStepsToGrow = 2000;

struct LossScale {
  float scale = kFirstLossScale;
  std::uint32_t good_steps = 0;  // since it last changed

  // A step whose gradient was finite, or not.
  void Count(bool finite, std::uint32_t good_steps_to_grow = kGoodStepsToGrow) {
    // Where steps that are not finite are skipped, there is no end to them: a scale of 0 could never grow again.
    if (!finite) scale = std::max(scale * 0.5F, kLeastLossScale);
    good_steps = finite ? good_steps + 1 : 0;
    if (good_steps < good_steps_to_grow) return;
    if (scale < 0x1p126F) scale *= 2.0F;
    good_steps = 0;
  }
};

}  // namespace capstan
