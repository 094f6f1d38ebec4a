// A key-value server as bare as it can be: push, add, pull over ZeroMQ, one thread a side, nothing checked.
//
// Kind:   forks processes; call while this one has no other thread.
// Why:    published figures of other servers come from other machines. This one does what each of them must do, in the
//         same run: a gradient is sent where it lies and added to the value, a value is sent where it lies and copied
//         once into the caller's memory. No versions, hashes, sequence numbers, client thread or error handling.
#pragma once

#include <cstddef>

#include "bench/bench_cluster.h"
#include "bench/raw_zmq.h"
#include "common/base/status.h"

namespace capstan::bench {

// `servers` servers and as many workers. Each worker sends a push and a pull for each of its `keys`, waits for all
// answers, and begins again. GB of pushes and pulls together.
Result<RawThroughput> MeasureRawKeyValue(Carrier carrier, int servers, std::size_t value_bytes, std::size_t keys,
                                         double seconds);

}  // namespace capstan::bench
