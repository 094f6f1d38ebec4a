// MarkersOf: the cases (markers) that a set of simulated jobs should meet, and how often jobs meet them.
//
// Kind:   a table.
// Why:    runs that never met a case prove nothing about it; sim_test fails if a marker stays at zero in a set that
//         should have met it many times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/judge.h"

namespace capstan::sim {

struct Marker {
  std::string name;
  std::uint64_t jobs;  // of 10,000 jobs with random seeds, so many meet it, as `sim --runs 10000` counts
};

// Returns the markers of a kind of jobs; the seed in `name` does not matter.
const std::vector<Marker>& MarkersOf(const RunName& name);
// Whether a set of `runs` jobs must meet the marker: at least 20 of the jobs are expected to. The probability that none
// does is then at most e^-20.
bool ExpectedWithin(const Marker& marker, std::uint64_t runs);

}  // namespace capstan::sim
