// The model of a simulated job: small, with gradients that depend on everything that they may depend on.
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
// Numbers for every group, different at every step; empty: the job file has them.
std::vector<HyperParameters> HyperParametersOf(const ClusterOptions& options, Step step);
// First weights from workers of this kind.
float FirstWeight(std::uint32_t kind, std::uint64_t element);
// The state that a program makes at the end of a step from the state it was given; its length depends on the step.
std::string NextProgramState(const std::string& state, Step step);
// The state of the version that this step begins with, computed step by step from the start.
std::string ProgramStateAt(Step step);
// Samples of a slot: 0 to 3, the same for every caller. Without global steps a slot with an infinite gradient has none,
// because real clients skip it.
std::uint64_t SamplesOf(const ClusterOptions& options, Step step, SlotIndex slot);
// Depends on the weight in a way that amplifies any difference.
float GradientOf(const ClusterOptions& options, float weight, Step step, SlotIndex slot, std::uint64_t element);

}  // namespace capstan::sim
