// FloatControl: as long as the object exists, this thread's floating-point control word has its default: round to
// nearest, keep denormal inputs and results, trap no exception.
//
// Kind:   a value of one scope, owned by the thread that made it. Its destructor restores the previous word.
// Why:    the bits of a weight depend on this word. A new thread inherits it from its creator, and many host programs
//         flush denormals to zero.
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
