// SetOptimizerState: puts the servers' state of an optimizer into the program's optimizer, in libtorch's form.
//
// Kind:   a pure function.
// Why:    after the job the program saves its optimizer, or trains on without capstan.
#pragma once

#include <ATen/core/Tensor.h>
#include <capstan/reader.h>

#include <cstdint>

namespace torch::optim {
class Optimizer;
}

namespace capstan::libtorch {

// Sets the state of one parameter. `reader` has read a version with the optimizer's state; the parameter's values begin
// at `offset` in each array. `updates`: how many updates the version has had. `optimizer` has passed CheckOptimizer.
void SetOptimizerState(const Reader& reader, std::uint64_t updates, const at::Tensor& parameter, std::uint64_t offset,
                       ::torch::optim::Optimizer& optimizer);

}  // namespace capstan::libtorch
