// MirrorTransport: copies a socket's own counters into metrics.
//
// Kind:   functions; called by the thread that owns the counts.
#pragma once

#include "common/wire/zmq_transport.h"
#include "monitoring/metrics.h"

namespace capstan::monitoring {

// Copies counters to metrics. `counters`: a transport's or a client's, which have the same names. `damaged`: number of
// messages or frames that were dropped. Messages without a payload, and all headers' bytes, count as control.
template <class Counters>
void MirrorTraffic(const Counters& counters, std::uint64_t damaged, TransportMetrics* metrics) {
  metrics->bytes_in[Plane::kData].AdvanceTo(counters.payload_bytes_in);
  metrics->bytes_out[Plane::kData].AdvanceTo(counters.payload_bytes_out);
  metrics->bytes_in[Plane::kControl].AdvanceTo(counters.header_bytes_in);
  metrics->bytes_out[Plane::kControl].AdvanceTo(counters.header_bytes_out);
  metrics->messages_in[Plane::kData].AdvanceTo(counters.payload_messages_in);
  metrics->messages_out[Plane::kData].AdvanceTo(counters.payload_messages_out);
  metrics->messages_in[Plane::kControl].AdvanceTo(counters.messages_in - counters.payload_messages_in);
  metrics->messages_out[Plane::kControl].AdvanceTo(counters.messages_out - counters.payload_messages_out);
  metrics->errors[NetworkError::kDecode].AdvanceTo(damaged);
  metrics->errors[NetworkError::kDisconnect].AdvanceTo(counters.sends_unreachable);
  metrics->sends_blocked.AdvanceTo(counters.sends_blocked);
  metrics->connections_made.AdvanceTo(counters.connections_made);
  metrics->connections_lost.AdvanceTo(counters.connections_lost);
}

inline void MirrorTransport(const TransportCounters& counters, TransportMetrics* metrics) {
  MirrorTraffic(counters,
                counters.decode_errors + counters.extra_frames + counters.foreign_peers + counters.payloads_lost,
                metrics);
  metrics->payloads_shared.AdvanceTo(counters.payloads_shared);
}

}  // namespace capstan::monitoring
