// WithOptimizer: chooses the formula of a group's optimizer and computes the factors that it takes.
//
// Kind:   internal to block_update.cc. momentum_formulas.h, adaptive_formulas.h and adam_formulas.h have the formulas.
// Why:    a formula is a template over float and V8, so that one expression updates one element or eight.
//
// An update is called as update(gradient, weight, states). A segment without weight decay has weight_decay 0. An
// optimizer with a trust ratio returns its direction, because the ratio needs the direction's norm. All updates of a
// job have the same number of states, because a version of a block has all its arrays.
#pragma once

#include "common/base/status.h"
#include "update/adam_formulas.h"
#include "update/adaptive_formulas.h"
#include "update/block_update.h"
#include "update/momentum_formulas.h"

namespace capstan::formulas {

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

// Calls use(update) for one element of a statistic in a block with `states` optimizer states.
template <class Use>
void WithStatistic(int states, const Use& use) {
  static_assert(kStatesMax == 3);
  switch (states) {
    case 0: return use(StatisticUpdate<0>{});
    case 1: return use(StatisticUpdate<1>{});
    case 2: return use(StatisticUpdate<2>{});
    default: return use(StatisticUpdate<3>{});
  }
}

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

// ---- One function per family that chooses among its variants. Each calls use(update).

template <class Use>
void WithMomentum(const GroupRule& group, const UpdateScalars& scalars, double decay, const Use& use) {
  const OptimizerRule& rule = group.rule;
  const auto lr = static_cast<float>(group.learning_rate), momentum = static_cast<float>(rule.momentum);
  const bool damps = scalars.step > 1 && rule.momentum != 0.0;
  const auto undamped = static_cast<float>(damps ? 1.0 - rule.dampening : 1.0);
  const auto own_decay = static_cast<float>(decay);
  if (rule.nesterov) return use(MomentumUpdate<true>{lr, own_decay, momentum, undamped});
  return use(MomentumUpdate<false>{lr, own_decay, momentum, undamped});
}

template <class Use>
void WithLion(const GroupRule& group, double decay, const Use& use) {
  const OptimizerRule& rule = group.rule;
  return use(LionUpdate{static_cast<float>(group.learning_rate), static_cast<float>(1.0 - group.learning_rate * decay),
                        static_cast<float>(rule.beta1), static_cast<float>(1.0 - rule.beta1),
                        static_cast<float>(rule.beta2), static_cast<float>(1.0 - rule.beta2)});
}

template <class Use>
void WithAdagrad(const GroupRule& group, const UpdateScalars& scalars, double decay, const Use& use) {
  const OptimizerRule& rule = group.rule;
  const double lr = group.learning_rate / (1.0 + static_cast<double>(scalars.step - 1) * rule.lr_decay);
  const double initial = scalars.step == 1 ? rule.initial_accumulator_value : 0.0;
  return use(AdagradUpdate{static_cast<float>(lr), static_cast<float>(decay), static_cast<float>(rule.eps),
                           static_cast<float>(initial)});
}

template <bool kCentered, bool kMomentum>
RmspropUpdate<kCentered, kMomentum> MakeRmsprop(const GroupRule& group, double decay) {
  const OptimizerRule& rule = group.rule;
  return {static_cast<float>(group.learning_rate), static_cast<float>(decay),    static_cast<float>(rule.alpha),
          static_cast<float>(1.0 - rule.alpha),    static_cast<float>(rule.eps), static_cast<float>(rule.momentum)};
}

template <class Use>
void WithRmsprop(const GroupRule& group, double decay, const Use& use) {
  if (group.rule.centered) {
    return group.rule.keeps_momentum ? use(MakeRmsprop<true, true>(group, decay))
                                     : use(MakeRmsprop<true, false>(group, decay));
  }
  return group.rule.keeps_momentum ? use(MakeRmsprop<false, true>(group, decay))
                                   : use(MakeRmsprop<false, false>(group, decay));
}

template <class Use>
void WithAdadelta(const GroupRule& group, double decay, const Use& use) {
  const OptimizerRule& rule = group.rule;
  return use(AdadeltaUpdate{static_cast<float>(group.learning_rate), static_cast<float>(decay),
                            static_cast<float>(rule.alpha), static_cast<float>(1.0 - rule.alpha),
                            static_cast<float>(rule.eps)});
}

template <bool kDecoupled, class Use>
void WithAdam(const GroupRule& group, const UpdateScalars& scalars, double decay, const Use& use) {
  if (group.rule.amsgrad) return use(AdamUpdate<kDecoupled, true>(group, scalars, decay));
  return use(AdamUpdate<kDecoupled, false>(group, scalars, decay));
}

template <class Use>
void WithRadam(const GroupRule& group, const UpdateScalars& scalars, double decay, const Use& use) {
  const RadamFactors factors(group.rule.beta2, scalars.step);
  if (factors.rectified) return use(RadamUpdate<true>(group, scalars, decay, factors));
  return use(RadamUpdate<false>(group, scalars, decay, factors));
}

// Calls use(update) with the optimizer of `group` and its factors for this segment.
template <class Use>
void WithOptimizer(const GroupRule& group, const UpdateScalars& scalars, const SegmentRange& segment, const Use& use) {
  const OptimizerRule& rule = group.rule;
  const SegmentFactors own(group, scalars, segment);
  const auto lr = static_cast<float>(group.learning_rate);
  const auto rate = static_cast<float>(group.learning_rate * static_cast<double>(own.trust_ratio));
  const auto decay = static_cast<float>(own.decay);
  switch (rule.kind) {
    case OptimizerKind::kSgd: return use(SgdUpdate{lr, decay});
    case OptimizerKind::kMomentum: return WithMomentum(group, scalars, own.decay, use);
    case OptimizerKind::kAdam: return WithAdam<false>(group, scalars, own.decay, use);
    case OptimizerKind::kAdamW: return WithAdam<true>(group, scalars, own.decay, use);
    case OptimizerKind::kAdagrad: return WithAdagrad(group, scalars, own.decay, use);
    case OptimizerKind::kRmsprop: return WithRmsprop(group, own.decay, use);
    case OptimizerKind::kAdadelta: return WithAdadelta(group, own.decay, use);
    case OptimizerKind::kAdamax: return use(AdamaxUpdate(group, scalars, own.decay));
    case OptimizerKind::kNadam: return use(NadamUpdate(group, scalars, own.decay));
    case OptimizerKind::kRadam: return WithRadam(group, scalars, own.decay, use);
    case OptimizerKind::kLion: return WithLion(group, own.decay, use);
    case OptimizerKind::kLars: return use(LarsUpdate{rate, decay, static_cast<float>(rule.momentum)});
    case OptimizerKind::kLamb: return use(LambUpdate(rate, decay, Moments(rule, scalars.step)));
    case OptimizerKind::kExternal: return use(MeanUpdate{});
  }
}

}  // namespace capstan::formulas
