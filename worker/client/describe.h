// What a worker's description says to the protocol.
//
// Kind:   pure functions.
#pragma once

#include <capstan/client.h>

#include <vector>

#include "common/config/job/forward.h"
#include "worker/session/session.h"

namespace capstan::client {

// Weight decay spares what the program or the job file says.
std::vector<TensorSpec> SpecsOf(const std::vector<TensorDeclaration>& tensors, const OptimizerSection& optimizer);

// Without first weights.
Declaration DeclarationOf(const WorkerDescription& description, const JobConfig& config,
                          std::vector<TensorSpec> catalog);

// What a slot says of itself at its end.
SlotReport ReportOf(SlotIndex slot, std::uint64_t samples, const SlotResult& result);

}  // namespace capstan::client
