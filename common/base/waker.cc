#include "common/base/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace capstan {

Waker::Waker() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Waker::~Waker() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Waker::Wake() {
  if (pending_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  const ssize_t written = write(descriptor_, &one, sizeof one);
  (void)written;  // fails only when the counter is full, and then the thread is awake
}

bool Waker::Take() {
  if (!pending_.load(std::memory_order_acquire)) return false;
  std::uint64_t count = 0;
  const ssize_t got = read(descriptor_, &count, sizeof count);
  (void)got;  // reads nothing if Wake has set the flag but not written yet
  pending_.exchange(false, std::memory_order_acq_rel);
  return true;
}

}  // namespace capstan
