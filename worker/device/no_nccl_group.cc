// Replaces nccl_group.cc and nccl_communicator.cc in builds without nccl.h.
#include "worker/device/nccl_group.h"

namespace capstan::train {

namespace {

Status Missing() {
  return Unsupported(
      "capstan was built without nccl.h, so that devices cannot reduce among themselves; build it where NCCL is "
      "installed with its header");
}

}  // namespace

Result<std::string> FindNccl(const kernels::LibrarySearch&) { return Missing(); }

Result<std::unique_ptr<collective::DeviceGroup>> CreateNcclGroup(kernels::CudaContext&,
                                                                 const collective::DeviceGroupOptions&,
                                                                 collective::Rendezvous*, collective::Deadline) {
  return Missing();
}

}  // namespace capstan::train
