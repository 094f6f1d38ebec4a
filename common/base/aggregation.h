// Aggregation: what a step makes of the gradients of its slots.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

enum class Aggregation : std::uint8_t {
  kMean,    // the mean over all samples: a sum along the reduction tree, divided by the number of samples
  kMedian,  // element by element the median of the slots' gradients, whatever their numbers of samples
  kNone,    // each slot's gradient is applied by itself; modes without global steps
};

// Whether gradients may be added before they reach the shard that applies them.
constexpr bool AddsGradients(Aggregation aggregation) { return aggregation == Aggregation::kMean; }
// Whether an update divides a sum by the number of samples in it.
constexpr bool IsMean(Aggregation aggregation) {
  return aggregation == Aggregation::kMean || aggregation == Aggregation::kNone;
}

}  // namespace capstan
