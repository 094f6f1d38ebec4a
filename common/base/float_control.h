// FloatControl: this thread's floating-point control word as the bits of a weight need it, for as long as it lives:
// round to nearest, denormal numbers kept on both sides, no exception trapped.
//
// Kind:   a value of one scope; belongs to the thread that made it. What the thread had before comes back.
// Why:    a new thread inherits the word of whoever started it, and host programs like to flush denormals to zero.
#pragma once

#include <cfenv>

namespace capstan {

class FloatControl {
 public:
  FloatControl() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatControl() { std::fesetenv(&before_); }
  FloatControl(const FloatControl&) = delete;
  FloatControl& operator=(const FloatControl&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace capstan
