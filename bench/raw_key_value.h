// A minimal key-value server: push, add, pull over ZeroMQ, with one thread per server and per worker, without checks.
//
// Kind:   forks processes; call it while this process has no other thread.
// Why:    this server is measured in the same run and does only what every such server must do: a gradient is sent
//         without a copy and added to the value; a value is sent without a copy, and the worker copies it once. There
//         are no versions, hashes or sequence numbers.
#pragma once

#include <cstddef>

#include "bench/bench_cluster.h"
#include "bench/raw_zmq.h"
#include "common/base/status.h"

namespace capstan::bench {

// Runs `servers` servers and as many workers. Each worker sends a push and a pull for each of its `keys`, waits for all
// answers, and repeats. Returns the throughput of pushes and pulls together.
Result<RawThroughput> MeasureRawKeyValue(Carrier carrier, int servers, std::size_t value_bytes, std::size_t keys,
                                         double seconds);

}  // namespace capstan::bench
