#include "worker/device/cuda_device.h"

#include <cstdio>

#include "worker/device/device_adder.h"
#include "worker/device/nccl_group.h"

namespace capstan::train {

Result<GroupDevice> CudaDevice::FindGroupDevice(const kernels::LibrarySearch& libraries) const {
  int device = 0;
  cudaDeviceProp properties{};
  context_.Note(cudaGetDevice(&device), "asking for the device");
  context_.Note(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  CAPSTAN_RETURN_IF_ERROR(context_.status());
  GroupDevice found;
  for (const char byte : properties.uuid.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    found.id += digits;
  }
  CAPSTAN_ASSIGN_OR_RETURN(found.backend, FindNccl(libraries));
  return found;
}

Result<DeviceSum*> CudaDevice::Sum(std::span<float> host, Encoding wire) {
  if (sum_ == nullptr) {
    const cudaError_t status = cudaHostRegister(host.data(), host.size_bytes(), cudaHostRegisterDefault);
    if (status != cudaSuccess) {
      (void)cudaGetLastError();  // clears the error, so that no later call reports it
      return Unsupported("the gradients' " + std::to_string(host.size_bytes()) + " bytes of the host could not be " +
                         "pinned (" + cudaGetErrorName(status) + ")");
    }
    sum_ = std::make_unique<FlatSum>(context_, PinnedRange(host.data()), host, wire);
  }
  CAPSTAN_RETURN_IF_ERROR(context_.status());
  return static_cast<DeviceSum*>(sum_.get());
}

Result<std::unique_ptr<collective::DeviceGroup>> CudaDevice::CreateGroup(const collective::DeviceGroupOptions& options,
                                                                         collective::Rendezvous* rendezvous,
                                                                         collective::Deadline deadline) {
  return CreateNcclGroup(context_, options, rendezvous, deadline);
}

DeviceAdderMaker CudaDevice::AdderMaker() const {
  int device = 0;
  context_.Note(cudaGetDevice(&device), "asking for the device");
  return [device](const AdderOptions& options) { return CreateDeviceAdder(device, options); };
}

}  // namespace capstan::train
