// SearchMutant, TryMutant: look for a run in which a check notices a mutant, that is a rule broken on purpose.
//
// Kind:   functions; the jobs run in a child process, because an assertion of the product may abort that process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/seed_list.h"

namespace capstan::sim {

struct CaughtRun {
  RunName name;
  std::string how;  // the check that failed
};

// Tries the mutant in `runs` runs of its mode, with seeds from that of `first` on. Returns the first run that fails.
std::optional<CaughtRun> SearchMutant(const Mutant& mutant, RunName first, std::uint64_t runs);
// Tries the mutant in this run. Returns the run if it fails.
std::optional<CaughtRun> TryMutant(const Mutant& mutant, const RunName& name);
// Returns the run that is listed for this mutant; null: none.
const RunName* FindCaught(const std::vector<ListedRun>& caught, const Mutant& mutant);

}  // namespace capstan::sim
