// Figure: one result of a benchmark: a measured value, next to a limit that the value is compared with.
//
// Kind:   values.
// Why:    on a shared machine an absolute number means little; the ratio to a limit of the same run means more.
#pragma once

#include <functional>
#include <string>

namespace capstan::bench {

struct Figure {
  std::string name;  // bench/what/size
  double value = 0.0;
  std::string unit;
  double limit = 0.0;  // in the same unit; 0: no limit
  std::string limit_name;
  double ratio = 0.0;
};

// Selects the parts of a long benchmark.
struct Parts {
  std::string only;                             // figures whose name contains this; empty: all
  std::string python;                           // interpreter whose PyTorch to compare with; empty: Debian's
  std::function<void(const Figure&)> measured;  // called with each figure as soon as it is measured
};

}  // namespace capstan::bench
