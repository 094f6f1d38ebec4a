// Translates a program's description of its worker and its slots' results into the structs of the protocol.
//
// Kind:   pure functions.
#pragma once

#include <capstan/client.h>

#include <vector>

#include "common/config/job/forward.h"
#include "worker/session/session.h"

namespace capstan::client {

// Returns the tensors as the protocol describes them. A tensor gets no weight decay if the program or the job file
// excludes it.
std::vector<TensorSpec> SpecsOf(const std::vector<TensorDeclaration>& tensors, const OptimizerSection& optimizer);

// Makes the declaration. Its `given` (the first weights) is left null.
session::Declaration DeclarationOf(const WorkerDescription& description, const JobConfig& config,
                                   std::vector<TensorSpec> catalog);

// Makes the report that a slot's EndSlot carries.
SlotReport ReportOf(SlotIndex slot, std::uint64_t samples, const SlotResult& result);

}  // namespace capstan::client
