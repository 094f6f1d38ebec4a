// Raw ZeroMQ: the throughput of a DEALER and a ROUTER without any processing.
//
// Kind:   forks processes; call it while this process has no other thread.
// Why:    the transport is ZeroMQ, so this is the product's upper limit on this machine at the moment.
#pragma once

#include <cstddef>

#include "bench/bench_cluster.h"
#include "common/base/status.h"

namespace capstan::bench {

struct RawThroughput {
  double gigabytes_per_second = 0.0;
  double cpu_seconds_per_gigabyte = 0.0;  // of both ends
};

// One direction, [64-byte header][frame], without copies; frames are received and dropped. `pairs` senders, each with
// its own receiver.
Result<RawThroughput> MeasureRawThroughput(Carrier carrier, int pairs, std::size_t frame_bytes, double seconds);

// Median microseconds of a request and its answer of `bytes` each, one at a time.
Result<double> MeasureRawRoundTrip(Carrier carrier, std::size_t bytes, int round_trips);

}  // namespace capstan::bench
