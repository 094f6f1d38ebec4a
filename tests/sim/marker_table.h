// MarkersOf: the cases that a set of simulated jobs is to meet, and how often jobs meet them.
//
// Kind:   a table.
// Why:    a set of runs that never met a case proves nothing about it; sim_test fails when a marker stays at zero
//         in a set that should have met it many times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/judge.h"

namespace capstan::sim {

struct Marker {
  std::string name;
  std::uint64_t jobs;  // of 10,000 with random seeds meet it, as `sim --runs 10000` counts
};

// Those of a kind of jobs, whatever its seed.
const std::vector<Marker>& MarkersOf(const RunName& name);
// Whether a set of so many jobs has to meet it: at least 20 of them are expected to. None does with probability e^-20.
bool ExpectedWithin(const Marker& marker, std::uint64_t runs);

}  // namespace capstan::sim
