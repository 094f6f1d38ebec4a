// capstan bench: runs one benchmark by name and prints its figures.
#pragma once

#include <span>
#include <string>

#include "bench/bench_table.h"

namespace capstan::cli {

struct BenchArguments {
  std::string name;
  std::string output = "table";  // or json
  std::string only;              // see bench::Choice
  std::string python;            // see bench::BenchRequest
  bool is_quick = false;
};

// Runs the benchmark that `arguments` names and returns the exit code. Without such a benchmark, lists all of them.
int RunBench(const BenchArguments& arguments, std::span<const bench::Bench> benches);

}  // namespace capstan::cli
