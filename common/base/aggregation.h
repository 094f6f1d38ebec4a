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
constexpr bool AddsGradients(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kMean: return true;
    case Aggregation::kMedian:
    case Aggregation::kNone: return false;
  }
  return false;
}
// Whether an update divides a sum of slots' gradients, each times its samples, by the number of all samples.
constexpr bool IsMean(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kMean:
    case Aggregation::kNone: return true;
    case Aggregation::kMedian: return false;
  }
  return false;
}

}  // namespace capstan
