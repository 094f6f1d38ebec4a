// CheckOptimizer, HyperParametersOf: run an optimizer of torch::optim on the servers.
//
// Kind:   pure functions.
// Fails:  kUnsupported: the servers do not run it, or would compute something else. kInvalid: the job file has another
//         optimizer. Each message has the line to write.
#pragma once

#include <capstan/hyper_parameters.h>

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job_config.h"

namespace torch::optim {
class Optimizer;
}

namespace capstan::libtorch {

// Checks class and options against the job's [optimizer], and that the optimizer has no state yet.
Status CheckOptimizer(const ::torch::optim::Optimizer& optimizer, const JobConfig& job);

// Returns the present numbers of each group. `optimizer` has passed CheckOptimizer.
std::vector<HyperParameters> HyperParametersOf(const ::torch::optim::Optimizer& optimizer);

// Returns the numbers as a message shows them, such as "lr=0.01 momentum=0.9".
std::string ToText(const HyperParameters& numbers);

}  // namespace capstan::libtorch
