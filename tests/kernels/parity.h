// Agree: compares a kernel's result with the expected one; a run ends with a table of all errors and tolerances.
//
// Kind:   for the test runner's thread.
#pragma once

#include <string>
#include <type_traits>

#include "common/data/number16.h"

namespace capstan::kernels {

namespace detail {
bool Agree(const std::string& result, const char* numbers, double error, double tolerance);
}

// Whether `error` is within `tolerance`. The error is a RelativeDistance from a result in double, from the definition
// or from finite differences. `result` names the kernel and the array, such as "layer norm: dx". T is the kernel's type
// (its sums and the gradients of parameters are at least fp32).
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
