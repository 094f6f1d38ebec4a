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

// Its name, once it has been found fit.
Result<std::string> OpenDevice(int device) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    return CudaFailure(status == cudaSuccess ? cudaErrorNoDevice : status,
                       "no CUDA device (the driver is of CUDA " + std::to_string(driver) +
                           ", 0 being none; needed is " + std::to_string(runtime) + "); set worker.device = \"cpu\"");
  }
  if (device < 0 || device >= count) {
    return Unsupported("CUDA device " + std::to_string(device) + "; this machine has " + std::to_string(count));
  }
  if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) return CudaFailure(status, "the device");
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess) {
    return CudaFailure(status, "the device's properties");
  }
  const std::string name =
      std::string(properties.name) + " sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  if (properties.major < kOldestMajor) {
    return Unsupported("CUDA device " + name + " is too old; sm_" + std::to_string(kOldestMajor) +
                       "0 or later is needed");
  }
  return name;
}

template <class T>
Result<std::unique_ptr<JobModel>> Create(const DeviceOptions& options, Precision precision,
                                         const nn::ModelShape& shape) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string name, OpenDevice(options.device));
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); status != cudaSuccess) {
    return CudaFailure(status, "making a stream");
  }
  CudaStream owned(stream);
  auto context = std::make_unique<kernels::CudaContext>(stream);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string products, kernels::LoadProducts(options.library_folders, context.get()));
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
