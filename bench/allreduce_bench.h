// PlanAllReduce: how fast worker processes reduce an array among themselves.
//
// Kind:   a plan that runs for minutes and forks processes, so measure it while this one has no other thread and no
//         socket context.
// Limits: loopback; all processes share the machine.
// Fails:  a benchmark process that ended or did not answer; kUnsupported in a build without Gloo.
// Why:    capstan's all-reduce is compared with Gloo's own chunked ring on its own connections, and with plain sockets
//         that carry as many bytes around the ring and add nothing. Figures are bus bandwidth: with P processes,
//         2 (P-1)/P times the array's bytes, divided by the time of the slowest rank. So many bytes cross each link.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/plan.h"
#include "common/base/status.h"

namespace capstan::bench {

struct AllReduceOptions {
  std::vector<int> processes = {2, 4};
  std::vector<std::size_t> bytes = {4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20,
                                    4u << 20, 16u << 20, 64u << 20, 256u << 20};
  std::size_t chunk_bytes = 0;  // 0: the default
  int rounds = 5;
  double seconds = 0.3;  // for each measurement
};

Result<Plan> PlanAllReduce(const AllReduceOptions& options);

}  // namespace capstan::bench
