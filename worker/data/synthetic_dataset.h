// Synthetic data: samples made up from (seed, number), for tests, benchmarks and first tries.
//
// Kind:   immutable; shared by threads.
// Why:    a model that learns must be able to learn these: classes are noisy clouds around a centre each; in the token
//         process each token has four possible successors, so its loss goes down to ln 4 = 1.386 and no further.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/job/forward.h"
#include "worker/data/dataset.h"

namespace capstan::train {

// The form is the one that the model of the job reads.
Result<std::unique_ptr<Dataset>> CreateSynthetic(const JobConfig& config);

}  // namespace capstan::train
