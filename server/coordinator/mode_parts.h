// MakeSteps, MakeGroup, MakeMachineGroups: the parts of a coordinator that depend on the mode, chosen in one place.
//
// Kind:   factories.
#pragma once

#include <memory>
#include <optional>

#include "common/config/job/forward.h"
#include "server/coordinator/allreduce_group.h"
#include "server/coordinator/machine_groups.h"
#include "server/coordinator/steps.h"
#include "server/coordinator/version_keeper.h"

namespace capstan::server {

std::unique_ptr<Steps> MakeSteps(const JobFacts& facts);
// Returns nothing unless the mode is allreduce.
std::optional<AllReduceGroup> MakeGroup(const JobConfig& config);
// Returns nothing unless the optimizer stays in the program.
std::optional<VersionKeeper> MakeVersionKeeper(const JobConfig& config);
// Returns nothing if the workers of one machine do not reduce among themselves.
std::optional<MachineGroups> MakeMachineGroups(const JobConfig& config, Term term);

}  // namespace capstan::server
