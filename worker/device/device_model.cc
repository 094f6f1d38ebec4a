#include "worker/device/device_model.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cast.h"
#include "kernels/cuda/convolutions.h"

namespace capstan::train {

// ---- a batch ------------------------------------------------------------------------------------------------------

nn::Batch DeviceBatch::Put(const nn::Batch& batch) {
  const std::size_t sizes[] = {batch.inputs.size_bytes(), batch.tokens.size_bytes(), batch.targets.size_bytes()};
  const void* const from[] = {batch.inputs.data(), batch.tokens.data(), batch.targets.data()};
  std::size_t offsets[3], bytes = 0;
  for (int i = 0; i < 3; ++i) {
    offsets[i] = bytes;
    bytes += (sizes[i] + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (bytes > bytes_) {
    host_ = MakePinned(context_, bytes);
    device_ = context_.Allocate(bytes);
    bytes_ = bytes;
  }
  if (!context_.status().ok()) return {};
  auto* const host = static_cast<std::byte*>(host_.get());
  auto* const device = static_cast<std::byte*>(device_.get());
  for (int i = 0; i < 3; ++i) {
    if (sizes[i] > 0) std::memcpy(host + offsets[i], from[i], sizes[i]);
  }
  context_.Note(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, context_.stream()), "copying a batch");
  const auto at = [&]<class Number>(int i, std::span<const Number> on_host) {
    return std::span<const Number>(reinterpret_cast<const Number*>(device + offsets[i]), on_host.size());
  };
  return {batch.samples, at(0, batch.inputs), at(1, batch.tokens), at(2, batch.targets)};
}

// ---- the model ----------------------------------------------------------------------------------------------------

namespace {

// An estimate: 32 MiB for cuBLASLt, the rest for the kernels' partial sums and a piece of an unfolded image.
constexpr std::uint64_t kWorkBytes = std::uint64_t{64} << 20;

std::vector<std::int64_t> OffsetsOf(const std::vector<TensorSpec>& tensors) {
  std::vector<std::int64_t> offsets = {0};
  for (const TensorSpec& tensor : tensors) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(tensor.ElementCount()));
  }
  return offsets;
}

bool HasStatistics(const std::vector<TensorSpec>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorSpec& tensor) { return tensor.kind == TensorKind::kStatistic; });
}

template <class T>
constexpr Precision kPrecision = std::is_same_v<T, Bf16>   ? Precision::kBf16
                                 : std::is_same_v<T, Half> ? Precision::kFp16
                                                           : Precision::kFp32;

// The encoding of a job whose models compute in T. Used only for 16-bit types.
template <class T>
constexpr Encoding kEncoding = std::is_same_v<T, Bf16> ? Encoding::kBf16 : Encoding::kFp16;

}  // namespace

template <class T>
DeviceModel<T>::DeviceModel(CudaStream stream, std::unique_ptr<kernels::CudaContext> context,
                            std::unique_ptr<nn::Model<T>> model, std::string name, std::string notice, ModelMaker make)
    : stream_(std::move(stream)),
      context_(std::move(context)),
      upward_(MakeStream(*context_)),
      put_(MakeEvent(*context_)),
      model_(std::move(model)),
      name_(std::move(name)),
      notice_(std::move(notice)),
      make_(std::move(make)),
      offsets_(OffsetsOf(model_->tensors())),
      batch_(*context_),
      return_(*context_),
      device_(*context_),
      put_in_(model_->tensors().size(), 0) {}

template <class T>
DeviceModel<T>::~DeviceModel() {
  // Waits for enqueued work, because it uses members that are destroyed next.
  for (cudaStream_t stream : {upward_.get(), stream_.get()}) {
    if (stream != nullptr) (void)cudaStreamSynchronize(stream);
  }
}

template <class T>
void DeviceModel<T>::Reserve() {
  if (weights_ != nullptr) return;
  const auto count = static_cast<std::size_t>(offsets_.back());
  weights_ = context_->Allocate(count * sizeof(T));
  gradients_ = context_->Allocate(count * sizeof(float));
  if (kIs16Bit<T>) narrow_gradients_ = context_->Allocate(count * sizeof(T));
  if (kIs16Bit<T> && HasStatistics(model_->tensors())) statistics_ = context_->Allocate(count * sizeof(float));
}

template <class T>
void DeviceModel<T>::ReserveActivations(std::size_t bytes) {
  Reserve();
  model_->ReserveActivations(bytes);
}

