// ShapeOfModel: the model that a job file asks for, fitted to the data's shape. JobTensors: what it declares to
// servers.
//
// Kind:   pure functions.
// Fails:  kInvalid, naming what of the model does not fit the data.
#pragma once

#include <vector>

#include "common/config/job/forward.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace capstan::train {

Result<nn::ModelShape> ShapeOfModel(const JobConfig& config, const SampleSpec& samples);

// The model's tensors, with the job's word on which of them decay.
std::vector<TensorSpec> JobTensors(const JobConfig& config, std::vector<TensorSpec> model_tensors);

}  // namespace capstan::train
