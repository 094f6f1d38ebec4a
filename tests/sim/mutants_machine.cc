// Mutants: broken rules of machine reduction. MachineWorker breaks them, around the unchanged core.
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddMachine(std::vector<Mutant>* all) {
  const auto flawed = [&](const char* name, const char* broken, Flaw flaw) {
    Mutant mutant{name, broken, Mode::kSync, flaw, {}, {}};
    mutant.local = true;
    all->push_back(std::move(mutant));
  };
  flawed("machine-step", "the workers of a machine add up whatever their steps", Flaw::kHeadsOfAnyStep);
  flawed("machine-release", "a worker's deferred pushes are not sent when its machine's group does not add them up",
         Flaw::kDeferredForgotten);
  flawed("machine-round", "a worker ends its round before it has pushed all sums for its machine",
         Flaw::kRoundNotAwaited);
}

}  // namespace capstan::sim
