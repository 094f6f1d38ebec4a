// Outgoing: sends a core's messages; a message to a peer whose queue is full waits here.
//
// Kind:   owned by a loop's thread.
// Limits: at most kWaitingMax messages wait; more are dropped, and the protocol repeats them.
// Fails:  a message that cannot be encoded is dropped; a notice says so, once.
// Why:    queues often fill up while large blocks are sent, and a dropped message is repeated only after a time-out.
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

  // Sends all messages and empties the list. Returns the number of messages that were sent, or found a full queue.
  // Messages to peers that are not connected any more are dropped, and these peers added to `gone`, which may be null.
  std::size_t Send(std::vector<Envelope>* envelopes, std::vector<PeerId>* gone = nullptr);
  // Tries the waiting messages again.
  void Retry();
  bool waiting() const { return !waiting_.empty(); }

 private:
  Status TrySend(const Envelope& envelope);
  bool Waits(PeerId peer) const;
  void CountWaiting();

  Transport* const transport_;
  monitoring::TransportMetrics* const metrics_;
  const OnNotice on_notice_;      // may be empty
  std::deque<Envelope> waiting_;  // each peer's messages in order
  bool said_unsendable_ = false;
};

}  // namespace capstan::server
