// LoopSocket: the socket of a loop, the counts of its traffic, and the messages that wait for room in it.
//
// Kind:   owned by the loop's thread; any thread may call Wake.
// Limits: those of TransportOptions and Outgoing.
// Fails:  Open: an address that it cannot listen on, or a host to advertise that is unknown here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/flight/flight_lane.h"
#include "common/wire/permissions.h"
#include "common/wire/reply_limit.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "monitoring/metrics.h"
#include "server/net/outgoing.h"

namespace capstan::monitoring {
class Registry;
}  // namespace capstan::monitoring

namespace capstan::server {

class LoopSocket {
 public:
  // Is told of a message that its sender, who has a key, may not send. `what`: as WhatItSaid says it.
  using OnRefused = std::function<void(const Principal& sender, const std::string& what)>;

  struct Options {
    TransportOptions transport;
    std::string listen;            // an endpoint; port 0 takes a free one
    std::string listen_key;        // the key of `listen` in the job file, for error messages
    std::string advertise;         // host under which others reach the socket; empty: the host of `listen`
    Outgoing::OnNotice on_notice;  // may be empty
    Receiver receiver = Receiver::kCoordinator;
    std::uint32_t shards_per_server = 1;  // of the job, for MaySend
    OnRefused on_refused = {};            // may be empty
    FlightLane* flight = nullptr;         // outlives the socket; null: nothing is recorded
  };
  using OnMessage = std::function<void(PeerId from, const Principal& sender, const Message& message)>;

  static Result<std::unique_ptr<LoopSocket>> Open(Options options, monitoring::Registry* registry);
  LoopSocket(const LoopSocket&) = delete;
  LoopSocket& operator=(const LoopSocket&) = delete;

  // The endpoint at which other processes reach the socket.
  const std::string& endpoint() const { return endpoint_; }
  Transport* transport() { return transport_.get(); }
  void Wake() { transport_->Wake(); }
  // Sends all messages and empties the list. Returns the number of messages that were sent or wait for room.
  std::size_t Send(std::vector<Envelope>* envelopes) { return outgoing_->Send(envelopes); }
  // How many bytes of payloads a peer may be sent now, as PayloadsInFlight says, and the bound for all peers together.
  std::uint64_t RoomFor(PeerId peer) const { return outgoing_->payloads().RoomFor(peer); }
  void LimitPayloads(std::uint64_t bytes) { outgoing_->payloads().LimitTo(bytes); }
  // Delivers what has arrived and its sender may send (MaySend), waiting up to `timeout` for the first message, or 1 ms
  // while outgoing messages wait for room. Then tries to send the outgoing ones again. Returns the number received.
  int Poll(Instant timeout, const OnMessage& on_message);
  // Returns the number of bytes received since the last call.
  std::uint64_t TakeBytesReceived();
  // Copies the counts of the traffic to the metrics.
  void PublishCounts();

 private:
  LoopSocket() = default;
  // Counts a message that its sender may not send, and tells the sender.
  void Refuse(PeerId from, const Principal& sender, const Header& header);

  Receiver receiver_ = Receiver::kCoordinator;
  std::uint32_t shards_per_server_ = 1;
  OnRefused on_refused_;
  ReplyLimit replies_;
  TransportCounters counters_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<monitoring::TransportMetrics> metrics_;
  std::unique_ptr<Outgoing> outgoing_;
  std::string endpoint_;
  std::uint64_t bytes_taken_ = 0;  // bytes received up to the last TakeBytesReceived
};

}  // namespace capstan::server
