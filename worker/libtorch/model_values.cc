#include "worker/libtorch/model_values.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>

#include "common/base/hash.h"

namespace capstan::libtorch {

namespace {

constexpr float kTenth = 10.0F;  // servers move a statistic a tenth of the way to what was observed

bool SameTensor(const at::Tensor& a, const at::Tensor& b) { return a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl(); }

std::string TypeOf(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " on " << tensor.device();
  return text.str();
}

std::string ShapeOf(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

at::Tensor View(const float* values, const at::Tensor& like) {
  return at::from_blob(const_cast<float*>(values), like.sizes(), at::kFloat);
}

// Whether the tensor's values, in the order of its elements, are these bytes.
bool HasBytes(const at::Tensor& tensor, const float* values) {
  const at::Tensor flat = tensor.data().contiguous();
  return std::memcmp(flat.data_ptr<float>(), values, flat.numel() * sizeof(float)) == 0;
}

bool IsPlain(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() && tensor.layout() == at::kStrided;
}

std::uint64_t HashOf(const at::Tensor& tensor) {
  const at::Tensor values = tensor.data().cpu().contiguous();
  return Hash64(std::as_bytes(std::span(static_cast<const char*>(values.data_ptr()), values.nbytes())));
}

template <class Norm>
bool IsCumulative(const ::torch::nn::Module& module) {
  const auto* const norm = dynamic_cast<const Norm*>(&module);
  return norm != nullptr && !norm->options.momentum().has_value();
}

Status CheckParameter(const std::string& name, const at::Tensor& tensor) {
  if (IsPlain(tensor)) return {};
  return Unsupported("parameter \"" + name + "\" is of " + TypeOf(tensor) +
                     "; the job keeps float32 of models on the CPU: write model.to(torch::kFloat) before Prepare()");
}

}  // namespace

Result<std::unique_ptr<ModelValues>> ModelValues::Create(const ::torch::nn::Module& model,
                                                         const ::torch::optim::Optimizer& optimizer) {
  std::unique_ptr<ModelValues> values(new ModelValues(model));
  CAPSTAN_RETURN_IF_ERROR(values->Collect(model, ""));
  if (values->parameters_.empty()) return Invalid("the model has no parameter to train");
  CAPSTAN_RETURN_IF_ERROR(values->SetGroups(optimizer));
  values->LayOut();
  return values;
}

Status ModelValues::Collect(const ::torch::nn::Module& module, const std::string& prefix) {
  for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
    const std::string name = prefix + entry.key();
    const at::Tensor& tensor = entry.value();
    if (!tensor.defined() || IsKnown(tensor)) continue;  // tied under another name
    if (tensor.requires_grad()) {
      CAPSTAN_RETURN_IF_ERROR(CheckParameter(name, tensor));
      parameters_.push_back({.name = name, .tensor = tensor});
    } else {
      constants_.push_back({name, tensor, true, HashOf(tensor), static_cast<std::uint32_t>(tensor._version())});
    }
  }
  for (const auto& entry : module.named_buffers(/*recurse=*/false)) {
    if (!entry.value().defined() || IsKnown(entry.value())) continue;
    CAPSTAN_RETURN_IF_ERROR(AddBuffer(module, prefix + entry.key(), entry.key(), entry.value()));
  }
  for (const auto& child : module.named_children()) {
    CAPSTAN_RETURN_IF_ERROR(Collect(*child.value(), prefix + child.key() + "."));
  }
  return {};
}

Status ModelValues::AddBuffer(const ::torch::nn::Module& module, const std::string& name, const std::string& key,
                              const at::Tensor& tensor) {
  using ::torch::nn::BatchNorm1dImpl, ::torch::nn::BatchNorm2dImpl, ::torch::nn::BatchNorm3dImpl;
  if (key == "running_mean" || key == "running_var") {
    if (!IsPlain(tensor)) {
      return Unsupported(
          "buffer \"" + name + "\" is of " + TypeOf(tensor) +
          "; the job keeps float32 of models on the CPU: write model.to(torch::kFloat) before Prepare()");
    }
    if (IsCumulative<BatchNorm1dImpl>(module) || IsCumulative<BatchNorm2dImpl>(module) ||
        IsCumulative<BatchNorm3dImpl>(module)) {
      return Unsupported(
          "the norm of buffer \"" + name +
          "\" averages over all batches (momentum = nullopt), of which a slot sees its own only: give it a "
          "momentum, such as BatchNormOptions::momentum(0.1)");
    }
    statistics_.push_back({.name = name, .tensor = tensor});
  } else if (key == "num_batches_tracked") {
    counters_.push_back({tensor, &module, tensor.item<std::int64_t>(), module.is_training()});
  } else {
    constants_.push_back({name, tensor, false, HashOf(tensor), static_cast<std::uint32_t>(tensor._version())});
  }
  return {};
}

bool ModelValues::IsKnown(const at::Tensor& tensor) const {
  const auto is_it = [&tensor](const auto& entry) { return SameTensor(entry.tensor, tensor); };
  return std::any_of(parameters_.begin(), parameters_.end(), is_it) ||
         std::any_of(constants_.begin(), constants_.end(), is_it);
}

Status ModelValues::SetGroups(const ::torch::optim::Optimizer& optimizer) {
  std::vector<bool> grouped(parameters_.size(), false);
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const at::Tensor& tensor : optimizer.param_groups()[group].params()) {
      if (!IsKnown(tensor)) {
        return Invalid("the optimizer has a parameter of shape " + ShapeOf(tensor) + " in group " +
                       std::to_string(group) +
                       " that the model does not have: register it in the model, or its module in one that has both");
      }
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (!SameTensor(parameters_[i].tensor, tensor)) continue;
        parameters_[i].group = static_cast<std::uint32_t>(group);
        grouped[i] = true;
      }
    }
  }
  const auto missing = std::find(grouped.begin(), grouped.end(), false);
  if (missing == grouped.end()) return {};
  return Invalid("parameter \"" + parameters_[missing - grouped.begin()].name +
                 "\" is in no group of the optimizer: add it, or freeze it with set_requires_grad(false)");
}

