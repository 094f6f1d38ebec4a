// PhiloxFill: generates a run of consecutive random numbers at once.
//
// Parity: number e is word e % 4 of Philox(key, e / 4, 0) in common/base/random.h.
#pragma once

#include <cstdint>

namespace capstan::kernels {

inline constexpr int kPhiloxGroup = 64;  // numbers are made in groups of this many

// Writes out[i] = number (first + i), for i in [0, count). `first` and `count` are multiples of kPhiloxGroup.
void PhiloxFill(std::uint64_t key, std::uint64_t first, std::int64_t count, std::uint32_t* out);

}  // namespace capstan::kernels
