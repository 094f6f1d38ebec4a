// Formulas of the optimizers that divide by a root of the gradients' squares, without bias correction: adagrad,
// rmsprop, adadelta.
//
// Kind:   internal to block_update.cc: templates over float and V8.
// Types:  fp32; factors are computed once per update, in double where PyTorch does so.
// Parity: torch.optim. Where rounding makes centered rmsprop's variance negative, PyTorch's weight becomes NaN; here
//         the variance is then 0.
#pragma once

#include "update/vector_math.h"

namespace capstan::formulas {

// Adagrad: Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011.
struct AdagradUpdate {
  static constexpr int kStates = 1;
  float lr, decay, eps;
  float initial;  // initial_accumulator_value in the first update, when the sum is 0; then 0
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = (state[0] + initial) + d * d;
    w = w - d * lr / (Sqrt(state[0]) + eps);
  }
};

// RMSprop: Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012. The centered variant is
// Graves, "Generating sequences with recurrent neural networks", 2013. States: the mean of squares, the momentum if
// the job keeps one, the mean of gradients if it is centered.
template <bool kCentered, bool kMomentum>
struct RmspropUpdate {
  static constexpr int kStates = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  float lr, decay, alpha, one_minus_alpha, eps, momentum;
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] * alpha + d * one_minus_alpha * d;
    V variance = state[0];
    if constexpr (kCentered) {
      V& mean = state[kStates - 1];
      mean = mean * alpha + d * one_minus_alpha;
      variance = Largest(variance - mean * mean, V{});
    }
    const V deviation = Sqrt(variance) + eps;
    if constexpr (kMomentum) {
      state[1] = state[1] * momentum + d / deviation;
      w = w - state[1] * lr;
    } else {
      w = w - d * lr / deviation;
    }
  }
};

// Adadelta: Zeiler, "ADADELTA: an adaptive learning rate method", 2012. States: the mean of the gradients' squares, the
// mean of the updates' squares.
struct AdadeltaUpdate {
  static constexpr int kStates = 2;
  float lr, decay, rho, one_minus_rho, eps;
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] * rho + d * one_minus_rho * d;
    const V delta = Sqrt(state[1] + eps) / Sqrt(state[0] + eps) * d;
    state[1] = state[1] * rho + delta * one_minus_rho * delta;
    w = w - delta * lr;
  }
};

}  // namespace capstan::formulas
