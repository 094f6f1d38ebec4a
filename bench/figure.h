// Figure: one line of a benchmark: what was measured, with a limit measured in the same run.
//
// Kind:   values.
// Why:    on machines shared with others a bare number says little; a ratio to what the machine gave just now does.
#pragma once

#include <functional>
#include <string>

namespace capstan::bench {

struct Figure {
  std::string name;  // bench/what/size
  double value = 0.0;
  std::string unit;
  double limit = 0.0;  // in the same unit; 0: none
  std::string limit_name;
  double ratio = 0.0;
};

// The parts of a long benchmark that are to be measured.
struct Parts {
  std::string only;                             // figures with this in their name; empty: all
  std::string python;                           // the interpreter whose PyTorch it compares with; empty: Debian's
  std::function<void(const Figure&)> measured;  // called with each figure as soon as it is there
};

}  // namespace capstan::bench