template <class T>
std::optional<DeviceMemory> DeviceModel<T>::CountDeviceMemory() {
  const auto count = static_cast<std::uint64_t>(offsets_.back());
  const bool keeps_statistics = kIs16Bit<T> && HasStatistics(model_->tensors());
  const std::uint64_t convolving = context_->convolutions() != nullptr ? kernels::Convolutions::kWorkspaceBytes : 0;
  std::size_t free = 0, all = 0;
  context_->Note(cudaMemGetInfo(&free, &all), "asking for the device's free memory");
  return DeviceMemory{.device = name_,
                      .weights = count * (sizeof(T) + (keeps_statistics ? sizeof(float) : 0)),
                      .gradients = count * (sizeof(float) + (kIs16Bit<T> ? sizeof(T) : 0)),
                      .work = kWorkBytes + convolving,
                      .pinned = GradientReturn::kChunks * GradientReturn::kChunkElements * sizeof(float),
                      .free = free};
}

template <class T>
std::string DeviceModel<T>::PinWeights(const WeightsView& weights) {
  const void* const from = kIs16Bit<T> ? static_cast<const void*>(weights.narrow) : weights.wide;
  void* const memory = const_cast<void*>(from);  // CUDA only reads it
  const std::size_t bytes = static_cast<std::size_t>(offsets_.back()) * sizeof(T);
  const cudaError_t status = cudaHostRegister(memory, bytes, cudaHostRegisterDefault);
  if (status == cudaSuccess) {
    pinned_weights_.reset(memory);
    return {};
  }
  (void)cudaGetLastError();  // clears the error, so that no later call reports it
  return "the weights' " + std::to_string(bytes) + " bytes of the host could not be pinned (" +
         cudaGetErrorName(status) + "): copies to the device take longer, nothing else changes";
}

template <class T>
std::string DeviceModel<T>::TakeNotice() {
  std::string notice = std::exchange(notice_, {});
  kernels::Convolutions* const convolutions = context_->convolutions();
  const std::string refusals = convolutions == nullptr ? std::string() : convolutions->TakeRefusals();
  if (!refusals.empty()) notice += (notice.empty() ? "" : "; ") + ("convolutions left to im2col: " + refusals);
  return notice;
}

template <class T>
void DeviceModel<T>::PutWeights(const WeightsView& weights, TensorIndex first, TensorIndex last) {
  const auto put = [&](void* to, const void* from, std::int64_t begin, std::int64_t end, std::size_t width) {
    const std::size_t offset = static_cast<std::size_t>(begin) * width;
    context_->Note(
        cudaMemcpyAsync(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset,
                        static_cast<std::size_t>(end - begin) * width, cudaMemcpyHostToDevice, upward_.get()),
        "copying weights to the device");
  };
  const void* const from = kIs16Bit<T> ? static_cast<const void*>(weights.narrow) : weights.wide;
  bool any = false;
  for (TensorIndex tensor = first; tensor <= last && context_->status().ok(); ++tensor) {
    if (weights.round != 0 && put_in_[tensor] == weights.round) continue;
    put_in_[tensor] = weights.round;
    any = true;
    put(weights_.get(), from, offsets_[tensor], offsets_[tensor + 1], sizeof(T));
    if (statistics_ != nullptr && IsStatistic(tensor)) {
      put(statistics_.get(), weights.wide, offsets_[tensor], offsets_[tensor + 1], sizeof(float));
    }
  }
  if (any) Order(*context_, upward_.get(), put_.get(), context_->stream());
}

template <class T>
nn::Hooks DeviceModel<T>::WithWeights(const WeightsView& weights, const nn::Hooks& hooks) {
  nn::Hooks own;
  own.need_weights = [this, weights, &hooks](TensorIndex first, TensorIndex last) {
    if (hooks.need_weights) hooks.need_weights(first, last);
    PutWeights(weights, first, last);
    return_.Poll();
  };
  return own;
}

template <class T>
template <class Visit>
void DeviceModel<T>::ForAlike(TensorIndex first, TensorIndex last, const Visit& visit) const {
  const auto is_wide = [this](TensorIndex tensor) { return !kIs16Bit<T> || IsStatistic(tensor); };
  for (TensorIndex begin = first, end; begin <= last; begin = end) {
    for (end = begin + 1; end <= last && is_wide(begin) == is_wide(end);) ++end;
    visit(begin, end, is_wide(begin));
  }
}

