// OptimizerSection: section [optimizer] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/job/optimizer_kind.h"

namespace capstan {

inline constexpr std::int64_t kExternalStatesMax = 2;

struct AdagradOptions {
  double lr_decay = 0.0;
  double initial_accumulator_value = 0.0;
  bool operator==(const AdagradOptions&) const = default;
};

// The defaults of the kinds that PyTorch has (all but lion, lars and lamb) are PyTorch's, except `momentum` of kind
// momentum, which is 0.9 instead of 0. Those of lion are the paper's.
struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 1e-3;        // adagrad, rmsprop: 1e-2; adadelta: 1; adamax, nadam: 2e-3; lion: 1e-4; lars: 0.1
  double beta1 = 0.9;      // adam, adamw, adamax, nadam, radam, lion, lamb: betas = [beta1, beta2]
  double beta2 = 0.999;    // lion: 0.99
  double eps = 1e-8;       // adagrad: 1e-10; adadelta, lamb: 1e-6
  double momentum = 0.9;   // momentum, lars; rmsprop: 0
  bool nesterov = false;   // momentum
  double dampening = 0.0;  // momentum
  double alpha = 0.99;     // rmsprop; adadelta: its rho, 0.9
  bool centered = false;   // rmsprop
  bool amsgrad = false;    // adam, adamw
  AdagradOptions adagrad;
  double momentum_decay = 4e-3;         // nadam
  bool decoupled_weight_decay = false;  // nadam, radam
  bool maximize = false;
  double weight_decay = 0.0;          // adamw, lamb: 0.01; decoupled in adamw, lion and lamb; the others: L2
  double trust_coefficient = 1e-3;    // lars
  std::vector<std::string> no_decay;  // shell patterns of tensor names without weight decay
  double clip_norm = 0.0;             // 0: no clipping
  // external: the program's state may have 4 * states bytes for each weight, and 65528 bytes besides.
  std::uint32_t states = 2;
  bool operator==(const OptimizerSection&) const = default;
};

// Returns false if the tensor's name matches a pattern of `no_decay`.
bool DecayApplies(const OptimizerSection& optimizer, const std::string& tensor_name);

// Whether kind rmsprop keeps a momentum. Then all groups have one, and without it none has.
bool KeepsMomentum(const OptimizerSection& optimizer);

// Returns the names of the optimizer's state arrays, in the order of the arrays. They are PyTorch's; lion's, lars's and
// lamb's follow PyTorch's use of the words.
std::vector<std::string> StateNames(const OptimizerSection& optimizer);

}  // namespace capstan
