// StreamLine, FinishStreaming: write to memory past the caches.
//
// Shapes: one cache line, 16 floats, at a multiple of 64 bytes.
// Parity: the bytes are those of an ordinary store.
// Why:    a cached store first reads its line from memory. For results that are not read again soon, as in a copy, that
//         is a third of the traffic.
#pragma once

#include <immintrin.h>

namespace capstan::kernels {

inline constexpr int kStreamLineBytes = 64;

// Writes 16 floats to `line`; `values` may be unaligned.
[[gnu::target("avx")]] inline void StreamLine(float* line, const float* values) {
  _mm256_stream_ps(line, _mm256_loadu_ps(values));
  _mm256_stream_ps(line + 8, _mm256_loadu_ps(values + 8));
}

// Orders streamed lines before all later writes. Call it before another thread may read the lines.
inline void FinishStreaming() { _mm_sfence(); }

}  // namespace capstan::kernels
