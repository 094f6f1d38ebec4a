// TryMutant: looks for a seed that shows a broken rule.
//
// Kind:   a function; the jobs run in a child process, because a broken rule may end it by an assertion of the product.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/seed_list.h"

namespace capstan::sim {

struct Catch {
  RunName name;
  std::string how;  // the check that failed
};

// The first failing run of this mutant, among `runs` runs in its mode, with seeds from that of `first` on.
std::optional<Catch> SearchMutant(const Mutant& mutant, RunName first, std::uint64_t runs);
// The same for one run.
std::optional<Catch> TryMutant(const Mutant& mutant, const RunName& name);
// The run listed for this mutant among the caught ones; null: none.
const RunName* FindCaught(const std::vector<ListedRun>& caught, const Mutant& mutant);

}  // namespace capstan::sim
