// SlotReport: what a slot reports with the end of a step.
//
// Kind:   values.
#pragma once

#include <capstan/metric.h>

#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace capstan {

// A slot's report, once per step, besides its gradient.
struct SlotReport {
  SlotIndex slot = 0;
  std::uint64_t samples = 0;  // n of the slot
  double loss_sum = 0.0;      // summed over `predictions`
  std::uint64_t predictions = 0;
  double validation_loss_sum = 0.0;  // this slot's share of the validation set, with the weights of this step
  std::uint64_t validation_predictions = 0;
  std::uint64_t validation_correct = 0;
  std::vector<Metric> metrics;  // further figures that the program measured
  // allreduce: what this slot's worker has of the whole step, the same bits on all of them: the sum of squares of the
  // averaged gradient before clipping, and a hash of that and of some block of the weights that it made.
  double gradient_squares = 0.0;
  std::uint64_t replica_hash = 0;
  bool operator==(const SlotReport&) const = default;
};

struct StepReport {
  Step step;
  SlotReport report;
};

}  // namespace capstan
