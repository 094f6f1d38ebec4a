#include <immintrin.h>

#include "kernels/philox_batch.h"

namespace capstan::kernels {
namespace {

// The words a, b, c and d of four Philox counters, one counter to a 64-bit lane. The high half of a lane is ignored.
struct Lanes {
  __m256i a, b, c, d;
};

inline void Round(Lanes& x, __m256i k0, __m256i k1) {
  const __m256i p0 = _mm256_mul_epu32(x.a, _mm256_set1_epi64x(0xD2511F53));
  const __m256i p1 = _mm256_mul_epu32(x.c, _mm256_set1_epi64x(0xCD9E8D57));
  x.a = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), x.b), k0);
  x.c = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), x.d), k1);
  x.b = p1;
  x.d = p0;
}

// Stores the four words of each counter one after the other.
inline void StoreInOrder(const Lanes& x, std::uint32_t* out) {
  const __m256i low = _mm256_set1_epi64x(0xffffffff);
  const __m256i ab = _mm256_or_si256(_mm256_and_si256(x.a, low), _mm256_slli_epi64(x.b, 32));
  const __m256i cd = _mm256_or_si256(_mm256_and_si256(x.c, low), _mm256_slli_epi64(x.d, 32));
  const __m256i even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);  // counters 0, 2 and 1, 3
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

constexpr int kSides = kPhiloxGroup / 16;  // independent chains hide each other's latency

}  // namespace

void PhiloxFill(std::uint64_t key, std::uint64_t first, std::int64_t count, std::uint32_t* out) {
  for (std::int64_t done = 0; done < count; done += kPhiloxGroup) {
    const std::uint64_t counter = (first + static_cast<std::uint64_t>(done)) / 4;
    Lanes lanes[kSides];
    for (int s = 0; s < kSides; ++s) {
      const __m256i counters =
          _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(counter) + 4 * s), _mm256_set_epi64x(3, 2, 1, 0));
      lanes[s] = {counters, _mm256_srli_epi64(counters, 32), _mm256_setzero_si256(), _mm256_setzero_si256()};
    }
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m256i v0 = _mm256_set1_epi64x(k0), v1 = _mm256_set1_epi64x(k1);
      for (int s = 0; s < kSides; ++s) Round(lanes[s], v0, v1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    for (int s = 0; s < kSides; ++s) StoreInOrder(lanes[s], out + done + 16 * s);
  }
}

}  // namespace capstan::kernels