template <class T>
void DeviceModel<T>::NarrowGradients(TensorIndex first, TensorIndex last) {
  if constexpr (kIs16Bit<T>) {
    const auto* const made = static_cast<const float*>(gradients_.get());
    T* const narrow = static_cast<T*>(narrow_gradients_.get());
    ForAlike(first, last, [&](TensorIndex begin, TensorIndex end, bool is_wide) {
      const std::int64_t offset = offsets_[begin];
      if (!is_wide) Cast(*context_, offsets_[end] - offset, made + offset, narrow + offset);
    });
  }
}

template <class T>
void DeviceModel<T>::AddGradients(FlatSum* sum, TensorIndex first, TensorIndex last) {
  auto* const made = static_cast<float*>(gradients_.get());
  NarrowGradients(first, last);
  ForAlike(first, last, [&](TensorIndex begin, TensorIndex end, bool is_wide) {
    const std::int64_t offset = offsets_[begin], count = offsets_[end] - offset;
    if constexpr (kIs16Bit<T>) {
      const T* const narrow = static_cast<const T*>(narrow_gradients_.get());
      if (!is_wide) Cast(*context_, count, narrow + offset, made + offset);
    }
    sum->Add(offset, count, made + offset);
  });
}

template <class T>
void DeviceModel<T>::SendGradients(float* gradients, TensorIndex first, TensorIndex last,
                                   std::function<void()> arrived) {
  const auto* const made = static_cast<const float*>(gradients_.get());
  const T* const narrow = static_cast<const T*>(narrow_gradients_.get());
  NarrowGradients(first, last);
  return_.AwaitMade();
  // Ranges arrive in order, so only the last one gets `arrived`.
  ForAlike(first, last, [&](TensorIndex begin, TensorIndex end, bool is_wide) {
    const std::int64_t offset = offsets_[begin];
    const void* const from = is_wide ? static_cast<const void*>(made + offset) : narrow + offset;
    return_.Send(from, is_wide ? Encoding::kFp32 : kEncoding<T>, offsets_[end] - offset, gradients + offset,
                 end > last ? std::move(arrived) : nullptr);
  });
}

template <class T>
Result<nn::LossSums> DeviceModel<T>::Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                                           const nn::StepKey& key, const nn::TrainOptions& options,
                                           const nn::Hooks& hooks) {
  model_->Check(batch);
  Reserve();
  CAPSTAN_RETURN_IF_ERROR(context_->status());
  nn::Hooks own = WithWeights(weights, hooks);
  own.backward_begins = hooks.backward_begins;
  auto* const made = static_cast<float*>(gradients_.get());
  if (options.deliver) {
    own.gradient_ready = [&](TensorIndex first, TensorIndex last) {
      if (FlatSum* const sum = device_.open_sum(); sum != nullptr) {
        AddGradients(sum, first, last);
        if (hooks.gradient_ready) hooks.gradient_ready(first, last);
        return;
      }
      SendGradients(gradients, first, last, [&hooks, first, last] {
        if (hooks.gradient_ready) hooks.gradient_ready(first, last);
      });
      return_.Poll();
    };
  }
  const nn::Batch there = batch_.Put(batch);
  CAPSTAN_RETURN_IF_ERROR(context_->status());
  model_->StartTraining(static_cast<const T*>(weights_.get()), made, there, key, options, own);
  return_.Finish();
  return Loss();
}

template <class T>
Result<nn::LossSums> DeviceModel<T>::Evaluate(const WeightsView& weights, const nn::Batch& batch,
                                              const nn::Hooks& hooks) {
  model_->Check(batch);
  Reserve();
  CAPSTAN_RETURN_IF_ERROR(context_->status());
  const nn::Hooks own = WithWeights(weights, hooks);
  const nn::Batch there = batch_.Put(batch);
  CAPSTAN_RETURN_IF_ERROR(context_->status());
  const auto* const on_device = static_cast<const T*>(weights_.get());
  const Wide<T>* statistics = static_cast<const float*>(statistics_.get());
  model_->StartEvaluation(on_device, there, own, statistics);
  return Loss();
}

template <class T>
Result<nn::LossSums> DeviceModel<T>::Loss() {
  const nn::LossSums sums = model_->Loss();
  CAPSTAN_RETURN_IF_ERROR(context_->status());
  return sums;
}

template <class T>
std::string DeviceModel<T>::NumericClass() const {
  return train::NumericClass(kPrecision<T>, name_);
}

template <class T>
Result<std::uint64_t> DeviceModel<T>::NumericFingerprint() const {
  return train::NumericFingerprint(kPrecision<T>, make_);
}

template class DeviceModel<float>;
template class DeviceModel<Bf16>;
template class DeviceModel<Half>;

}  // namespace capstan::train