void ModelValues::LayOut() {
  const auto place = [this](auto& entry) {
    entry.offset = elements_;
    entry.size = entry.tensor.numel();
    elements_ += entry.size;
  };
  std::for_each(statistics_.begin(), statistics_.end(), place);
  std::for_each(parameters_.begin(), parameters_.end(), place);
}

std::vector<TensorDeclaration> ModelValues::Tensors(std::vector<float>* given) const {
  std::vector<TensorDeclaration> tensors;
  given->resize(elements_);
  const auto add = [&](const auto& entry, std::uint32_t group, bool statistic) {
    TensorDeclaration tensor;
    tensor.name = entry.name;
    tensor.shape = entry.tensor.sizes().vec();
    tensor.initial = InitialWeights::kGiven;
    tensor.group = group;
    tensor.statistic = statistic;
    tensors.push_back(std::move(tensor));
    View(given->data() + entry.offset, entry.tensor).copy_(entry.tensor.data());
  };
  for (const Statistic& entry : statistics_) add(entry, 1, true);
  for (const Parameter& entry : parameters_) add(entry, entry.group + 1, false);
  return tensors;
}

std::uint64_t ModelValues::constants_hash() const {
  Hasher hasher;
  for (const Constant& entry : constants_) {
    hasher.Add(entry.name.size());
    hasher.Add(entry.name);
    hasher.Add(entry.hash);
  }
  return hasher.Digest();
}

void ModelValues::Put(const float* weights, std::uint64_t step) {
  weights_ = weights;
  step_ = step;
  for (Parameter& entry : parameters_) entry.tensor.data().copy_(View(weights + entry.offset, entry.tensor));
  ClearGradients();
  RestoreStatistics();
}

void ModelValues::RestoreStatistics() {
  for (Statistic& entry : statistics_) entry.tensor.data().copy_(View(weights_ + entry.offset, entry.tensor));
  SetCounters();
}

void ModelValues::SetCounters() {
  for (Counter& entry : counters_) {
    entry.tensor.data().fill_(entry.counts ? static_cast<std::int64_t>(step_) : entry.begin);
  }
}

void ModelValues::ClearGradients() {
  for (Parameter& entry : parameters_) entry.tensor.mutable_grad().reset();
}

Status ModelValues::CheckIsClear() const {
  for (const Parameter& entry : parameters_) {
    const at::Tensor& grad = entry.tensor.grad();
    if (!grad.defined() || at::count_nonzero(grad).item<std::int64_t>() == 0) continue;
    return Invalid("parameter \"" + entry.name + "\" has a gradient in step " + std::to_string(step_) +
                   " that no Backward() of this slot computed: write trainer->Backward(loss) in place of "
                   "loss.backward(), and call optimizer.zero_grad() before it where you compute other gradients");
  }
  return {};
}

Status ModelValues::CheckGradients(const float* gradient, const std::string& before) const {
  for (const Parameter& entry : parameters_) {
    const at::Tensor& grad = entry.tensor.grad();
    const float* const taken = gradient + entry.offset;
    const bool same = grad.defined() ? grad.layout() == at::kStrided && HasBytes(grad, taken)
                                     : std::all_of(taken, taken + entry.size, [](float value) { return value == 0; });
    if (same) continue;
    return Invalid(
        "the gradient of parameter \"" + entry.name + "\" was changed in step " + std::to_string(step_) +
        " between Backward() and " + before +
        ", and the job takes what Backward() computed. To clip, write trainer->ClipNorm(max_norm) in place of "
        "torch::nn::utils::clip_grad_norm_, or ClipValue(max_value); call zero_grad() before the slot's first "
        "Backward(); put any other change into the loss");
  }
  return {};
}

