// SlotReport: a slot's report at the end of a step.
//
// Kind:   values.
#pragma once

#include <capstan/metric.h>

#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "common/data/clipping.h"

namespace capstan {

// An EndSlot message carries one report for each step of a slot. The shard passes the report on to the coordinator.
struct SlotReport {
  SlotIndex slot = 0;
  std::uint64_t samples = 0;  // number of samples of the slot
  double loss_sum = 0.0;      // sum of losses over `predictions`
  std::uint64_t predictions = 0;
  double validation_loss_sum = 0.0;  // over this slot's share of the validation set, with this step's weights
  std::uint64_t validation_predictions = 0;
  std::uint64_t validation_correct = 0;
  std::vector<Metric> metrics;  // other figures that the program measured
  // allreduce: two results of the whole step, which must be the same on all workers: the sum of squares of the averaged
  // gradient before clipping, and a hash of that sum and of one block of the new weights.
  double gradient_squares = 0.0;
  std::uint64_t replica_hash = 0;
  Clipping clipping;  // sync: how the training program has the step's gradient clipped; the same from all slots
  bool operator==(const SlotReport&) const = default;
};

struct StepReport {  // modes without global steps: a report, named by its slot's sequence number
  SequenceNumber sequence;
  SlotReport report;
};

}  // namespace capstan
