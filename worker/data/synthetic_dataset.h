// CreateSynthetic: a dataset whose samples are computed from (seed, number), for tests, benchmarks and first
// experiments.
//
// Kind:   immutable; shared by threads.
// Why:    a working model must be able to learn this data. Each class is a noisy cloud around a centre. In sequences of
//         tokens each token has four successors of equal probability, so the loss can go down to about ln 4 = 1.386.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/job/forward.h"
#include "worker/data/dataset.h"

namespace capstan::train {

// Creates samples in the form that the job's model reads.
Result<std::unique_ptr<Dataset>> CreateSynthetic(const JobConfig& config);

}  // namespace capstan::train
