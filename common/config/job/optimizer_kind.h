// OptimizerKind: the optimizers.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

enum class OptimizerKind : std::uint8_t {
  kSgd,
  kMomentum,
  kAdam,
  kAdamW,
  kAdagrad,
  kLars,
  kLamb,
  kRmsprop,
  kAdadelta,
  kAdamax,
  kNadam,
  kRadam,
  kLion,
  kExternal
};

// Whether an update needs a trust ratio for each tensor: a factor from the norms of the tensor's weights and update.
inline bool TakesTrustRatio(OptimizerKind kind) { return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb; }

}  // namespace capstan
