// Raw shared memory: the throughput of two processes of which one copies numbers into a ring, and the other adds
// them up.
//
// Kind:   forks processes; call it while this process has no other thread.
// Why:    this is the least that two processes can do for a push, so it is what the memory allows.
#pragma once

#include <cstddef>

#include "bench/raw_zmq.h"
#include "common/base/status.h"

namespace capstan::bench {

// Measures one direction with `pairs` senders, each with its own receiver. `frame_bytes`: a multiple of 4.
Result<RawThroughput> MeasureSharedThroughput(int pairs, std::size_t frame_bytes, double seconds);

}  // namespace capstan::bench
