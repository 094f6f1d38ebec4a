// Philox4x32-10 for a run of consecutive counters at once, in a form that compilers turn into vector code.
//
// Parity: lane i holds exactly Philox(key, first_counter + i, 0) of common/random.h.
#pragma once

#include <cstdint>

#include "common/random.h"

namespace capstan::kernels {

inline constexpr int kPhiloxLanes = 16;
inline constexpr int kPhiloxBatch = 4 * kPhiloxLanes;  // numbers in a batch

// The numbers of counters [first, first + kPhiloxLanes): `words[w][i]` is word w of counter first + i.
struct PhiloxBatch {
  alignas(64) std::uint32_t words[4][kPhiloxLanes];

  PhiloxBatch(std::uint64_t key, std::uint64_t first_counter) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
      const std::uint64_t counter = first_counter + static_cast<std::uint64_t>(i);
      words[0][i] = static_cast<std::uint32_t>(counter);
      words[1][i] = static_cast<std::uint32_t>(counter >> 32);
      words[2][i] = 0;
      words[3][i] = 0;
    }
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      Round(k0, k1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }

 private:
  void Round(std::uint32_t k0, std::uint32_t k1) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * words[0][i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * words[2][i];
      words[0][i] = static_cast<std::uint32_t>(p1 >> 32) ^ words[1][i] ^ k0;
      words[1][i] = static_cast<std::uint32_t>(p1);
      words[2][i] = static_cast<std::uint32_t>(p0 >> 32) ^ words[3][i] ^ k1;
      words[3][i] = static_cast<std::uint32_t>(p0);
    }
  }
};

}  // namespace capstan::kernels
