// Plan: what a benchmark can measure. Measure: runs the wanted part of a plan.
//
// Kind:   values and a function. A measurement may fork, so call Measure while this process has no other thread.
// Limits: rows are chosen by a part of their name; nothing that only other rows need is measured.
// Fails:  kInvalid: no row has the wanted text in its name. Otherwise as the measurements do.
// Why:    the measurements of a group take turns in each round, so that a value and its limit see the same machine, and
//         all benchmarks print alike.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/figure.h"
#include "bench/machine_use.h"
#include "common/base/status.h"

namespace capstan::bench {

// The numbers that one measurement found in one round.
using Readings = std::vector<double>;
using Measurement = std::function<Result<Readings>()>;

struct Row {
  std::string name, unit, limit_name;
  std::vector<std::size_t> needs;  // indexes of the group's measurements
  // Makes the sample of a round. `readings` are by index of measurement, and empty for one that no wanted row needs.
  std::function<Sample(const std::vector<Readings>& readings)> sample;
};

// Measurements that take turns, and the rows that are made of their readings.
struct RowGroup {
  std::vector<Measurement> measurements;
  std::vector<Row> rows;
};

inline constexpr int kRoundsMin = 2;  // one round would have no spread

struct Plan {
  std::vector<RowGroup> groups;
  int rounds = 3;
  // The wanted groups share this time. A group whose share is used up begins no further round after kRoundsMin. 0: no
  // limit.
  double seconds_max = 0.0;
};

struct Choice {
  std::string only;                                  // rows whose name contains this; empty: all
  std::string left_out = {};                         // what the plan lacks of the whole benchmark; for an error
  std::function<void(const Figure&)> measured = {};  // called with each figure as soon as it is measured
};

struct Results {
  std::vector<Figure> figures;
  MachineUse use;              // over all measurements
  std::size_t short_rows = 0;  // figures that have fewer rounds than planned
};

Result<Results> Measure(Plan plan, const Choice& choice);

}  // namespace capstan::bench
