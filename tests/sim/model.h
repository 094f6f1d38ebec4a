// The model of a simulated job: a few small tensors, and gradients that depend on everything that they may depend on.
//
// Kind:   pure functions of the options.
#pragma once

#include <capstan/hyper_parameters.h>

#include <string>
#include <vector>

#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "common/data/clipping.h"
#include "tests/sim/cluster.h"

namespace capstan::sim {

EditableJobConfig MakeConfig(const ClusterOptions& options);
std::vector<TensorSpec> MakeCatalog(const ClusterOptions& options);
// Returns every group's hyper-parameters, which differ from step to step; empty: the job file sets them.
std::vector<HyperParameters> HyperParametersOf(const ClusterOptions& options, Step step);
// Returns the limits that the program gives for a step's clipping. Some steps have none.
Clipping ClippingOf(const ClusterOptions& options, Step step);
// Returns a factor of the slots' gradients. It depends on the norm of the step before, so that a wrong norm changes the
// weights.
float NormFactor(const ClusterOptions& options, double norm_before);
// Returns an element of the first weights that workers of this kind bring.
float FirstWeight(std::uint32_t kind, std::uint64_t element);
// Returns the state that a program makes at the end of a step from the state it was given. Its length varies.
std::string NextProgramState(const std::string& state, Step step);
// Returns the program state of the version with which this step begins, computed step by step from the start.
std::string ProgramStateAt(Step step);
// Returns how many samples a slot has at a step: 0 to 3. Without global steps a slot with an infinite gradient has
// none, because real clients push such a slot without samples.
std::uint64_t SamplesOf(const ClusterOptions& options, Step step, SlotIndex slot);
// Returns an element of a slot's mean gradient. It depends on the weight, so that a wrong weight changes later ones.
float GradientOf(const ClusterOptions& options, float weight, Step step, SlotIndex slot, std::uint64_t element);

}  // namespace capstan::sim
