// Raw ZeroMQ: what a DEALER and a ROUTER move when nobody does anything with it.
//
// Kind:   forks processes; call while this one has no other thread.
// Why:    the transport is ZeroMQ, so this is the limit of what the product can reach on this machine, now.
#pragma once

#include <cstddef>

#include "bench/bench_cluster.h"
#include "common/base/status.h"

namespace capstan::bench {

struct RawThroughput {
  double gigabytes_per_second = 0.0;
  double cpu_seconds_per_gigabyte = 0.0;  // both ends
};

// One way, [64-byte header][frame], without copies, received and dropped; `pairs` senders with a receiver each.
Result<RawThroughput> MeasureRawThroughput(Carrier carrier, int pairs, std::size_t frame_bytes, double seconds);

// Median of a request and an answer of `bytes`, one at a time, in microseconds.
Result<double> MeasureRawRoundTrip(Carrier carrier, std::size_t bytes, int round_trips);

}  // namespace capstan::bench
