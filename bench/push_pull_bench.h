// MeasurePushPull: gradients pushed and weights pulled, through everything that a training step goes through but the
// computing: client library, protocol, transport, shards that run sgd.
//
// Kind:   runs for minutes; forks processes, so call it while this one has no other thread and no socket context.
// Limits: loopback; server and workers share the machine.
// Fails:  a process of the benchmark that ended or did not answer.
// Why:    mode async: a push is applied as it comes and a pull gets the newest weights, which is what key-value
//         parameter servers do ("push, add, pull"). A push here is checked by its hash, named by its sequence number
//         and applied exactly once besides. Small tensors travel in blocks, so a request is a tensor pushed or pulled.
//
// The limit is raw ZeroMQ one way with frames of the size that is really sent. Other limits are published figures of
// ps-lite, measured on a machine of the kind this was developed on, not in this run.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/bench_cluster.h"
#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

struct PushPullOptions {
  std::vector<Carrier> carriers = {Carrier::kTcp, Carrier::kIpc};
  std::vector<int> sizes = {1, 2};  // servers and as many workers
  std::vector<std::size_t> tensor_bytes = {64, 4u << 10, 64u << 10, 1u << 20, 4u << 20, 32u << 20};
  int repetitions = 3;  // the median of them counts
  double seconds = 1.0;
};

Result<std::vector<Figure>> MeasurePushPull(const PushPullOptions& options);

}  // namespace capstan::bench
