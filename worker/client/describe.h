// Translates a program's description of its worker into the protocol's terms.
//
// Kind:   pure functions.
#pragma once

#include <capstan/client.h>

#include <vector>

#include "common/config/job/forward.h"
#include "worker/session/session.h"

namespace capstan::client {

// Returns the tensors' specs. A tensor gets no weight decay when the program or the job file excludes it.
std::vector<TensorSpec> SpecsOf(const std::vector<TensorDeclaration>& tensors, const OptimizerSection& optimizer);

// Makes the declaration. Its `given` (the first weights) is left null.
session::Declaration DeclarationOf(const WorkerDescription& description, const JobConfig& config,
                                   std::vector<TensorSpec> catalog);

// Makes the report that a slot's EndSlot carries.
SlotReport ReportOf(SlotIndex slot, std::uint64_t samples, const SlotResult& result);

}  // namespace capstan::client
