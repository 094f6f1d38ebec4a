#include "server/coordinator/mode_parts.h"

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "server/coordinator/allreduce_steps.h"
#include "server/coordinator/clocked_steps.h"
#include "server/coordinator/committed_steps.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/external_steps.h"

namespace capstan::server {

std::unique_ptr<Steps> MakeSteps(const JobFacts& facts) {
  switch (facts.options.config.mode()) {
    case Mode::kSync:
      if (facts.options.config.optimizer.kind == OptimizerKind::kExternal)
        return std::make_unique<ExternalSteps>(facts);
      return std::make_unique<CommittedSteps>(facts);
    case Mode::kAllReduce: return std::make_unique<AllReduceSteps>(facts);
    case Mode::kAsync:
    case Mode::kBounded: break;
  }
  return std::make_unique<ClockedSteps>(facts, facts.options.config.job.acknowledge == Acknowledge::kDurable);
}

std::optional<AllReduceGroup> MakeGroup(const JobConfig& config) {
  if (config.mode() != Mode::kAllReduce) return std::nullopt;
  return AllReduceGroup();
}

std::optional<VersionKeeper> MakeVersionKeeper(const JobConfig& config) {
  if (config.optimizer.kind != OptimizerKind::kExternal) return std::nullopt;
  return VersionKeeper();
}

std::optional<MachineGroups> MakeMachineGroups(const JobConfig& config, Term term) {
  if (!ReducesLocally(config)) return std::nullopt;
  return MachineGroups(term);
}

}  // namespace capstan::server
