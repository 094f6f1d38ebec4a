#include "server/shard/step_engine.h"

#include "server/shard/clocked_step.h"
#include "server/shard/external_step.h"
#include "server/shard/replicated_step.h"
#include "server/shard/sync_step.h"

namespace capstan::server {

std::unique_ptr<StepEngine> CreateStepEngine(const ShardContext& shard, ServedStep* served,
                                             Acknowledgements* acknowledgements, PushJournal* journal) {
  switch (shard.options.job.mode) {
    case Mode::kSync:
      if (shard.options.job.optimizer.kind == OptimizerKind::kExternal)
        return std::make_unique<ExternalStep>(shard, served, acknowledgements);
      return std::make_unique<SyncStep>(shard, served, acknowledgements);
    case Mode::kAllReduce: return std::make_unique<ReplicatedStep>(shard, served, acknowledgements);
    case Mode::kAsync:
    case Mode::kBounded: return std::make_unique<ClockedStep>(shard, served, acknowledgements, journal);
  }
  return nullptr;
}

}  // namespace capstan::server
