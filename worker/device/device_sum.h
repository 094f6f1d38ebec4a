// DeviceSum: the sum of a round's gradients, each times its slot's samples, in the memory of the device that computes
// them. A group of devices reduces the sum there; then it is copied to an array on the host.
//
// Kind:   owned by the model, and used by the model's thread.
// Limits: device memory for one fp32 number per parameter, and one 16-bit number more per parameter with a 16-bit wire.
// Fails:  Await and Settle return the device's first failure; the others only enqueue.
// Parity: bit-identical to a host that adds up the same gradients in the same order.
// Why:    a gradient that devices reduce need not pass through the host first.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "worker/collective/device_group.h"

namespace capstan::train {

enum class SlotSum : std::uint8_t { kReplace, kAdd };

// A range of the flat array of all tensors.
struct SumRange {
  std::uint64_t offset = 0, count = 0;
  bool exact = false;  // sent as fp32 whatever the wire encoding is
};

class DeviceSum {
 public:
  using Copy = std::size_t;  // number of a copy to the host

  virtual ~DeviceSum() = default;

  // From BeginSlot to EndSlot the model adds its gradients to this sum instead of copying them to the host. The hook
  // `gradient_ready` then means that the addition is enqueued.
  virtual void BeginSlot(std::uint64_t samples, SlotSum sum) = 0;
  virtual void EndSlot() = 0;
  virtual void SetZero() = 0;

  // Returns the array to reduce for that range, in the wire's encoding. It has its values when everything that is
  // enqueued by now is done.
  virtual collective::DeviceArray ToReduce(const SumRange& range) = 0;
  // Return enqueues the copy of that range to the host on stream(). The caller has ordered this stream after the
  // range's reduction.
  virtual CUstream_st* stream() const = 0;
  virtual Copy Return(const SumRange& range) = 0;
  // Waits until the copy has arrived. Call it only when the range's reduction is done, so that it does not wait for
  // other workers.
  virtual Status Await(Copy copy) = 0;
  // Waits until no copy is in flight, and restarts the numbers of copies.
  virtual Status Settle() = 0;
};

}  // namespace capstan::train
