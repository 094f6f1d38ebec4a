// CreateModel: the model that a job file asks for, fitted to the data's shape.
//
// Kind:   pure function.
// Fails:  kInvalid, naming what of the model does not fit the data.
#pragma once

#include <memory>

#include "common/job_config.h"
#include "worker/nn/model.h"
#include "worker/train/data/dataset.h"

namespace capstan::train {

template <class Real>
Result<std::unique_ptr<nn::Model<Real>>> CreateModel(kernels::CpuContext& context, const JobConfig& config,
                                                     const SampleSpec& samples);

}  // namespace capstan::train
