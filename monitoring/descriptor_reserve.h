// DescriptorReserve: descriptors that are kept open for nothing, so that one is at hand when the process has none left.
//
// Kind:   owned by one thread.
// Limits: kReserved descriptors.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace capstan::monitoring {

class DescriptorReserve {
 public:
  static constexpr std::size_t kReserved = 8;

  DescriptorReserve() { Refill(); }
  ~DescriptorReserve() {
    while (Release()) {
    }
  }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

  // Gives one back to the system. Returns false if none is left.
  bool Release() {
    if (kept_.empty()) return false;
    close(kept_.back());
    kept_.pop_back();
    return true;
  }
  // Takes descriptors until there are kReserved again, or the system has none.
  void Refill() {
    while (kept_.size() < kReserved) {
      const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (fd < 0) return;
      kept_.push_back(fd);
    }
  }

 private:
  std::vector<int> kept_;
};

}  // namespace capstan::monitoring
