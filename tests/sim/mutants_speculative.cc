// Mutants: broken rules of speculative weights.
#include "common/wire/messages/weights.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddSpeculative(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Hook deliver) {
    all->push_back({name, broken, Mode::kSync, Flaw::kNone, std::move(deliver), {}});
  };
  add("speculative-attempt", "a worker takes speculative weights of another attempt",
      On<Weights, Published>([](Tampering*, auto& body) { body.attempt = 0; }));
  add("speculative-early", "a worker computes with speculative weights before they are published",
      On<Weights>([](Tampering*, Weights& weights) { weights.speculative = false; }));
  add("speculative-skipped", "a worker takes what was prepared of a skipped step",
      On<Published>([](Tampering*, Published& published) { published.action = StepAction::kApply; }));
  add("published-program-state", "Published does not carry the program's state",
      On<Published>([](Tampering*, Published& published) { published.program_state.clear(); }));
  all->push_back({"published-once",
                  "Published is sent once to each worker, and never again",
                  Mode::kSync,
                  Flaw::kNone,
                  {},
                  On<Published>([](Tampering* t, Published& published) {
                    const auto key = std::tuple(std::uint64_t{20}, t->to, t->from, published.generation.value,
                                                published.version.value);
                    t->drop = !t->seen->insert(key).second;
                  })});
}

}  // namespace capstan::sim
