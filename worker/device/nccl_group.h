// CreateNcclGroup: a DeviceGroup of processes with a device each, over NCCL.
//
// Kind:   owned by the thread of `context`, which outlives the group. It has its own stream, and a thread that watches
//         deadlines.
// Fails:  kUnsupported: NCCL was not found (the message says where it was searched), or members have different
//         versions. kStale: members of different generations. kTimeout: not formed in time. kUnreachable: NCCL's error.
//         Also as the rendezvous.
// Why:    a collective that lost a member never ends on a device, and NCCL has neither deadlines nor member names. So
//         no thread blocks inside NCCL: its communicators are non-blocking; they are polled, and aborted when time is
//         up.
#pragma once

#include <memory>

#include "kernels/base/context.h"
#include "worker/collective/device_group.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

// Returns NCCL's name and version, to show and to compare. kUnsupported if there is no NCCL.
Result<std::string> FindNccl(const kernels::LibrarySearch& libraries);

Result<std::unique_ptr<collective::DeviceGroup>> CreateNcclGroup(kernels::CudaContext& context,
                                                                 const collective::DeviceGroupOptions& options,
                                                                 collective::Rendezvous* rendezvous,
                                                                 collective::Deadline deadline);

}  // namespace capstan::train
