// ShapeOfModel: the job file's model, fitted to the data's shape. JobTensors: the tensors that it declares to servers.
//
// Kind:   pure functions.
// Fails:  kInvalid that names what in the model does not fit the data.
#pragma once

#include <vector>

#include "common/config/job/forward.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace capstan::train {

Result<nn::ModelShape> ShapeOfModel(const JobConfig& config, const SampleSpec& samples);

// Returns the model's tensors. A tensor gets no weight decay if the model or the job file excludes it.
std::vector<TensorSpec> JobTensors(const JobConfig& config, std::vector<TensorSpec> model_tensors);

}  // namespace capstan::train
