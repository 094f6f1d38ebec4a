// Fields(visitor, part): the fields of every struct that messages share, each listed once. See message_fields.h.
//
// Kind:   templates.
#pragma once

#include <capstan/hyper_parameters.h>
#include <capstan/metric.h>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/data/clipping.h"
#include "common/data/reduction_tree.h"
#include "common/wire/field.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// Returns the last value of an enumeration; the decoder refuses greater ones. All enumerations begin at 0.
constexpr Encoding LastOf(Encoding) { return Encoding::kFp16; }
constexpr InitKind LastOf(InitKind) { return InitKind::kFromWorker; }
constexpr TensorKind LastOf(TensorKind) { return TensorKind::kStatistic; }
constexpr StepAction LastOf(StepAction) { return StepAction::kSkip; }

template <class Visitor, MaybeConst<JobId> M>
void Fields(Visitor& v, M& m) {
  v(m.high, CAPSTAN_FIELD(High));
  v(m.low, CAPSTAN_FIELD(Low));
}

template <class Visitor, MaybeConst<Node> M>
void Fields(Visitor& v, M& m) {
  v(m.begin, CAPSTAN_FIELD(NodeBegin));
  v(m.end, CAPSTAN_FIELD(NodeEnd));
}

template <class Visitor, MaybeConst<SlotRange> M>
void Fields(Visitor& v, M& m) {
  v(m.begin, CAPSTAN_FIELD(Begin));
  v(m.end, CAPSTAN_FIELD(End));
}

template <class Visitor, MaybeConst<Init> M>
void Fields(Visitor& v, M& m) {
  v(m.kind, CAPSTAN_FIELD(InitKind));
  v(m.scale, CAPSTAN_FIELD(InitScale));
}

template <class Visitor, MaybeConst<TensorSpec> M>
void Fields(Visitor& v, M& m) {
  v(m.name, CAPSTAN_FIELD(Name));
  v(m.shape, CAPSTAN_FIELD(Shape), form::List{kDimensionsMax});
  v(m.init);
  v(m.decay, CAPSTAN_FIELD(Decay));
  v(m.group, CAPSTAN_FIELD(Group));
  v(m.kind, CAPSTAN_FIELD(Statistic));
}

template <class Visitor, MaybeConst<HyperParameters> M>
void Fields(Visitor& v, M& m) {
  v(m.learning_rate, CAPSTAN_FIELD(LearningRate));
  v(m.momentum, CAPSTAN_FIELD(Momentum));
  v(m.beta1, CAPSTAN_FIELD(Beta1));
  v(m.beta2, CAPSTAN_FIELD(Beta2));
  v(m.eps, CAPSTAN_FIELD(Eps));
  v(m.weight_decay, CAPSTAN_FIELD(WeightDecay));
  v(m.nesterov, CAPSTAN_FIELD(Nesterov));
  v(m.dampening, CAPSTAN_FIELD(Dampening));
  v(m.alpha, CAPSTAN_FIELD(Alpha));
  v(m.lr_decay, CAPSTAN_FIELD(LrDecay));
  v(m.initial_accumulator_value, CAPSTAN_FIELD(InitialAccumulatorValue));
  v(m.momentum_decay, CAPSTAN_FIELD(MomentumDecay));
  v(m.maximize, CAPSTAN_FIELD(Maximize));
  v(m.decoupled_weight_decay, CAPSTAN_FIELD(DecoupledWeightDecay));
}

template <class Visitor, MaybeConst<Metric> M>
void Fields(Visitor& v, M& m) {
  v(m.name, CAPSTAN_FIELD(Name));
  v(m.sum, CAPSTAN_FIELD(Sum));
  v(m.weight, CAPSTAN_FIELD(Weight));
}

template <class Visitor, MaybeConst<Clipping> M>
void Fields(Visitor& v, M& m) {
  v(m.norm, CAPSTAN_FIELD(ClipNorm));
  v(m.value, CAPSTAN_FIELD(ClipValue));
}

template <class Visitor, MaybeConst<SlotReport> M>
void Fields(Visitor& v, M& m) {
  v(m.slot, CAPSTAN_FIELD(Slot));
  v(m.samples, CAPSTAN_FIELD(Samples));
  v(m.loss_sum, CAPSTAN_FIELD(LossSum));
  v(m.predictions, CAPSTAN_FIELD(Predictions));
  v(m.validation_loss_sum, CAPSTAN_FIELD(ValidationLossSum));
  v(m.validation_predictions, CAPSTAN_FIELD(ValidationPredictions));
  v(m.validation_correct, CAPSTAN_FIELD(ValidationCorrect));
  v(m.metrics, CAPSTAN_FIELD(Metrics), form::OptionalList{});
  v(m.gradient_squares, CAPSTAN_FIELD(GradientSquares));
  v(m.replica_hash, CAPSTAN_FIELD(ReplicaHash));
  v(m.clipping);
}

template <class Visitor, MaybeConst<StepReport> M>
void Fields(Visitor& v, M& m) {
  v(m.sequence, CAPSTAN_FIELD(Sequence));
  v(m.report, CAPSTAN_FIELD(Report));
}

template <class Visitor, MaybeConst<StepParameters> M>
void Fields(Visitor& v, M& m) {
  v(m.updates, CAPSTAN_FIELD(Updates));
  v(m.learning_rate, CAPSTAN_FIELD(LearningRate));
  v(m.loss_scale, CAPSTAN_FIELD(LossScale));
  v(m.good_steps, CAPSTAN_FIELD(GoodSteps));
  v(m.snapshot, CAPSTAN_FIELD(Snapshot));
  v(m.stop, CAPSTAN_FIELD(Stop));
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
  v(m.upload_next, CAPSTAN_FIELD(UploadNext));
  v(m.on_shards, CAPSTAN_FIELD(NotOnShards), form::Negated{});
  v(m.gradient_norm, CAPSTAN_FIELD(GradientNorm));
}

template <class Visitor, MaybeConst<SnapshotId> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.version, CAPSTAN_FIELD(Version));
}

template <class Visitor, MaybeConst<SnapshotPart> M>
void Fields(Visitor& v, M& m) {
  v(m.id, CAPSTAN_FIELD(Id));
  v(m.part, CAPSTAN_FIELD(Part));
  v(m.digest, CAPSTAN_FIELD(Digest));
}

}  // namespace capstan
