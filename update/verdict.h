// The verdict on a prepared step: apply it, skip it, or prepare it again with a clip factor or trust ratios.
//
// Kind:   pure functions of what the shards report.
// Why:    clipping, trust ratios and the finite check need the whole gradient. Sums run in catalog order, so the
//         verdict depends on neither the number of shards nor who answered first, and a new coordinator reaches the
//         same one.
// Source: global-norm clipping as in Pascanu, Mikolov, Bengio, ICML 2013: c = min(1, max / (norm + 1e-6)).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job/forward.h"
#include "common/data/catalog.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

struct Prepared;

// What a committed step looked like: one line of metrics.jsonl.
struct StepRecord {
  Generation generation;
  Step step;
  StepAction action = StepAction::kApply;
  double loss = 0.0;           // mean over the predictions of the global batch
  double learning_rate = 0.0;  // the one that came with the pushes (of group 1), else the job file's
  double gradient_norm = 0.0;  // before clipping
  double loss_scale = 1.0;
  std::uint64_t samples = 0;
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;
  std::map<std::string, double> metrics;  // sum / weight over the slots; of weight 0 NaN
  double seconds = 0.0;                   // since the step before
};

struct Verdict {
  enum class Kind { kCommit, kRedo, kStop } kind = Kind::kCommit;
  StepAction action = StepAction::kApply;
  float clip = 1.0F;                // kRedo
  std::vector<float> trust_ratios;  // kRedo: by tensor; empty: all of them 1
  StepParameters next;              // kCommit
  StepRecord record;                // kCommit
  std::string reason;               // kStop: what was not finite, and where
  std::vector<SlotIndex> suspects;  // kStop: slots whose loss was not finite either
};

// Where each shard's segments stand in the catalog.
class SegmentOrder {
 public:
  SegmentOrder(const Catalog& catalog, std::uint32_t shard_count);
  std::size_t segment_count(ShardIndex shard) const { return counts_[shard]; }
  // Calls visit(shard, position within the shard's report, segment index) in catalog order.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    for (std::size_t i = 0; i < places_.size(); ++i) visit(places_[i].shard, places_[i].position, i);
  }

 private:
  struct Place {
    ShardIndex shard = 0;
    std::size_t position = 0;
  };
  std::vector<Place> places_;
  std::vector<std::size_t> counts_;
};

// Parameters of step `step` after `updates` applied ones.
StepParameters ParametersOf(const JobConfig& config, Step step, std::uint64_t updates);

// Where workers update, the reports of their slots say what they have, which is to be the same, and each of them has
// asked this function about its own replica, as about a job of mode sync with one shard.
//
// Every attempt of a step is decided in turn: 0; where the norm is above the limit, one more with the clip factor;
// where the optimizer takes trust ratios, one more with these. `prepared`: one report per shard, all prepared at
// `attempt` or later. What reports of later attempts say otherwise is the direction's squares, which change with the
// clip factor alone and are looked at when that is the final one: whoever decides, and how late, reaches the same
// verdict.
Verdict Decide(const JobConfig& config, const Catalog& catalog, const SegmentOrder& order,
               const std::vector<const Prepared*>& prepared, std::uint32_t attempt, const StepParameters& parameters);

// Sums of slot reports in slot order: loss, samples, validation figures and metrics of a step's record.
void AddSlotReports(std::vector<SlotReport> reports, StepRecord* record);

}  // namespace capstan
