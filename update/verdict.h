// The verdict on a prepared step: apply it, skip it, prepare it again with a clip factor or trust ratios, or stop the
// job.
//
// Kind:   pure functions of the shards' reports.
// Why:    clipping, trust ratios and the finite check need the whole gradient. Sums run in catalog order, so the
//         verdict does not depend on the number of shards or the order of their answers. A restarted coordinator
//         reaches the same verdict.
// Source: clipping by global norm, Pascanu, Mikolov, Bengio, ICML 2013; as in PyTorch, c = min(1, max / (norm + 1e-6)).
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

// A committed step's figures: one line of metrics.jsonl.
struct StepRecord {
  Generation generation;
  Step step;
  StepAction action = StepAction::kApply;
  double loss = 0.0;           // mean over the predictions of the global batch
  double learning_rate = 0.0;  // group 1's rate in the pushes, if they had one, else the schedule's
  double gradient_norm = 0.0;  // before clipping
  double loss_scale = 1.0;
  std::uint64_t samples = 0;
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;
  std::map<std::string, double> metrics;  // at most kMetricsMax; sum / weight over the slots; NaN if the weight is 0
  std::size_t metrics_left_out = 0;       // names beyond these
  double seconds = 0.0;                   // time since the previous step
  double time = 0.0;                      // when it was committed, in seconds of Unix time; 0: not known yet
};

struct Verdict {
  enum class Kind { kCommit, kRedo, kStop } kind = Kind::kCommit;
  StepAction action = StepAction::kApply;
  float clip = 1.0F;                // kRedo
  float clip_value = 0.0F;          // kRedo: limit of each element's magnitude; 0: no limit
  std::vector<float> trust_ratios;  // kRedo: one per tensor; empty: all are 1
  StepParameters next;              // kCommit
  StepRecord record;                // kCommit
  std::string reason;               // kStop: what went wrong, and where
  std::vector<SlotIndex> suspects;  // slots whose loss was not finite
};

// Lists all segments in catalog order, each with its shard and its position in that shard's report.
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

// Returns the parameters of step `step`, before which `updates` updates were applied. In fp16 the loss scale is
// kFirstLossScale. If no step is left to do (step >= job.steps), `stop` is set.
StepParameters ParametersOf(const JobConfig& config, Step step, std::uint64_t updates);

// Reaches the verdict on `attempt`. A step's attempts are decided in turn: attempt 0; if the norm is above the limit,
// one with the clip factor, or if elements are clipped, one with their limit; if the optimizer uses trust ratios, one
// with these. The slots' reports have the limit that the training program gives; without one, the job file's applies.
//
// `prepared`: one report per shard, all of `attempt` or later. Reports of later attempts differ only in the squares of
// the direction. Those change only with the clip factor, and are read only once the factor is final. So a coordinator
// that restarts and gets reports of a later attempt reaches the same verdict.
//
// In mode allreduce each worker has already called this function for its own replica, as for a job of mode sync with
// one shard. The slots' reports then carry the results, which must be the same on all workers.
Verdict Decide(const JobConfig& config, const Catalog& catalog, const SegmentOrder& order,
               const std::vector<const Prepared*>& prepared, std::uint32_t attempt, const StepParameters& parameters);

// Adds up slot reports, in slot order, into a step's record: loss, samples, validation figures and metrics. Of more
// than kMetricsMax names, those stay that most slots report; of equals, the first by name.
void AddSlotReports(std::vector<SlotReport> reports, StepRecord* record);

}  // namespace capstan
