// Outgoing: sends what a core answers; what a full pipe turns away waits here for a moment.
//
// Kind:   owned by a loop's thread.
// Limits: kWaitingMax messages wait; more are dropped, and the protocol repeats them.
// Why:    a full pipe is a normal event while large blocks leave; repeating by time-out would cost a second each.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "common/actor.h"
#include "common/transport.h"
#include "monitoring/metrics.h"

namespace capstan::server {

class Outgoing {
 public:
  static constexpr std::size_t kWaitingMax = 1024;

  Outgoing(Transport* transport, monitoring::TransportMetrics* metrics) : transport_(transport), metrics_(metrics) {}

  // Sends all of them and empties the list. Returns how many left or wait: those to absent peers are dropped.
  std::size_t Send(std::vector<Envelope>* envelopes);
  // Tries what waits again.
  void Retry();
  bool waiting() const { return !waiting_.empty(); }

 private:
  bool Waits(PeerId peer) const;
  void CountWaiting();

  Transport* const transport_;
  monitoring::TransportMetrics* const metrics_;
  std::deque<Envelope> waiting_;  // in order for each peer
};

}  // namespace capstan::server
