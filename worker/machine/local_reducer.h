// CreateLocalReducer: workers of one machine add up their gradients, and the first of them pushes the sums.
//
// Kind:   as LocalReduce; with a thread for the group besides.
// Limits: a gradient for each sum, and for each worker of the machine a bucket.
// Fails:  never. A group that breaks is said to the coordinator, which lets another one be formed.
// Why:    many workers on a machine with one link to the servers send a gradient each, and one would do.
//
// A step: all members exchange what they bring (LocalHead). Who is behind pushes by itself and comes to the next one;
// who is ahead waits for the others. When all bring the same step, and their slots make fewer nodes together, the first
// member gathers bucket by bucket and pushes the sums; the others hold their pushes until the version is published. They
// agree over Gloo; what they gather and add goes over it too, or through their devices (AdderChoice).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "worker/client/local_reduce.h"
#include "worker/machine/local_device.h"

namespace capstan::train {

struct LocalReducerOptions {
  std::string host;  // of this machine, as the other workers reach it
  std::uint64_t bucket_bytes = 4u << 20;
  std::function<void(const std::string&)> on_notice = nullptr;
  // Asked in Begin. Null: sums are made on the hosts; what it points to outlives the reducer.
  std::function<const LocalDevice*()> device = [] { return nullptr; };
  kernels::LibrarySearch libraries = {};
  std::chrono::milliseconds silence = std::chrono::seconds(10);   // after which a member is lost
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // of devices, as AdderOptions
};

std::unique_ptr<client::LocalReduce> CreateLocalReducer(LocalReducerOptions options);

}  // namespace capstan::train
