// capstan bench: runs one benchmark by name and prints its figures.
//
// Why:    the benchmarks lie with the tests, which see the command line but are not seen by it; the binary is linked
//         with the list that they bring.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace capstan::cli {

// What was measured, beside a limit measured in the same run.
struct BenchFigure {
  std::string name;
  double value = 0.0;
  std::string unit;
  double limit = 0.0;  // in the same unit; 0: none
  std::string limit_name;
  double ratio = 0.0;
};

// Of a benchmark that is long enough to be run in parts.
struct BenchParts {
  std::string only;                                  // figures with this in their name; empty: all
  std::string python;                                // the interpreter whose PyTorch it compares with; empty: Debian's
  std::function<void(const BenchFigure&)> measured;  // called with each figure as soon as it is there
};

struct Bench {
  std::string name, help;
  std::function<Result<std::vector<BenchFigure>>()> run;
  std::function<Result<std::vector<BenchFigure>>(const BenchParts&)> run_parts = {};  // instead, where it has parts
};

// Defined beside the benchmarks.
std::span<const Bench> AllBenches();

struct BenchArguments {
  std::string name;
  std::string output = "table";  // or json
  std::string only, python;      // as BenchParts's
};

// Returns the exit code.
int RunBench(const BenchArguments& arguments, std::span<const Bench> benches);

}  // namespace capstan::cli
