// Agree: compares the error of a kernel's result with a tolerance. At the end of a run a table is printed: for each
// result the error that came closest to its tolerance.
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

// Whether `error` is within `tolerance`. The error is usually a RelativeDistance from an expected array: one computed
// in double, by the definition, or by finite differences. `result` names the kernel and the array, such as "layer norm:
// dx". T is the kernel's type of numbers, as printed in the table.
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
