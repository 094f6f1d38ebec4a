// HyperParameters: how one group of tensors is updated, when the training program (not the job file) sets that
// step by step.
//
// Kind:   a value.
// Limits: finite and not negative; beta1, beta2 and alpha below 1.
// Why:    a program with its own schedule or parameter groups keeps them. The job file still names the optimizer,
//         because the servers keep its state. What decides which arrays that state has (amsgrad, centered) is the job
//         file's too.
#pragma once

namespace capstan {

struct HyperParameters {
  double learning_rate = 0.0;
  double momentum = 0.0;  // momentum, lars; rmsprop, if the job file gives it a momentum
  double beta1 = 0.0;     // adam, adamw, adamax, nadam, radam, lion, lamb
  double beta2 = 0.0;
  double eps = 0.0;           // all but sgd, momentum, lion and lars
  double weight_decay = 0.0;  // for tensors declared with weight_decay
  bool nesterov = false;      // momentum
  double dampening = 0.0;     // momentum
  double alpha = 0.0;         // rmsprop; adadelta: its rho
  double lr_decay = 0.0;      // adagrad
  // adagrad: what the first update finds in the sum of squares
  double initial_accumulator_value = 0.0;
  // nadam: the bits of an update follow from its number, so beta1 and this value must stay the same in all steps
  double momentum_decay = 0.0;
  bool maximize = false;                                 // updates go up the gradient
  bool decoupled_weight_decay = false;                   // nadam, radam
  bool operator==(const HyperParameters& other) const {  // C++17 has no defaulted ==
    return learning_rate == other.learning_rate && momentum == other.momentum && beta1 == other.beta1 &&
           beta2 == other.beta2 && eps == other.eps && weight_decay == other.weight_decay &&
           nesterov == other.nesterov && dampening == other.dampening && alpha == other.alpha &&
           lr_decay == other.lr_decay && initial_accumulator_value == other.initial_accumulator_value &&
           momentum_decay == other.momentum_decay && maximize == other.maximize &&
           decoupled_weight_decay == other.decoupled_weight_decay;
  }
};

}  // namespace capstan
