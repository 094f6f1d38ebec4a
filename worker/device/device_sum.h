// DeviceSum: the sum of a round's gradients, each times the samples of its slot, in the memory of the device that makes
// them. There a group of devices reduces it; then it comes to an array of the host.
//
// Kind:   the model's, and its thread's.
// Limits: fp32 numbers, as many as the model has; where it travels in 16 bits, as many of those besides.
// Fails:  Await and Settle with the first failure of the device; the others only enqueue.
// Parity: what a host has that adds up the same gradients in the same order, to the bit.
// Why:    a gradient that the devices reduce need not pass through the host first.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "worker/collective/device_group.h"

namespace capstan::train {

enum class SlotSum : std::uint8_t { kReplace, kAdd };

// Of the flat array of all tensors.
struct SumRange {
  std::uint64_t offset = 0, count = 0;
  bool exact = false;  // travels as fp32 whatever the wire
};

class DeviceSum {
 public:
  using Copy = std::size_t;  // one of those that are on their way to the host

  virtual ~DeviceSum() = default;

  // Gradients that the model delivers from now on, until EndSlot, go here and not to the host: `gradient_ready` says
  // that they are enqueued.
  virtual void BeginSlot(std::uint64_t samples, SlotSum sum) = 0;
  virtual void EndSlot() = 0;
  virtual void SetZero() = 0;

  // What is to be reduced of that range, once all that is enqueued by now is done: as it travels.
  virtual collective::DeviceArray ToReduce(const SumRange& range) = 0;
  // Enqueues the way of that range to the host on `stream`, which is to be ordered after its reduction.
  virtual CUstream_st* stream() const = 0;
  virtual Copy Return(const SumRange& range) = 0;
  // Until it is there. What it was ordered after is to be done: nobody waits for others in here.
  virtual Status Await(Copy copy) = 0;
  // Until nothing is on its way. Copies are counted anew.
  virtual Status Settle() = 0;
};

}  // namespace capstan::train
