#include "worker/libtorch/optimizer_state.h"

#include <ATen/ATen.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace capstan::libtorch {

namespace {

namespace optim = ::torch::optim;

// The arrays of one parameter.
class Arrays {
 public:
  Arrays(const Reader& reader, std::uint64_t updates, const at::Tensor& parameter, std::uint64_t offset)
      : reader_(reader), parameter_(parameter), offset_(offset), step_(static_cast<std::int64_t>(updates)) {}

  // Returns a copy of an array in the parameter's memory order; undefined if the job keeps none of this name.
  at::Tensor Copy(const std::string& name) const {
    for (std::size_t i = 0; i < reader_.state_names().size(); ++i) {
      if (reader_.state_names()[i] != name || reader_.state(i) == nullptr) continue;
      float* const values = const_cast<float*>(reader_.state(i)) + offset_;
      return at::empty_like(parameter_.data()).copy_(at::from_blob(values, parameter_.sizes(), at::kFloat));
    }
    return {};
  }
  std::int64_t step() const { return step_; }

 private:
  const Reader& reader_;
  const at::Tensor& parameter_;
  std::uint64_t offset_;
  std::int64_t step_;
};

template <class State>
std::unique_ptr<optim::OptimizerParamState> StateOfAdam(const Arrays& arrays) {
  auto state = std::make_unique<State>();
  state->step(arrays.step());
  state->exp_avg(arrays.Copy("exp_avg"));
  state->exp_avg_sq(arrays.Copy("exp_avg_sq"));
  state->max_exp_avg_sq(arrays.Copy("max_exp_avg_sq"));
  return state;
}

std::unique_ptr<optim::OptimizerParamState> StateOf(const optim::Optimizer& optimizer, const Arrays& arrays) {
  if (dynamic_cast<const optim::Adam*>(&optimizer) != nullptr) return StateOfAdam<optim::AdamParamState>(arrays);
  if (dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr) return StateOfAdam<optim::AdamWParamState>(arrays);
  if (dynamic_cast<const optim::Adagrad*>(&optimizer) != nullptr) {
    auto state = std::make_unique<optim::AdagradParamState>();
    state->step(arrays.step());
    state->sum(arrays.Copy("sum"));
    return state;
  }
  if (dynamic_cast<const optim::RMSprop*>(&optimizer) != nullptr) {
    auto state = std::make_unique<optim::RMSpropParamState>();
    state->step(arrays.step());
    state->square_avg(arrays.Copy("square_avg"));
    state->momentum_buffer(arrays.Copy("momentum_buffer"));
    state->grad_avg(arrays.Copy("grad_avg"));
    return state;
  }
  at::Tensor momentum = arrays.Copy("momentum_buffer");
  if (!momentum.defined()) return nullptr;  // SGD without momentum keeps no state
  auto state = std::make_unique<optim::SGDParamState>();
  state->momentum_buffer(std::move(momentum));
  return state;
}

// libtorch names a parameter's state by its address: as a text, and in newer versions as a pointer.
template <class Key>
Key KeyOf(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

}  // namespace

void SetOptimizerState(const Reader& reader, std::uint64_t updates, const at::Tensor& parameter, std::uint64_t offset,
                       optim::Optimizer& optimizer) {
  auto state = StateOf(optimizer, Arrays(reader, updates, parameter, offset));
  if (state == nullptr) return;
  using Key = typename std::decay_t<decltype(optimizer.state())>::key_type;
  optimizer.state()[KeyOf<Key>(parameter)] = std::move(state);
}

}  // namespace capstan::libtorch
