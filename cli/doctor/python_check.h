// CheckPython: whether a training script finds capstan's package and PyTorch.
//
// Kind:   ReadPython runs the interpreter for at most kPythonTime; CheckPython is a pure function.
#pragma once

#include <chrono>
#include <string>

#include "cli/doctor/finding.h"

namespace capstan::cli {

inline constexpr std::chrono::seconds kPythonTime{20};

struct PythonFacts {
  std::string problem;  // why there is no interpreter to ask; empty: there is one
  std::string version;
  std::string capstan;          // where the package is; empty: it cannot be imported
  std::string capstan_problem;  // why it cannot
  std::string torch;            // PyTorch's version; empty: it is not installed
};

// `interpreter`: such as "python3". `package_folder`: where this installation has its package; it is found only if no
// other one is. capstan launch gives programs the same.
PythonFacts ReadPython(const std::string& interpreter, const std::string& package_folder);
Finding CheckPython(const PythonFacts& facts, const std::string& interpreter);

}  // namespace capstan::cli
