// Raw ZeroMQ: the throughput of a DEALER and a ROUTER without any processing.
//
// Kind:   forks processes; call it while this process has no other thread.
// Why:    capstan's transport is ZeroMQ, so this is the most that capstan can reach on this machine at the moment.
#pragma once

#include <cstddef>

#include "bench/bench_cluster.h"
#include "common/base/status.h"

namespace capstan::bench {

struct RawThroughput {
  double gigabytes_per_second = 0.0;
  double cpu_seconds_per_gigabyte = 0.0;  // of both ends
};

// Measures one direction with `pairs` senders, each with its own receiver. A message is a header of 64 bytes and a
// frame of `frame_bytes` that is sent without a copy; the receiver drops it.
Result<RawThroughput> MeasureRawThroughput(Carrier carrier, int pairs, std::size_t frame_bytes, double seconds);

struct RawRoundTrip {
  double median_us = 0.0, p99_us = 0.0;
};

// Measures round trips, one after the other: a request of `bytes` and an answer of `bytes`.
Result<RawRoundTrip> MeasureRawRoundTrip(Carrier carrier, std::size_t bytes, int round_trips);

}  // namespace capstan::bench
