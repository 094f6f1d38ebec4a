#include "tests/emulation/progress.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace capstan::emulation {

void Progress::Reach(std::uint32_t number) {
  std::uint32_t known = reached_.load(std::memory_order_relaxed);
  while (known < number && !reached_.compare_exchange_weak(known, number, std::memory_order_release)) {
  }
  if (known < number) (void)syscall(SYS_futex, &reached_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Progress::WaitFor(std::uint32_t number, std::memory_order order) {
  for (;;) {
    const std::uint32_t known = reached_.load(order);
    if (known >= number) return;
    (void)syscall(SYS_futex, &reached_, FUTEX_WAIT_PRIVATE, known, nullptr, nullptr, 0);
  }
}

}  // namespace capstan::emulation
