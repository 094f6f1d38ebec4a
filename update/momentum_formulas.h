// Formulas of the optimizers that follow the gradient itself, or the sign of its mean: sgd, momentum, lion, lars.
//
// Kind:   internal to block_update.cc: templates over float and V8.
// Types:  fp32; factors are computed once per update, in double where PyTorch does so.
// Parity: torch.optim.SGD; PyTorch has no Lion and no LARS.
#pragma once

#include "update/vector_math.h"

namespace capstan::formulas {

struct SgdUpdate {
  static constexpr int kStates = 0;
  float lr, decay;
  template <class V>
  void operator()(V g, V& w, V*) const {
    w = w - (g + w * decay) * lr;
  }
};

// The first update puts the whole gradient into the momentum. Later ones put in the part that the dampening leaves.
template <bool kNesterov>
struct MomentumUpdate {
  static constexpr int kStates = 1;
  float lr, decay, momentum, undamped;  // undamped: 1 - dampening; 1 in the first update, and without momentum
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] * momentum + d * undamped;
    if constexpr (kNesterov) {
      w = w - (d + state[0] * momentum) * lr;
    } else {
      w = w - state[0] * lr;
    }
  }
};

// Lion: Chen et al., "Symbolic discovery of optimization algorithms", 2023, with its decoupled weight decay.
struct LionUpdate {
  static constexpr int kStates = 1;
  float lr, keep;  // keep: 1 - lr * weight_decay
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  template <class V>
  void operator()(V g, V& w, V* state) const {
    w = w * keep - Sign(state[0] * beta1 + g * one_minus_beta1) * lr;
    state[0] = state[0] * beta2 + g * one_minus_beta2;
  }
};

// LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017. The momentum sums directions,
// each multiplied by the learning rate and the trust ratio of its own step.
struct LarsUpdate {
  static constexpr int kStates = 1;
  static constexpr bool kTakesRatio = true;
  float rate, decay, momentum;  // rate: lr * ratio
  template <class V>
  V operator()(V g, V& w, V* state) const {
    const V direction = g + w * decay;
    state[0] = state[0] * momentum + direction * rate;
    w = w - state[0];
    return direction;
  }
};

}  // namespace capstan::formulas
