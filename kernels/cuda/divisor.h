// Divisor: divides by a number that is fixed for a launch, by a multiplication, an addition and a shift.
//
// Limits: 1 <= divisor < 2^31; the dividend is below 2^31.
// Why:    a thread that computes its place in an image divides three to five times for 16 bytes of data. A division is
//         about 20 instructions; Divide is 3 (Granlund, Montgomery, 1994).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace capstan::kernels {

struct Divisor {
  std::uint32_t by = 1, multiplier = 1, shift = 0;  // divides by one

  Divisor() = default;
  explicit Divisor(std::int64_t divisor) : by(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    multiplier = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - by) << 32) / by + 1);
  }

  __host__ __device__ int Divide(int number) const {
    const auto n = static_cast<std::uint32_t>(number);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * multiplier >> 32);
    return static_cast<int>((high + n) >> shift);
  }
  // Returns the quotient, and stores the remainder.
  __host__ __device__ int Divide(int number, int* remainder) const {
    const int quotient = Divide(number);
    *remainder = number - quotient * static_cast<int>(by);
    return quotient;
  }
};

}  // namespace capstan::kernels
