// FreeHeap: gives memory back to the system that a process has freed and not needed for a minute.
//
// Kind:   owned by one thread.
// Limits: kKeptBytes stay with the process, for its next messages.
// Why:    the allocator keeps freed memory, also what a flood of messages made it take. Giving back at once would cost
//         page faults in every step: a step takes and frees memory for the gradients that wait in it.
#pragma once

#include <cstdint>
#include <functional>

namespace capstan::cli {

class FreeHeap {
 public:
  static constexpr int kLooks = 60;
  static constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

  struct Heap {
    std::function<std::uint64_t()> free_bytes;  // freed by the process, and not given back
    std::function<void()> give_back;
  };
  static Heap OfThisProcess();

  explicit FreeHeap(Heap heap = OfThisProcess()) : heap_(std::move(heap)) {}

  // Call it about once a second. Gives back if more than kKeptBytes were free in each of the last kLooks looks.
  void Look();

 private:
  const Heap heap_;
  int looks_ = 0;
  std::uint64_t least_ = UINT64_MAX;  // free bytes in those looks
};

}  // namespace capstan::cli
