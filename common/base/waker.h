// Waker: one thread waits for descriptors, and any thread can wake it.
//
// Kind:   shared; Take and SetPending are for the thread that waits.
// Why:    a flag saves the system calls when no thread has called Wake, or when it was called before.
#pragma once

#include <atomic>

namespace capstan {

class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // Readable after Wake, until Take; negative if the process may not open another file.
  int descriptor() const { return descriptor_; }
  void Wake();
  // Whether Wake was called since the last Take.
  bool Take();
  // Call it when the descriptor is readable: Wake may have written only after Take had seen the flag.
  void SetPending() { pending_.store(true, std::memory_order_release); }

 private:
  const int descriptor_;
  std::atomic<bool> pending_{false};
};

}  // namespace capstan
