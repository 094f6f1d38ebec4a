// HyperParameters: how one group of tensors is updated, when the training program (not the job file) sets that
// step by step.
//
// Kind:   a value.
// Limits: finite and not negative; beta1 and beta2 below 1.
// Why:    a program with its own schedule or parameter groups keeps them. The job file still names the optimizer,
//         because the servers keep its state.
#pragma once

namespace capstan {

struct HyperParameters {
  double learning_rate = 0.0;
  double momentum = 0.0;  // momentum, lars
  double beta1 = 0.0;     // adam, adamw, lamb
  double beta2 = 0.0;
  double eps = 0.0;                                      // adam, adamw, adagrad, lamb
  double weight_decay = 0.0;                             // for tensors declared with weight_decay
  bool nesterov = false;                                 // momentum
  bool operator==(const HyperParameters& other) const {  // C++17 has no defaulted ==
    return learning_rate == other.learning_rate && momentum == other.momentum && beta1 == other.beta1 &&
           beta2 == other.beta2 && eps == other.eps && weight_decay == other.weight_decay && nesterov == other.nesterov;
  }
};

}  // namespace capstan
