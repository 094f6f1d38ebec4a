// What a simulated job trains: a small model whose gradients depend on everything they may depend on.
//
// Kind:   pure functions of the options.
#pragma once

#include <capstan/hyper_parameters.h>

#include <string>
#include <vector>

#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "tests/sim/cluster.h"

namespace capstan::sim {

EditableJobConfig MakeConfig(const ClusterOptions& options);
std::vector<TensorSpec> MakeCatalog(const ClusterOptions& options);
// Of every group, other ones at every step; empty: the job file owns them.
std::vector<HyperParameters> HyperParametersOf(const ClusterOptions& options, Step step);
// What workers of this kind bring as first weights.
float GivenWeight(std::uint32_t kind, std::uint64_t element);
// What a program makes of the state it was handed, at the end of a step; as long as the step wants it.
std::string NextProgramState(const std::string& state, Step step);
// Of the version that this step begins with: from the first step on, one after the other.
std::string ProgramStateAt(Step step);
// Samples of a slot: 0 to 3, the same whoever asks. Without global steps a slot whose gradient is infinite has none, as
// real clients leave it out.
std::uint64_t SamplesOf(const ClusterOptions& options, Step step, SlotIndex slot);
// Depends on the weight in a way that amplifies any difference.
float GradientOf(const ClusterOptions& options, float weight, Step step, SlotIndex slot, std::uint64_t element);

}  // namespace capstan::sim
