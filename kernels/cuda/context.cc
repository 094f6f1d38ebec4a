#include <string>

#include "kernels/cuda/launch.h"

namespace capstan::kernels {

bool CudaContext::Note(int cuda_status, const char* call) {
  const auto status = static_cast<cudaError_t>(cuda_status);
  if (status != cudaSuccess && status_.ok()) {
    const Code code = status == cudaErrorMemoryAllocation ? Code::kRefused : Code::kUnreachable;
    status_ = {code, std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")"};
  }
  return status_.ok();
}

void CudaContext::Free::operator()(void* memory) const { (void)cudaFree(memory); }

CudaContext::Memory CudaContext::Allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (status_.ok()) {
    Note(cudaMalloc(&memory, bytes), ("allocating " + std::to_string(bytes) + " bytes of the device").c_str());
  }
  return Memory(memory);
}

void CudaContext::ReadBytes(const void* from, std::size_t bytes, void* to) {
  if (!status_.ok()) return;
  Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the device");
  Note(cudaStreamSynchronize(stream_), "waiting for the device");
}

void* CudaContext::WorkspaceBytes(std::size_t bytes) {
  if (bytes > workspace_bytes_) {
    if (status_.ok()) Note(cudaStreamSynchronize(stream_), "waiting for what uses the workspace");
    workspace_.reset();
    workspace_ = Allocate(bytes);
    workspace_bytes_ = workspace_ == nullptr ? 0 : bytes;
  }
  return workspace_.get();
}

}  // namespace capstan::kernels
