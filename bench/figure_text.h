// The words in which all benchmarks print their figures.
//
// Kind:   pure functions.
#pragma once

#include <string>
#include <vector>

#include "bench/figure.h"
#include "bench/machine_use.h"
#include "bench/plan.h"

namespace capstan::bench {

// If others take a larger share of the cores' time, rates and times of this machine say nothing about capstan.
inline constexpr double kOthersShareMax = 0.10;

// Returns the figure as a line without a line feed: medians, and the least and the most of the rounds.
std::string LineOf(const Figure& figure);
// Returns one line for each figure, in columns, with a head.
std::string TableOf(const std::vector<Figure>& figures);
// Says how many rows have fewer rounds than planned.
std::string ShortRowsLine(const Results& results);
// Whether the figure also holds on a busy machine: it is processor time or memory.
bool HoldsOnBusyMachine(const Figure& figure);
// Says how much of the machine others took while `figures` were measured and, if that is too much, what to do.
std::string OthersLine(const MachineUse& use, const std::vector<Figure>& figures);

}  // namespace capstan::bench
