// Rates: the numbers of the optimizer's groups, step by step.
//
// Kind:   owned by the trainer's thread. It changes the program's optimizer as its schedule says.
// Fails:  kInvalid: the program changed a number by itself, so that a process that is started again, or another slot of
//         the step, would have another one.
// Why:    the servers compute with one set of numbers in each step, whichever process computes it.
#pragma once

#include <capstan/hyper_parameters.h>
#include <capstan/libtorch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/status.h"

namespace capstan::libtorch {

class Rates {
 public:
  // `optimizer` and the options' scheduler outlive the result.
  static Result<Rates> Create(::torch::optim::Optimizer& optimizer, const PrepareOptions& options);

  // Sets the numbers of this step in the optimizer and returns them. Steps may come in any order.
  Result<std::vector<HyperParameters>> GoTo(std::uint64_t step);
  // Checks that the optimizer has the numbers that GoTo returned. `before`: the call that needs them.
  Status Check(const std::string& before) const;

 private:
  Rates(::torch::optim::Optimizer& optimizer, const PrepareOptions& options);
  Status CheckUnchanged(std::uint64_t step) const;
  void StepScheduler(std::uint64_t step);

  ::torch::optim::Optimizer* optimizer_;
  std::function<void(std::uint64_t)> schedule_;
  ::torch::optim::LRScheduler* scheduler_;
  std::uint64_t scheduler_every_;
  std::vector<HyperParameters> first_, now_;     // at Prepare(); of the present step
  std::vector<std::vector<double>> rates_ = {};  // the groups' rates by the number of the scheduler's steps
  std::uint64_t step_ = 0;
};

}  // namespace capstan::libtorch
