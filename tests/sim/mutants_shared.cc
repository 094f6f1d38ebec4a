// Mutants of payloads that lie in their sender's memory until they arrive.
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddSharedMemory(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Flaw flaw) {
    Mutant mutant{name, broken, Mode::kSync, flaw, {}, {}};
    mutant.shared = true;
    all->push_back(std::move(mutant));
  };
  add("referred-not-kept", "a sender uses memory again although the receiver has not copied it",
      Flaw::kReferredNotKept);
  add("copied-too-early", "a receiver says that it has copied a payload when the message comes in",
      Flaw::kCopiedTooEarly);
  add("copied-unasked", "a worker copies weights to where it computes without asking its session",
      Flaw::kCopiedUnasked);
  add("reference-of-any-connection", "a receiver believes references of connections that are gone",
      Flaw::kReferenceOfAnyConnection);
  add("lent-not-checked", "a shard does not check what it has read of a lent payload", Flaw::kLentNotChecked);
}

}  // namespace capstan::sim
