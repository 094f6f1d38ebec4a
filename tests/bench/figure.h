// Figure: one line of a benchmark: what was measured, beside a limit measured in the same run.
//
// Kind:   values.
// Why:    on machines shared with others a bare number says little; a ratio to what the machine gave just now does.
#pragma once

#include <string>

namespace capstan::bench {

struct Figure {
  std::string name;  // bench/what/size
  double value = 0.0;
  std::string unit;
  double limit = 0.0;  // in the same unit; 0: none
  std::string limit_name;
  double ratio = 0.0;  // value / limit
};

}  // namespace capstan::bench
