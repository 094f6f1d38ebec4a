// Mutants: broken rules of a step that is computed again, and of its gradient's norm.
#include <algorithm>

#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/weights.h"
#include "tests/sim/addresses.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddRedos(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Hook deliver) {
    all->push_back({name, broken, Mode::kSync, Flaw::kNone, std::move(deliver), {}});
  };
  const auto is_last = [](const Tampering& t, std::uint64_t address) {
    return address == kShards + t.world->shards.size() - 1;
  };
  add("redo-coefficient", "the last shard does not look at the verdict's coefficient",
      On<Redo>([is_last](Tampering* t, Redo& redo) {
        if (is_last(*t, t->to)) redo.clip = 1.0F;
      }));
  add("redo-value", "the last shard does not look at the verdict's limit of elements",
      On<Redo>([is_last](Tampering* t, Redo& redo) {
        if (is_last(*t, t->to)) redo.clip_value = 0.0F;
      }));
  add("norm-before", "workers are not told the norm of the step before by some shards",
      On<Published>([is_last](Tampering* t, Published& published) {
        if (is_last(*t, t->from)) published.gradient_norm = 0.0;
      }));
  add("redo-ratios", "the last shard does not look at the verdict's trust ratios",
      On<Redo>([is_last](Tampering* t, Redo& redo) {
        if (is_last(*t, t->to)) redo.trust_ratios.clear();
      }));
  add("norms-in-part", "trust ratios leave out what the last shard has of a tensor",
      On<Prepared>([is_last](Tampering* t, Prepared& prepared) {
        if (is_last(*t, t->from)) std::ranges::fill(prepared.report.direction_squares, 0.0);
      }));
}

}  // namespace capstan::sim
