// Formulas of Adam and its relatives, which correct the bias of running means: adam, adamw, adamax, nadam, radam, lamb.
//
// Kind:   internal to block_update.cc: templates over float and V8.
// Types:  fp32; factors are computed once per update, in double where PyTorch does so.
// Parity: torch.optim, which has no LAMB.
#pragma once

#include <cmath>

#include "update/block_update.h"
#include "update/scalar_math.h"
#include "update/vector_math.h"

namespace capstan::formulas {

// Running means of gradients and of their squares, with their bias corrections.
struct Moments {
  double correction1, correction2;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, root_scale;

  Moments(const OptimizerRule& rule, std::uint64_t step)
      : correction1(1.0 - IntegerPower(rule.beta1, step)),
        correction2(1.0 - IntegerPower(rule.beta2, step)),
        beta1(static_cast<float>(rule.beta1)),
        one_minus_beta1(static_cast<float>(1.0 - rule.beta1)),
        beta2(static_cast<float>(rule.beta2)),
        one_minus_beta2(static_cast<float>(1.0 - rule.beta2)),
        eps(static_cast<float>(rule.eps)),
        root_scale(static_cast<float>(1.0 / std::sqrt(correction2))) {}

  // Updates the means m (state[0]) and v (state[1]).
  template <class V>
  void Add(V g, V* state) const {
    state[0] = state[0] * beta1 + g * one_minus_beta1;
    state[1] = state[1] * beta2 + g * one_minus_beta2 * g;
  }
  // Returns m * scale / (sqrt(v) * root_scale + eps).
  template <class V>
  V Direction(V m, V v, float scale) const {
    return m * scale / (Sqrt(v) * root_scale + eps);
  }
};

// Weight decay of an optimizer that has it coupled or decoupled: first w * keep, then g + w * coupled.
struct EitherDecay {
  float keep = 1.0F, coupled = 0.0F;

  EitherDecay(const GroupRule& group, double weight_decay) {
    if (group.rule.decoupled_weight_decay) {
      keep = static_cast<float>(1.0 - group.learning_rate * weight_decay);
    } else {
      coupled = static_cast<float>(weight_decay);
    }
  }
  template <class V>
  V Apply(V g, V& w) const {
    w = w * keep;
    return g + w * coupled;
  }
};

// Adam: Kingma and Ba, 2015. AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. With amsgrad
// (Reddi, Kale, Kumar, "On the convergence of Adam and beyond", 2018) a third state has the largest v so far.
template <bool kDecoupled, bool kAmsgrad>
struct AdamUpdate {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  float decay;  // weight_decay; decoupled: the factor 1 - lr * weight_decay
  Moments moments;
  float step_size;

  AdamUpdate(const GroupRule& group, const UpdateScalars& scalars, double weight_decay)
      : decay(static_cast<float>(kDecoupled ? 1.0 - group.learning_rate * weight_decay : weight_decay)),
        moments(group.rule, scalars.step),
        step_size(static_cast<float>(group.learning_rate / moments.correction1)) {}

  template <class V>
  void operator()(V g, V& w, V* state) const {
    if constexpr (kDecoupled) {
      w = w * decay;
    } else {
      g = g + w * decay;
    }
    moments.Add(g, state);
    if constexpr (kAmsgrad) state[2] = Largest(state[2], state[1]);
    w = w - moments.Direction(state[0], state[kAmsgrad ? 2 : 1], step_size);
  }
};

// Adamax: Kingma and Ba, 2015, section 7.1. States: the mean of gradients, the decaying largest magnitude.
struct AdamaxUpdate {
  static constexpr int kStates = 2;
  float decay;
  Moments moments;
  float step_size;

  AdamaxUpdate(const GroupRule& group, const UpdateScalars& scalars, double weight_decay)
      : decay(static_cast<float>(weight_decay)),
        moments(group.rule, scalars.step),
        step_size(static_cast<float>(group.learning_rate / moments.correction1)) {}

  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] * moments.beta1 + d * moments.one_minus_beta1;
    state[1] = Largest(Magnitude(d) + moments.eps, state[1] * moments.beta2);
    w = w - state[0] * step_size / state[1];
  }
};

