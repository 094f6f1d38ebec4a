#include "worker/device/create_device_model.h"

#include <utility>

#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/load_products.h"
#include "worker/device/device_model.h"
#include "worker/nn/convnet_model.h"
#include "worker/nn/gpt_model.h"
#include "worker/nn/mlp_model.h"
#include "worker/nn/resnet_model.h"

namespace capstan::train {

namespace {

constexpr int kOldestMajor = 8;  // compute capability 8.0: the first whose tensor cores compute in bf16

Status CudaFailure(cudaError_t status, const std::string& what) {
  return Unsupported(what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

// Returns "13.1" for 13010.
std::string CudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Selects the device for this thread and returns its name; fails if the device is unsuitable.
Result<std::string> OpenDevice(const DeviceOptions& options) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    const std::string found = driver == 0 ? "no NVIDIA driver" : "a driver for CUDA " + CudaVersion(driver);
    const cudaError_t cause = status == cudaSuccess ? cudaErrorNoDevice : status;
    return CudaFailure(cause, "no CUDA device that can be used: this machine has " + found +
                                  ", capstan is built with " + CudaVersion(runtime) +
                                  "; start this worker where there is a GPU with a driver for that or a later one, or "
                                  "set worker.device = \"cpu\"");
  }
  const auto devices = static_cast<std::uint32_t>(count);
  if (options.index && *options.index >= devices) {
    return Unsupported("worker.device names device " + std::to_string(*options.index) + ", counted from 0; there " +
                       (devices == 1 ? "is 1" : "are " + std::to_string(devices)));
  }
  const auto device = static_cast<int>(options.index.value_or(options.local_rank % devices));
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess) {
    return CudaFailure(status, "the device's properties");
  }
  const std::string name =
      std::string(properties.name) + " sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  if (properties.major < kOldestMajor) {
    return Unsupported("CUDA device " + std::to_string(device) + ", " + name + ", is too old: sm_" +
                       std::to_string(kOldestMajor) +
                       "0 or later is needed; name another one in worker.device, or set "
                       "it to \"cpu\"");
  }
  // This call comes after the checks, because it makes the driver initialize the device.
  if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) return CudaFailure(status, name);
  return name;
}

// What all models of a worker have in common: the job's model, and the small ones of the numeric fingerprint.
struct DeviceJob {
  DeviceOptions options;
  Precision precision = Precision::kFp32;
  bool convolves = false;  // false: cuDNN is not needed
};

// The libraries that compute: their names for the numeric class, and a notice that says what computes convolutions.
struct Libraries {
  std::string name, notice;
};

Result<Libraries> LoadLibraries(const DeviceJob& job, kernels::CudaContext* context) {
  Libraries found;
  CAPSTAN_ASSIGN_OR_RETURN(found.name, kernels::LoadProducts(job.options.libraries, context));
  if (!job.convolves) return found;
  const Result<std::string> convolutions = kernels::LoadConvolutions(job.options.libraries, context);
  if (convolutions.ok()) found.name += ", " + *convolutions;
  found.notice = "convolutions: " + (convolutions.ok() ? *convolutions : "im2col, " + convolutions.status().message());
  return found;
}

Result<std::unique_ptr<JobModel>> CreateOf(const DeviceJob& job, const nn::ModelShape& shape);

template <class T>
Result<std::unique_ptr<JobModel>> Create(const DeviceJob& job, const nn::ModelShape& shape) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string name, OpenDevice(job.options));
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); status != cudaSuccess) {
    return CudaFailure(status, "making a stream");
  }
  CudaStream owned(stream);
  auto context = std::make_unique<kernels::CudaContext>(stream);
  CAPSTAN_ASSIGN_OR_RETURN(const Libraries libraries, LoadLibraries(job, context.get()));
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<nn::Model<T>> model, nn::CreateModel<T>(*context, shape));
  const ModelMaker make = [job](const nn::ModelShape& other) { return CreateOf(job, other); };
  kernels::CudaContext& device = *context;
  auto made = std::make_unique<DeviceModel<T>>(std::move(owned), std::move(context), std::move(model),
                                               name + ", " + libraries.name, libraries.notice, make);
  CAPSTAN_RETURN_IF_ERROR(device.status());
  return std::unique_ptr<JobModel>(std::move(made));
}

Result<std::unique_ptr<JobModel>> CreateOf(const DeviceJob& job, const nn::ModelShape& shape) {
  switch (job.precision) {
    case Precision::kFp32: return Create<float>(job, shape);
    case Precision::kBf16: return Create<Bf16>(job, shape);
    case Precision::kFp16: return Create<Half>(job, shape);
  }
  return Invalid("an unknown precision");
}

}  // namespace

Result<std::unique_ptr<JobModel>> CreateDeviceModel(const DeviceOptions& options, Precision precision,
                                                    const nn::ModelShape& shape) {
  const bool convolves =
      std::holds_alternative<nn::ConvnetShape>(shape) || std::holds_alternative<nn::ResnetShape>(shape);
  return CreateOf({options, precision, convolves}, shape);
}

}  // namespace capstan::train
