// MirrorTransport: a socket's own counts, as metrics.
//
// Kind:   function; called by the thread that owns the socket.
#pragma once

#include "common/zmq_transport.h"
#include "monitoring/metrics.h"

namespace capstan::monitoring {

// What is not a payload counts as control.
inline void MirrorTransport(const TransportCounters& counters, TransportMetrics* metrics) {
  metrics->bytes_in[Plane::kData].AdvanceTo(counters.payload_bytes_in);
  metrics->bytes_out[Plane::kData].AdvanceTo(counters.payload_bytes_out);
  metrics->bytes_in[Plane::kControl].AdvanceTo(counters.header_bytes_in);
  metrics->bytes_out[Plane::kControl].AdvanceTo(counters.header_bytes_out);
  metrics->messages_in[Plane::kData].AdvanceTo(counters.payload_messages_in);
  metrics->messages_out[Plane::kData].AdvanceTo(counters.payload_messages_out);
  metrics->messages_in[Plane::kControl].AdvanceTo(counters.messages_in - counters.payload_messages_in);
  metrics->messages_out[Plane::kControl].AdvanceTo(counters.messages_out - counters.payload_messages_out);
  metrics->errors[NetworkError::kDecode].AdvanceTo(counters.decode_errors + counters.extra_frames +
                                                   counters.foreign_peers);
  metrics->errors[NetworkError::kDisconnect].AdvanceTo(counters.sends_unreachable);
  metrics->sends_blocked.AdvanceTo(counters.sends_busy);
}

}  // namespace capstan::monitoring