// NAdam: Dozat, "Incorporating Nesterov momentum into Adam", 2016. The product of all momenta so far follows from the
// update's number, so it is no state.
struct NadamUpdate {
  static constexpr int kStates = 2;
  EitherDecay decay;
  Moments moments;
  float correction2, gradient_size, mean_size;

  NadamUpdate(const GroupRule& group, const UpdateScalars& scalars, double weight_decay)
      : decay(group, weight_decay),
        moments(group.rule, scalars.step),
        correction2(static_cast<float>(moments.correction2)) {
    const double beta1 = group.rule.beta1, momentum_decay = group.rule.momentum_decay;
    const double product = NadamMomentumProduct(beta1, momentum_decay, scalars.step);
    const double now = NadamMomentum(beta1, momentum_decay, scalars.step);
    const double next = NadamMomentum(beta1, momentum_decay, scalars.step + 1);
    gradient_size = static_cast<float>(group.learning_rate * (1.0 - now) / (1.0 - product));
    mean_size = static_cast<float>(group.learning_rate * next / (1.0 - product * next));
  }

  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = decay.Apply(g, w);
    moments.Add(d, state);
    const V deviation = Sqrt(state[1] / correction2) + moments.eps;
    w = w - d * gradient_size / deviation;
    w = w - state[0] * mean_size / deviation;
  }
};

// RAdam: Liu et al., "On the variance of the adaptive learning rate and beyond", 2020. The first updates, whose
// variance estimate is too rough to divide by, are not rectified.
struct RadamFactors {
  bool rectified = false;
  double rectification = 1.0;

  RadamFactors(double beta2, std::uint64_t step) {
    const double power = IntegerPower(beta2, step);
    const double limit = 2.0 / (1.0 - beta2) - 1.0;
    const double length = limit - 2.0 * static_cast<double>(step) * power / (1.0 - power);
    rectified = length > 5.0;
    if (!rectified) return;
    rectification = std::sqrt((length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length));
  }
};

template <bool kRectified>
struct RadamUpdate {
  static constexpr int kStates = 2;
  EitherDecay decay;
  Moments moments;
  float lr, correction1, root_correction2, rectification;

  RadamUpdate(const GroupRule& group, const UpdateScalars& scalars, double weight_decay, const RadamFactors& factors)
      : decay(group, weight_decay),
        moments(group.rule, scalars.step),
        lr(static_cast<float>(group.learning_rate)),
        correction1(static_cast<float>(moments.correction1)),
        root_correction2(static_cast<float>(std::sqrt(moments.correction2))),
        rectification(static_cast<float>(factors.rectification)) {}

  template <class V>
  void operator()(V g, V& w, V* state) const {
    moments.Add(decay.Apply(g, w), state);
    const V step = state[0] / correction1 * lr;
    if constexpr (kRectified) {
      w = w - step * (root_correction2 / (Sqrt(state[1]) + moments.eps)) * rectification;
    } else {
      w = w - step;
    }
  }
};

// LAMB: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020, with phi(x) = x.
struct LambUpdate {
  static constexpr int kStates = 2;
  static constexpr bool kTakesRatio = true;
  float rate, decay;  // rate: lr * ratio
  Moments moments;
  float first_scale;

  LambUpdate(float a_rate, float a_decay, const Moments& a_moments)
      : rate(a_rate), decay(a_decay), moments(a_moments), first_scale(static_cast<float>(1.0 / moments.correction1)) {}

  template <class V>
  V operator()(V g, V& w, V* state) const {
    moments.Add(g, state);
    const V direction = moments.Direction(state[0], state[1], first_scale) + w * decay;
    w = w - direction * rate;
    return direction;
  }
};

}  // namespace capstan::formulas
