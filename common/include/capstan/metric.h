// Metric: a figure that a slot measured besides its loss: the slot's part of a weighted average over all slots.
//
// Kind:   a value.
// Limits: kMetricsMax metrics in a slot, and kMetricsMax names in a step; of more, those stay that most slots report. A
//         name has 1 to kMetricNameMax bytes of [A-Za-z0-9_./-].
// Why:    the job adds up the sums and weights of all slots, in slot order, and shows sum / weight for each step.
#pragma once

#include <cstddef>
#include <string>

namespace capstan {

inline constexpr std::size_t kMetricsMax = 32;
inline constexpr std::size_t kMetricNameMax = 64;

struct Metric {
  std::string name;
  double sum = 0.0;     // finite
  double weight = 0.0;  // finite, at least 0
  friend bool operator==(const Metric& a, const Metric& b) {
    return a.name == b.name && a.sum == b.sum && a.weight == b.weight;
  }
};

}  // namespace capstan
