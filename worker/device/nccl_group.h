// CreateNcclGroup: a DeviceGroup of processes with a device each, over NCCL.
//
// Kind:   the group has the thread of `context`, which outlives it, a stream, and a thread that keeps its deadlines.
// Fails:  kUnsupported: no NCCL, and where it was looked for; members with different ones. kStale: members of different
//         generations. kTimeout: not formed in time, with those that have not come. kUnreachable: what NCCL says.
// Why:    a collective that a member has left never ends on a device, and NCCL looks after neither deadlines nor names.
//         So nothing here waits inside NCCL: its communicators do not block, are asked how they are, and are aborted.
#pragma once

#include <memory>

#include "kernels/base/context.h"
#include "worker/collective/device_group.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

// Its name and version, for people and for those who compare them. kUnsupported where there is none.
Result<std::string> FindNccl(const kernels::LibrarySearch& libraries);

Result<std::unique_ptr<collective::DeviceGroup>> CreateNcclGroup(kernels::CudaContext& context,
                                                                 const collective::DeviceGroupOptions& options,
                                                                 collective::Rendezvous* rendezvous,
                                                                 collective::Deadline deadline);

}  // namespace capstan::train
