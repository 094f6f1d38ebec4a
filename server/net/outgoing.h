// Outgoing: sends what a core answers; what a full pipe turns away waits here for a moment.
//
// Kind:   owned by a loop's thread.
// Limits: kWaitingMax messages wait; more are dropped, and the protocol repeats them.
// Fails:  a message that cannot be encoded never leaves, however often it is repeated: people are told, once.
// Why:    a full pipe is a normal event while large blocks leave; repeating by time-out would cost a second each.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/wire/actor.h"
#include "common/wire/transport.h"
#include "monitoring/metrics.h"

namespace capstan::server {

class Outgoing {
 public:
  static constexpr std::size_t kWaitingMax = 1024;

  using OnNotice = std::function<void(const Notice&)>;

  Outgoing(Transport* transport, monitoring::TransportMetrics* metrics, OnNotice on_notice)
      : transport_(transport), metrics_(metrics), on_notice_(std::move(on_notice)) {}

  // Sends all of them and empties the list. Returns how many left or wait: those to absent peers are dropped.
  std::size_t Send(std::vector<Envelope>* envelopes);
  // Tries what waits again.
  void Retry();
  bool waiting() const { return !waiting_.empty(); }

 private:
  Status TrySend(const Envelope& envelope);
  bool Waits(PeerId peer) const;
  void CountWaiting();

  Transport* const transport_;
  monitoring::TransportMetrics* const metrics_;
  const OnNotice on_notice_;      // may be empty
  std::deque<Envelope> waiting_;  // in order for each peer
  bool said_unsendable_ = false;
};

}  // namespace capstan::server
