// Mutants: broken rules of the end of a job.
#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddEnding(std::vector<Mutant>* all) {
  const Hook end = On<View>([](Tampering* t, View& view) {
    const server::Coordinator* coordinator = t->world->coordinator;
    const bool finished = coordinator != nullptr && coordinator->state() == server::Coordinator::State::kFinished;
    if (finished && view.session.value != 0) view.phase = JobPhase::kDone;
  });
  all->push_back({"ended-early",
                  "workers are told to end as soon as the last step is committed",
                  Mode::kSync,
                  Flaw::kNone,
                  {},
                  end});
}

}  // namespace capstan::sim
