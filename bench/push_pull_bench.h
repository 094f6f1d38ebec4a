// PlanPushPull: pushes gradients and pulls weights through all parts of a training step except the computation:
// client library, protocol, transport, shards that run sgd.
//
// Kind:   a plan that runs for minutes and forks processes, so measure it while this one has no other thread and no
//         socket context.
// Limits: loopback; server and workers share the machine.
// Fails:  a benchmark process that ended or did not answer.
// Why:    in mode async a push is applied on arrival and a pull gets the newest weights, as in key-value
//         parameter servers ("push, add, pull"). Here a push is also checked by its hash, named by its sequence
//         number, and applied exactly once. Small tensors travel together in blocks, and yet each tensor pushed or
//         pulled counts as one request. Of several servers each needs a block of tensors, so their rows of small
//         tensors have more of them than the rows of one server.
//
// Limits measured in the same run are raw ZeroMQ in one direction, with frames of the size really sent, and a bare
// key-value server (raw_key_value.h); neither has keys, not even next to curve.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/bench_cluster.h"
#include "bench/plan.h"

namespace capstan::bench {

struct PushPullOptions {
  std::vector<Carrier> carriers = {Carrier::kTcp, Carrier::kIpc, Carrier::kShared, Carrier::kCurve};
  std::vector<int> sizes = {1, 2};  // numbers of servers, each with as many workers
  std::vector<std::size_t> tensor_bytes = {64, 4u << 10, 64u << 10, 1u << 20, 4u << 20, 32u << 20};
  int rounds = 3;
  double seconds = 1.0;  // for each measurement
};

Plan PlanPushPull(const PushPullOptions& options);

}  // namespace capstan::bench
