// HyperParameters: how the weights of one group of tensors are updated, where the program that computes their gradients
// says so, step by step, and not the job file.
//
// Kind:   a value.
// Limits: finite and not negative; beta1 and beta2 below 1.
// Why:    a program with a schedule of its own, or with groups of parameters, keeps both. Which optimizer it is
//         stays the job file's word: its state is kept by the servers.
#pragma once

namespace capstan {

struct HyperParameters {
  double learning_rate = 0.0;
  double momentum = 0.0;  // of momentum, lars
  double beta1 = 0.0;     // of adam, adamw, lamb
  double beta2 = 0.0;
  double eps = 0.0;                                      // of adam, adamw, adagrad, lamb
  double weight_decay = 0.0;                             // of tensors that it does not spare
  bool nesterov = false;                                 // of momentum
  bool operator==(const HyperParameters& other) const {  // C++17 has no default for it
    return learning_rate == other.learning_rate && momentum == other.momentum && beta1 == other.beta1 &&
           beta2 == other.beta2 && eps == other.eps && weight_decay == other.weight_decay && nesterov == other.nesterov;
  }
};

}  // namespace capstan