Status ModelValues::TakeGradients(Unused unused, float* gradient) const {
  for (const Parameter& entry : parameters_) {
    const at::Tensor& grad = entry.tensor.grad();
    if (!grad.defined() && unused == Unused::kZero) {
      std::fill_n(gradient + entry.offset, entry.size, 0.0F);
      continue;
    }
    if (!grad.defined()) {
      return Invalid(
          "parameter \"" + entry.name + "\" has no gradient in step " + std::to_string(step_) +
          ": the loss does not depend on it. Where a branch is not taken in each step, set "
          "PrepareOptions::unused = Unused::kZero; where it is never trained, freeze it before Prepare(), with "
          "set_requires_grad(false)");
    }
    if (grad.layout() != at::kStrided) {
      return Unsupported("the gradient of parameter \"" + entry.name +
                         "\" is sparse, and the job takes dense ones: make its embedding with sparse(false)");
    }
    View(gradient + entry.offset, entry.tensor).copy_(grad.data());
  }
  return {};
}

Status ModelValues::EndSlot(float* gradient) {
  if (!looked_) CAPSTAN_RETURN_IF_ERROR(CheckSameModel());
  CAPSTAN_RETURN_IF_ERROR(CheckWeights());
  CAPSTAN_RETURN_IF_ERROR(CheckConstants());
  if (!looked_) {
    for (Counter& entry : counters_) entry.counts = entry.norm->is_training();
  }
  looked_ = true;
  for (const Statistic& entry : statistics_) {
    const at::Tensor now = entry.tensor.data().contiguous();
    for (std::uint64_t i = 0; i < entry.size; ++i) {
      const float before = weights_[entry.offset + i];
      gradient[entry.offset + i] = (now.data_ptr<float>()[i] - before) * kTenth + before;
    }
  }
  ClearGradients();
  RestoreStatistics();
  return {};
}

Status ModelValues::CheckSameModel() const {
  for (const auto& entry : model_.named_parameters()) {
    if (entry.value().defined() && !IsKnown(entry.value())) {
      return Invalid("parameter \"" + entry.key() + "\" was replaced or added after Prepare(), by step " +
                     std::to_string(step_) +
                     ", and the job does not know the new one: make the model whole before "
                     "Prepare()");
    }
  }
  return {};
}

Status ModelValues::CheckWeights() const {
  for (const Parameter& entry : parameters_) {
    if (!entry.tensor.requires_grad()) {
      return Invalid(
          "parameter \"" + entry.name + "\" was frozen after Prepare(), by step " + std::to_string(step_) +
          ", and the servers train it: freeze it before Prepare(), or give it a group of the optimizer, and set "
          "the group's lr to 0 in PrepareOptions::schedule");
    }
    if (IsPlain(entry.tensor) && static_cast<std::uint64_t>(entry.tensor.numel()) == entry.size &&
        HasBytes(entry.tensor, weights_ + entry.offset)) {
      continue;
    }
    return Unsupported(
        "parameter \"" + entry.name + "\" was changed by the program in step " + std::to_string(step_) +
        ", and the servers keep their own: the change would last for this step only. Write trainer->Step() "
        "in place of optimizer.step(); load other weights before Prepare(); and write a constraint "
        "(clamp_, a norm) into the forward pass or into the loss");
  }
  return {};
}

// After the first slot all bytes are compared, later only those of tensors that were written to.
Status ModelValues::CheckConstants() {
  for (Constant& entry : constants_) {
    if (entry.is_parameter && entry.tensor.requires_grad()) {
      return Invalid("parameter \"" + entry.name + "\" was unfrozen after Prepare(), by step " + std::to_string(step_) +
                     ", and the servers do not train it: unfreeze it before Prepare(), and set its group's lr to 0 in "
                     "PrepareOptions::schedule until it is to be trained");
    }
    const auto version = static_cast<std::uint32_t>(entry.tensor._version());
    if (looked_ && version == entry.version) continue;
    if (HashOf(entry.tensor) != entry.hash) {
      return Unsupported((entry.is_parameter ? "parameter \"" : "buffer \"") + entry.name + "\"" +
                         (entry.is_parameter ? ", which is frozen," : "") + " changed in step " +
                         std::to_string(step_) +
                         ", and the job does not keep it: every process would have its own. Compute it from the step, "
                         "trainer->step(), outside of the model");
    }
    entry.version = version;
  }
  return {};
}

}  // namespace capstan::libtorch
