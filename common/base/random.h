// Philox4x32-10: random numbers as a pure function of (key, counter), without state. RandomStream keeps a counter.
//
// Kind:   pure functions; RandomStream is a value.
// Why:    initial weights, sample order, dropout and augmentation must not depend on which process draws them, or when.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace capstan {

using Random4 = std::array<std::uint32_t, 4>;

// Returns four 32-bit random numbers for a 64-bit key and a 128-bit counter (low, high).
constexpr Random4 Philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  Random4 c{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
            static_cast<std::uint32_t>(high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// Returns a 64-bit key that is derived from another key.
constexpr std::uint64_t PhiloxKey(std::uint64_t key, std::uint64_t low, std::uint64_t high = 0) {
  const Random4 r = Philox(key, low, high);
  return std::uint64_t{r[0]} | std::uint64_t{r[1]} << 32;
}

// Turns random bits into a number in [0, 1) that is a multiple of 2^-24.
constexpr float UnitFloat(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// Gives the numbers of Philox one after the other. Each pair (key, stream) is a sequence of its own.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t key, std::uint64_t stream = 0) : key_(key), stream_(stream) {}

  std::uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox(key_, counter_++, stream_);
      used_ = 0;
    }
    return block_[used_++];
  }
  std::uint64_t Next64() {
    const std::uint64_t low = Next();
    return low | std::uint64_t{Next()} << 32;
  }
  // Returns a number that is uniform in [0, bound), by multiplication; the relative bias is below bound / 2^64.
  std::uint64_t Below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(Next64()) * bound) >> 64);
  }
  double Unit() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

 private:
  std::uint64_t key_, stream_, counter_ = 0;
  Random4 block_{};
  unsigned used_ = 4;
};

}  // namespace capstan
