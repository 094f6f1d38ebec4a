#include "worker/train/device/create_device_model.h"

#include <utility>

#include "kernels/cuda/load_products.h"
#include "worker/nn/convnet_model.h"
#include "worker/nn/gpt_model.h"
#include "worker/nn/mlp_model.h"
#include "worker/nn/resnet_model.h"
#include "worker/train/device/device_model.h"

namespace capstan::train {

namespace {

constexpr int kOldestMajor = 8;  // bf16 in the tensor cores

Status CudaFailure(cudaError_t status, const std::string& what) {
  return Unsupported(what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

// 13010 is 13.1.
std::string CudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Its name, once it has been found fit.
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
  if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) return CudaFailure(status, "the device");
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
  return name;
}

template <class T>
Result<std::unique_ptr<JobModel>> Create(const DeviceOptions& options, Precision precision,
                                         const nn::ModelShape& shape) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string name, OpenDevice(options));
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); status != cudaSuccess) {
    return CudaFailure(status, "making a stream");
  }
  CudaStream owned(stream);
  auto context = std::make_unique<kernels::CudaContext>(stream);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string products, kernels::LoadProducts(options.libraries, context.get()));
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<nn::Model<T>> model, nn::CreateModel<T>(*context, shape));
  const ModelMaker make = [options, precision](const nn::ModelShape& other) {
    return CreateDeviceModel(options, precision, other);
  };
  kernels::CudaContext& device = *context;
  auto made = std::make_unique<DeviceModel<T>>(std::move(owned), std::move(context), std::move(model),
                                               name + ", " + products, make);
  CAPSTAN_RETURN_IF_ERROR(device.status());
  return std::unique_ptr<JobModel>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<JobModel>> CreateDeviceModel(const DeviceOptions& options, Precision precision,
                                                    const nn::ModelShape& shape) {
  switch (precision) {
    case Precision::kFp32: return Create<float>(options, precision, shape);
    case Precision::kBf16: return Create<Bf16>(options, precision, shape);
    case Precision::kFp16: return Create<Half>(options, precision, shape);
  }
  return Invalid("an unknown precision");
}

}  // namespace capstan::train
