// Throughput of ps-lite (dmlc, commit 15b8adf, libzmq 4.3.4) on 2 virtual cores of an AMD EPYC (Zen 4): bytes pushed
// and pulled by all workers; the server adds what is pushed. "tuned": glibc's allocator does not unmap freed blocks.
//
// Kind:   constants, from a document; no benchmark measures them again.
#pragma once

#include <array>
#include <cstddef>

#include "bench/bench_cluster.h"

namespace capstan::bench {

struct PsLiteFigure {
  Carrier carrier;
  int servers;  // with the same number of workers
  std::size_t value_bytes;
  double as_shipped;  // GB/s
  double tuned;       // 0: not measured
};

inline constexpr std::array kPsLiteThroughput = {
    PsLiteFigure{Carrier::kTcp, 1, 4u << 10, 0.48, 0.0},  PsLiteFigure{Carrier::kTcp, 1, 64u << 10, 1.8, 1.9},
    PsLiteFigure{Carrier::kTcp, 1, 1u << 20, 3.3, 4.1},   PsLiteFigure{Carrier::kTcp, 1, 4u << 20, 3.6, 4.0},
    PsLiteFigure{Carrier::kTcp, 1, 32u << 20, 1.65, 3.5}, PsLiteFigure{Carrier::kIpc, 1, 4u << 10, 0.51, 0.0},
    PsLiteFigure{Carrier::kIpc, 1, 64u << 10, 1.75, 2.0}, PsLiteFigure{Carrier::kIpc, 1, 1u << 20, 4.9, 5.0},
    PsLiteFigure{Carrier::kIpc, 1, 4u << 20, 4.2, 4.4},   PsLiteFigure{Carrier::kIpc, 1, 32u << 20, 1.7, 4.0},
    PsLiteFigure{Carrier::kTcp, 2, 4u << 10, 0.75, 0.0},  PsLiteFigure{Carrier::kTcp, 2, 64u << 10, 1.8, 2.3},
    PsLiteFigure{Carrier::kTcp, 2, 1u << 20, 3.4, 3.6},   PsLiteFigure{Carrier::kTcp, 2, 4u << 20, 3.5, 3.8},
    PsLiteFigure{Carrier::kTcp, 2, 32u << 20, 2.0, 3.9},  PsLiteFigure{Carrier::kIpc, 2, 4u << 10, 0.66, 0.0},
    PsLiteFigure{Carrier::kIpc, 2, 64u << 10, 2.5, 2.6},  PsLiteFigure{Carrier::kIpc, 2, 1u << 20, 5.5, 5.8},
    PsLiteFigure{Carrier::kIpc, 2, 4u << 20, 4.7, 4.8},   PsLiteFigure{Carrier::kIpc, 2, 32u << 20, 2.4, 5.0},
};

// Returns pushes and pulls per second of ps-lite, with many in flight; 0: not measured.
constexpr double PsLiteRequests(Carrier carrier, int servers, std::size_t value_bytes) {
  if (value_bytes == 4096) {
    for (const PsLiteFigure& figure : kPsLiteThroughput) {
      if (figure.carrier == carrier && figure.servers == servers && figure.value_bytes == 4096) {
        return figure.as_shipped * 1e9 / 4096;
      }
    }
  }
  if (value_bytes != 64) return 0.0;
  if (carrier == Carrier::kTcp) return servers == 1 ? 263e3 : 351e3;
  return carrier == Carrier::kIpc && servers == 1 ? 265e3 : 0.0;
}

// Returns the median microseconds of ps-lite's push of 64 bytes, one push at a time; 0: ps-lite has no keys.
constexpr double PsLiteRoundTrip(Carrier carrier) {
  return carrier == Carrier::kTcp ? 149.0 : carrier == Carrier::kIpc ? 131.0 : 0.0;
}
// Returns ps-lite's processor seconds per GB, with 1 server and 1 worker over tcp; 0: not measured.
constexpr double PsLiteCpu(std::size_t value_bytes) {
  switch (value_bytes) {
    case 64u << 10: return 0.88;
    case 1u << 20: return 0.64;
    case 4u << 20: return 0.41;
    case 32u << 20: return 0.91;
    default: return 0.0;
  }
}

}  // namespace capstan::bench
