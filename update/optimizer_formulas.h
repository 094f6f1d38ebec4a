// The formulas of the optimizers, for one element or for eight.
//
// Kind:   internal to block_update.cc: templates over float and V8.
// Types:  fp32; factors are computed once per update, in double where PyTorch does so.
// Parity: torch.optim, which has no LARS and no LAMB.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/status.h"
#include "update/block_update.h"

namespace capstan::formulas {

// The compiler's vector types do not depend on the instruction set. The same expressions run on V8 and on float.
using V8 = float __attribute__((vector_size(32)));

inline float Sqrt(float x) { return std::sqrt(x); }
inline V8 Sqrt(V8 x) {
  V8 root;
  for (int lane = 0; lane < 8; ++lane) root[lane] = std::sqrt(x[lane]);
  return root;
}

// Returns base^exponent by squaring, in double. libm's pow is not used, because its last bit differs between versions.
inline double IntegerPower(double base, std::uint64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

// A segment without weight decay has weight_decay 0. An optimizer with a trust ratio returns its direction, because the
// ratio needs the direction's norm.

struct SgdUpdate {
  static constexpr int kStates = 0;
  float lr, decay;
  template <class V>
  void operator()(V g, V& w, V*) const {
    w = w - (g + w * decay) * lr;
  }
};

template <bool kNesterov>
struct MomentumUpdate {
  static constexpr int kStates = 1;
  float lr, decay, momentum;
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] * momentum + d;
    if constexpr (kNesterov) {
      w = w - (d + state[0] * momentum) * lr;
    } else {
      w = w - state[0] * lr;
    }
  }
};

// Running means of gradients and of their squares, with their bias corrections.
struct Moments {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, root_scale;
  double correction1;

  Moments(const OptimizerRule& rule, std::uint64_t step)
      : beta1(static_cast<float>(rule.beta1)),
        one_minus_beta1(static_cast<float>(1.0 - rule.beta1)),
        beta2(static_cast<float>(rule.beta2)),
        one_minus_beta2(static_cast<float>(1.0 - rule.beta2)),
        eps(static_cast<float>(rule.eps)),
        root_scale(static_cast<float>(1.0 / std::sqrt(1.0 - IntegerPower(rule.beta2, step)))),
        correction1(1.0 - IntegerPower(rule.beta1, step)) {}

  // Updates the means m and v; returns m * scale / (sqrt(v) * root_scale + eps).
  template <class V>
  V Add(V g, V* state, float scale) const {
    state[0] = state[0] * beta1 + g * one_minus_beta1;
    state[1] = state[1] * beta2 + g * one_minus_beta2 * g;
    return state[0] * scale / (Sqrt(state[1]) * root_scale + eps);
  }
};

// Adam: Kingma and Ba, 2015. AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
template <bool kDecoupled>
struct AdamUpdate {
  static constexpr int kStates = 2;
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
    w = w - moments.Add(g, state, step_size);
  }
};

// Adagrad: Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011.
struct AdagradUpdate {
  static constexpr int kStates = 1;
  float lr, decay, eps;
  template <class V>
  void operator()(V g, V& w, V* state) const {
    const V d = g + w * decay;
    state[0] = state[0] + d * d;
    w = w - d * lr / (Sqrt(state[0]) + eps);
  }
};

// Statistics have no optimizer: the kept value moves towards the step's observed value. The block's states, if any, do
// not change.
template <int kStatesOfBlock>
struct StatisticUpdate {
  static constexpr int kStates = kStatesOfBlock;
  template <class V>
  void operator()(V observed, V& w, V*) const {
    w = w + (observed - w) * kStatisticMomentum;
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
    const V direction = moments.Add(g, state, first_scale) + w * decay;
    w = w - direction * rate;
    return direction;
  }
};

// External: the version is the mean gradient itself, which the program's own optimizer takes.
struct MeanUpdate {
  static constexpr int kStates = 0;

  template <class V>
  void operator()(V g, V& w, V*) const {
    w = g;
  }
};

template <class Update>
concept TakesRatio = requires {
  Update::kTakesRatio;
};

// The numbers of an update that differ between segments.
struct SegmentFactors {
  double decay = 0.0;
  float trust_ratio = 1.0F;

  SegmentFactors(const GroupRule& group, const UpdateScalars& scalars, const SegmentRange& segment)
      : decay(segment.decay ? group.rule.weight_decay : 0.0) {
    if (scalars.trust_ratios.empty()) return;
    CAPSTAN_CHECK(segment.tensor < scalars.trust_ratios.size());
    trust_ratio = scalars.trust_ratios[segment.tensor];
  }
};

// Calls use(update) with the optimizer of `group` and its factors for this segment.
template <class Use>
void WithOptimizer(const GroupRule& group, const UpdateScalars& scalars, const SegmentRange& segment, const Use& use) {
  const OptimizerRule& rule = group.rule;
  const SegmentFactors own(group, scalars, segment);
  const auto lr = static_cast<float>(group.learning_rate);
  const auto rate = static_cast<float>(group.learning_rate * static_cast<double>(own.trust_ratio));
  const float decay = static_cast<float>(own.decay);
  const float momentum = static_cast<float>(rule.momentum);
  switch (rule.kind) {
    case OptimizerKind::kSgd: return use(SgdUpdate{lr, decay});
    case OptimizerKind::kMomentum:
      return rule.nesterov ? use(MomentumUpdate<true>{lr, decay, momentum})
                           : use(MomentumUpdate<false>{lr, decay, momentum});
    case OptimizerKind::kAdam: return use(AdamUpdate<false>(group, scalars, own.decay));
    case OptimizerKind::kAdamW: return use(AdamUpdate<true>(group, scalars, own.decay));
    case OptimizerKind::kAdagrad: return use(AdagradUpdate{lr, decay, static_cast<float>(rule.eps)});
    case OptimizerKind::kLars: return use(LarsUpdate{rate, decay, momentum});
    case OptimizerKind::kLamb: return use(LambUpdate(rate, decay, Moments(rule, scalars.step)));
    case OptimizerKind::kExternal: return use(MeanUpdate{});
  }
}

}  // namespace capstan::formulas
