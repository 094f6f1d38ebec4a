// Agree: a kernel's result beside what it should be; all comparisons of a run end as a table of errors and tolerances.
//
// Kind:   for the test runner's own thread.
#pragma once

#include <string>
#include <type_traits>

#include "common/data/number16.h"

namespace capstan::kernels {

namespace detail {
bool Agree(const std::string& result, const char* numbers, double error, double tolerance);
}

// Whether `error` (a RelativeDistance: in norm, from double, from the definition or from finite differences) is within
// `tolerance`. `result` names the kernel and the array, "layer norm: dx"; T is what the kernel computes on (its
// sums and the gradients of parameters are never narrower than fp32).
template <class T>
bool Agree(const std::string& result, double error, double tolerance) {
  return detail::Agree(result,
                       std::is_same_v<T, double>  ? "double"
                       : std::is_same_v<T, float> ? "fp32"
                       : std::is_same_v<T, Bf16>  ? "bf16"
                                                  : "fp16",
                       error, tolerance);
}

}  // namespace capstan::kernels
