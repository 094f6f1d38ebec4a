// OptimizerKind: the rules by which weights can be updated.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdam, kAdamW, kAdagrad, kLars, kLamb };

// Whether an update takes one ratio for each tensor, from norms that only a whole step has.
inline bool TakesTrustRatio(OptimizerKind kind) { return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb; }

}  // namespace capstan
