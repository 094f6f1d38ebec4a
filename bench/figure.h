// Figure: one result of a benchmark: a value, measured in several rounds, next to a limit that the value is compared
// with.
//
// Kind:   values.
// Why:    on a shared machine an absolute number means little. The ratio to a limit of the same round means more, and
//         the spread of the rounds shows how far to trust it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace capstan::bench {

// A value and its limit as one round measured them, both in the figure's unit.
struct Sample {
  double value = 0.0;
  double limit = 0.0;  // 0: no limit
};

struct Spread {
  double median = 0.0, least = 0.0, most = 0.0;
};

// Returns the spread of `values`, which must not be empty. The median of an even count is the mean of the two in the
// middle.
Spread SpreadOf(std::vector<double> values);

struct Figure {
  std::string name;  // bench/what/size
  std::string unit;
  std::string limit_name;
  std::vector<Sample> rounds;  // at least one
  // Of the cores' time, taken by others while the figure's group was measured; nothing if that is not known.
  std::optional<double> others_share = {};

  bool has_limit() const { return rounds.front().limit != 0.0; }
  Spread Value() const;
  Spread Limit() const;
  // Spread of the rounds' ratios of value to limit. Only if there is a limit.
  Spread Ratio() const;
};

}  // namespace capstan::bench
