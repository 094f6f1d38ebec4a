// A minimal key-value server: push, add, pull over ZeroMQ, one thread per side, without checks.
//
// Kind:   forks processes; call it while this process has no other thread.
// Why:    published figures of other servers come from other machines. This one does in the same run what each of them
//         must do: a gradient is sent in place and added to the value; a value is sent in place and copied once into
//         the caller's memory. It has no versions, hashes, sequence numbers, client thread or error handling.
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
