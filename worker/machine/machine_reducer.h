// CreateMachineReducer: the workers of one machine add up their gradients, and the first worker pushes the sums.
//
// Kind:   as MachineReduce; runs one more thread, for the group.
// Limits: the first worker needs memory for a whole gradient per sum, and for a bucket of each part of each worker.
// Fails:  never. If the group breaks, its members push by themselves until they have formed another one.
// Why:    without it, all workers of a machine send their gradients over the machine's one link to the servers.
//
// In a step all members exchange their MachineHeads. A member on an older step pushes on its own and goes on to its
// next step; a member on a newer step waits. When all are at the same step, and there are fewer sums than single
// pushes, the first member gathers the parts bucket by bucket and pushes the sums. The other members' own pushes stay
// deferred in their sessions. Members agree over Gloo; gradients go over Gloo too, or through their devices
// (AdderChoice).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "worker/client/machine_reduce.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/machine/adder_device.h"

namespace capstan::train {

struct MachineReducerOptions {
  std::string host;  // this machine's address, as the other workers reach it
  std::uint64_t bucket_bytes = 4u << 20;
  std::function<void(const std::string&)> on_notice = nullptr;
  // Called in Begin; returns the device on which to add. Null: the CPU adds. The device outlives the reducer.
  std::function<const AdderDevice*()> device = [] { return nullptr; };
  kernels::LibrarySearch libraries = {};
  collective::CreateMesh create_mesh = collective::CreateGlooMesh;
  std::chrono::milliseconds silence = std::chrono::seconds(10);   // a member silent for this long is lost
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // as in AdderOptions
};

std::unique_ptr<client::MachineReduce> CreateMachineReducer(MachineReducerOptions options);

}  // namespace capstan::train
