// Synthetic data: samples generated from (seed, number), for tests, benchmarks and first experiments.
//
// Kind:   immutable; shared by threads.
// Why:    a working model must be able to learn this data. Each class is a noisy cloud around a centre. In the token
//         process each token has four possible successors, so the loss goes down to ln 4 = 1.386.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/job/forward.h"
#include "worker/data/dataset.h"

namespace capstan::train {

// Creates samples in the form that the job's model reads.
Result<std::unique_ptr<Dataset>> CreateSynthetic(const JobConfig& config);

}  // namespace capstan::train
