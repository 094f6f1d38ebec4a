// ModelValues: the values of a program's model. They are set to the job's when a round begins, and checked for other
// changes when a slot ends.
//
// Kind:   owned by the trainer's thread. It keeps handles of the model's tensors, which share their memory with the
//         model's own.
// Fails:  kInvalid, kUnsupported: a tensor that the job cannot keep, or that the program changed by itself.
// Why:    parameters are trained by the servers; statistics are observed by each slot and averaged by the servers; all
//         other tensors must be the same in every process from the first step to the last.
#pragma once

#include <ATen/core/Tensor.h>
#include <capstan/client.h>
#include <capstan/libtorch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::libtorch {

class ModelValues {
 public:
  // `model` outlives the result.
  static Result<std::unique_ptr<ModelValues>> Create(const ::torch::nn::Module& model,
                                                     const ::torch::optim::Optimizer& optimizer);

  // Returns the tensors to declare: statistics, then parameters in the model's order. `given` receives their values.
  std::vector<TensorDeclaration> Tensors(std::vector<float>* given) const;
  // A hash of the tensors that must not change.
  std::uint64_t constants_hash() const;
  std::uint32_t tensor_count() const { return static_cast<std::uint32_t>(statistics_.size() + parameters_.size()); }
  std::uint64_t element_count() const { return elements_; }

  // In the following, weights and gradients are flat arrays of element_count() values in the order of Tensors().

  // Puts the weights of step `step` into the model, and clears the gradients. `weights` is valid until the next call.
  void Put(const float* weights, std::uint64_t step);
  // Puts the job's statistics into the model again, for a slot that begins.
  void RestoreStatistics();

  // Calls `call` with each parameter and its offset in the arrays.
  void ForEachParameter(const std::function<void(const at::Tensor&, std::uint64_t)>& call) const {
    for (const Parameter& entry : parameters_) call(entry.tensor, entry.offset);
  }

  // Checks before a slot's first backward pass that no parameter has a gradient.
  Status CheckIsClear() const;
  // Checks that grad() of each parameter still has what the last TakeGradients wrote to `gradient`. `before`: the call
  // that was about to use it, for the message.
  Status CheckGradients(const float* gradient, const std::string& before) const;
  // Copies grad() of each parameter to `gradient`.
  Status TakeGradients(Unused unused, float* gradient) const;
  // Checks that nothing but statistics has changed, writes what the slot observed of these to `gradient`, and clears
  // the gradients.
  Status EndSlot(float* gradient);

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::uint32_t group = 0;  // of the optimizer, from 0
    std::uint64_t offset = 0, size = 0;
  };
  struct Statistic {
    std::string name;
    at::Tensor tensor;
    std::uint64_t offset = 0, size = 0;
  };
  // A norm's counter of batches follows the job's step while the norm is in training mode.
  struct Counter {
    at::Tensor tensor;
    const ::torch::nn::Module* norm = nullptr;
    std::int64_t begin = 0;
    bool counts = true;
  };
  struct Constant {
    std::string name;
    at::Tensor tensor;
    bool is_parameter = false;
    std::uint64_t hash = 0;
    std::uint32_t version = 0;
  };

  explicit ModelValues(const ::torch::nn::Module& model) : model_(model) {}
  Status Collect(const ::torch::nn::Module& module, const std::string& prefix);
  Status AddBuffer(const ::torch::nn::Module& module, const std::string& name, const std::string& key,
                   const at::Tensor& tensor);
  bool IsKnown(const at::Tensor& tensor) const;
  Status SetGroups(const ::torch::optim::Optimizer& optimizer);
  void LayOut();
  void SetCounters();
  void ClearGradients();
  Status CheckSameModel() const;
  Status CheckWeights() const;
  Status CheckConstants();

  const ::torch::nn::Module& model_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<Counter> counters_;
  std::vector<Constant> constants_;
  std::uint64_t elements_ = 0;
  const float* weights_ = nullptr;  // the round's
  std::uint64_t step_ = 0;
  bool looked_ = false;  // the first slot has been checked
};

}  // namespace capstan::libtorch
