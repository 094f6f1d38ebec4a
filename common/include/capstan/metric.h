// Metric: what a slot measured beside its loss, for people: its part of a weighted average over all slots.
//
// Kind:   a value.
// Limits: kMetricsMax of a slot; a name has 1 to kMetricNameMax bytes of [A-Za-z0-9_./-].
// Why:    the job adds up sums and weights of all slots, in the order of the slots, and shows sum / weight of each
// step.
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
