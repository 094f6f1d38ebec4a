// Progress: a number that only grows; threads wait until it has reached a value.
//
// Kind: shared by threads.
// Why:  TSan must see only the orders that CUDA promises. A wait orders the calls of Reach up to the value that it
//       reads before what follows the wait. It does not order the waiting thread before anything, as a mutex would.
//       std::atomic::wait counts the waiters of many objects in one table, so it would order threads that have nothing
//       in common.
#pragma once

#include <atomic>
#include <cstdint>

namespace capstan::emulation {

class Progress {
 public:
  // Wakes the waiting threads. Does nothing if the number is already as large.
  void Reach(std::uint32_t number);
  bool Has(std::uint32_t number) const { return reached_.load(std::memory_order_acquire) >= number; }
  // With std::memory_order_relaxed the wait orders nothing.
  void WaitFor(std::uint32_t number, std::memory_order order = std::memory_order_acquire);

 private:
  std::atomic<std::uint32_t> reached_{0};
};

}  // namespace capstan::emulation
