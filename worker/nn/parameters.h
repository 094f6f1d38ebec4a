// Parameters: the tensors of a model under construction, and each one's offset in the flat array.
//
// Kind:   value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "worker/nn/model.h"

namespace capstan::nn {

struct Parameter {
  TensorIndex index = 0;
  std::uint64_t offset = 0;  // first element in the flat array
};

class Parameters {
 public:
  Parameter Add(TensorSpec spec) {
    const Parameter parameter{static_cast<TensorIndex>(tensors_.size()), elements_};
    elements_ += spec.ElementCount();
    tensors_.push_back(std::move(spec));
    return parameter;
  }

  const std::vector<TensorSpec>& tensors() const { return tensors_; }

 private:
  std::vector<TensorSpec> tensors_;
  std::uint64_t elements_ = 0;
};

inline void NeedWeights(const Hooks& hooks, Parameter first, Parameter last) {
  if (hooks.need_weights) hooks.need_weights(first.index, last.index);
}

inline void GradientReady(const Hooks& hooks, Parameter first, Parameter last) {
  if (hooks.gradient_ready) hooks.gradient_ready(first.index, last.index);
}
inline void GradientReadyFrom(const Hooks& hooks, Parameter parameter, std::int64_t element) {
  if (hooks.gradient_ready_from) hooks.gradient_ready_from(parameter.index, static_cast<std::uint64_t>(element));
}

}  // namespace capstan::nn
