// OptimizerSection: section [optimizer] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/job/optimizer_kind.h"

namespace capstan {

inline constexpr std::int64_t kExternalStatesMax = 2;

// The defaults of the kinds that PyTorch has (all but lars and lamb) are PyTorch's, except `momentum`, which is 0.9
// instead of 0.
struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 1e-3;    // adagrad: 1e-2; lars: 0.1
  double beta1 = 0.9;  // adam, adamw, lamb: betas = [beta1, beta2]
  double beta2 = 0.999;
  double eps = 1e-8;                  // adam, adamw; adagrad: 1e-10; lamb: 1e-6
  double momentum = 0.9;              // momentum, lars
  bool nesterov = false;              // momentum
  double weight_decay = 0.0;          // adamw, lamb (decoupled): 0.01; the others: L2
  double trust_coefficient = 1e-3;    // lars
  std::vector<std::string> no_decay;  // shell patterns of tensor names without weight decay
  double clip_norm = 0.0;             // 0: no clipping
  // external: the program's state may have 4 * states bytes for each weight, and 65528 bytes besides.
  std::uint32_t states = 2;
  bool operator==(const OptimizerSection&) const = default;
};

// Returns false if the tensor's name matches a pattern of `no_decay`.
bool DecayApplies(const OptimizerSection& optimizer, const std::string& tensor_name);

}  // namespace capstan
