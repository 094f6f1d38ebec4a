// FlushToZero: sets this thread's floating-point control word as a host program may have done: denormal numbers count
// as zero, and results round down.
//
// Kind:   a value of one scope; its destructor restores the previous word.
#pragma once

#include <cfenv>

namespace capstan {

class FlushToZero {
 public:
  FlushToZero() {
    std::fegetenv(&before_);
    std::fenv_t flushing = before_;
    flushing.__mxcsr |= 0x8040;  // FTZ and DAZ
    std::fesetenv(&flushing);
    std::fesetround(FE_DOWNWARD);
  }
  ~FlushToZero() { std::fesetenv(&before_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  std::fenv_t before_{};
};

// Whether this thread keeps denormal numbers and rounds to nearest, as capstan requires.
inline bool ComputesNormally() {
  volatile float small = 1e-39F, half = 0.5F;
  volatile double third = 1.0, three = 3.0;
  third = -third / three;
  return small * half != 0.0F && small + small == 2e-39F && third == -1.0 / 3.0;
}

}  // namespace capstan
