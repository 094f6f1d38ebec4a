// OptimizerKind: the optimizers.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdam, kAdamW, kAdagrad, kLars, kLamb };

// Whether an update needs one trust ratio per tensor, computed from norms over the whole step.
inline bool TakesTrustRatio(OptimizerKind kind) { return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb; }

}  // namespace capstan
