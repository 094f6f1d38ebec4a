// Outgoing: sends a core's messages. A message to a peer whose queue is full waits here, in a queue of that peer.
//
// Kind:   owned by a loop's thread.
// Limits: kPeerMessagesMax messages and kPeerBytesMax bytes of headers wait for one peer, kMessagesMax and kBytesMax
//         for all. Of more messages the newest is dropped: that of the peer itself or, if all queues together are full,
//         of the peer with the longest queue. A payload is dropped if the peer holds too much (PayloadsInFlight). The
//         protocol repeats what was dropped.
// Fails:  a message that cannot be encoded is dropped; a notice says so, once.
// Why:    queues often fill up while large blocks are sent, and a dropped message is repeated only after a time-out. A
//         peer that does not read loses its own messages, and delays nobody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/wire/actor.h"
#include "common/wire/transport.h"
#include "monitoring/metrics.h"
#include "server/net/payloads_in_flight.h"

namespace capstan::server {

class Outgoing {
 public:
  static constexpr std::size_t kPeerMessagesMax = 256, kMessagesMax = 4096;
  static constexpr std::size_t kPeerBytesMax = std::size_t{4} << 20, kBytesMax = std::size_t{64} << 20;

  using OnNotice = std::function<void(const Notice&)>;

  Outgoing(Transport* transport, monitoring::TransportMetrics* metrics, OnNotice on_notice)
      : transport_(transport), metrics_(metrics), on_notice_(std::move(on_notice)) {}

  // Sends all messages and empties the list. Returns the number of messages that were sent, or that a peer was too slow
  // for; messages to absent peers are dropped.
  std::size_t Send(std::vector<Envelope>* envelopes);
  // Tries the waiting messages again.
  void Retry();
  bool waiting() const { return !queues_.empty(); }
  // Messages dropped so far, because their peer did not take what it was sent before.
  std::uint64_t dropped() const { return dropped_; }
  // Bounds the payloads in flight, and tells how much room there is.
  PayloadsInFlight& payloads() { return payloads_; }

 private:
  struct Waiting {
    Envelope envelope;
    std::size_t bytes;  // of the header
  };
  struct Queue {
    std::deque<Waiting> messages;  // in order
    std::size_t bytes = 0;
  };

  Status TrySend(const Envelope& envelope);
  // Sends a message, or puts it into its peer's queue. Returns false if the peer is absent.
  bool SendOrWait(Envelope envelope);
  void Wait(Envelope envelope);
  void DropNewest(std::map<PeerId, Queue>::iterator queue);
  void CountWaiting();

  Transport* const transport_;
  monitoring::TransportMetrics* const metrics_;
  const OnNotice on_notice_;  // may be empty
  PayloadsInFlight payloads_;
  std::map<PeerId, Queue> queues_;        // none is empty
  std::size_t messages_ = 0, bytes_ = 0;  // in all queues
  std::uint64_t dropped_ = 0;
  bool said_unsendable_ = false;
};

}  // namespace capstan::server
