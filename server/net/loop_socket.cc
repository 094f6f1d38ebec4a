#include "server/net/loop_socket.h"

#include <chrono>
#include <utility>

#include "common/base/process_address.h"
#include "common/flight/recorded_transport.h"
#include "common/keys/role_name.h"
#include "common/wire/messages/error.h"
#include "monitoring/mirror_transport.h"
#include "monitoring/registry.h"
#include "server/net/advertised_endpoint.h"

namespace capstan::server {
namespace {

constexpr Instant kRetryEvery = std::chrono::milliseconds(1);

}  // namespace

Result<std::unique_ptr<LoopSocket>> LoopSocket::Open(Options options, monitoring::Registry* registry) {
  std::unique_ptr<LoopSocket> socket(new LoopSocket);
  socket->receiver_ = options.receiver;
  socket->shards_per_server_ = options.shards_per_server;
  socket->on_refused_ = std::move(options.on_refused);
  socket->transport_ = RecordTransport(CreateZmqTransport(options.transport, &socket->counters_), options.flight,
                                       options.receiver, options.shards_per_server);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bound, socket->transport_->Bind(options.listen));
  CAPSTAN_ASSIGN_OR_RETURN(socket->endpoint_, AdvertisedEndpoint(bound, options.advertise, options.listen_key));
  socket->metrics_ = registry->Create<monitoring::TransportMetrics>();
  socket->metrics_->plaintext.Set(CanBeExposed(AddressOf(bound)) ? 1 : 0);
  socket->outgoing_ =
      std::make_unique<Outgoing>(socket->transport_.get(), socket->metrics_.get(), std::move(options.on_notice));
  return socket;
}

int LoopSocket::Poll(Instant timeout, const OnMessage& on_message) {
  outgoing_->payloads().TakeReleased();
  const auto take = [&](PeerId from, const Principal& sender, const Message& message) {
    const bool allowed = MaySend(sender, message.header, receiver_, shards_per_server_);
    allowed ? on_message(from, sender, message) : Refuse(from, sender, message.header);
  };
  const int received = transport_->Poll(outgoing_->waiting() ? kRetryEvery : timeout, take);
  if (outgoing_->waiting()) outgoing_->Retry();
  return received;
}

void LoopSocket::Refuse(PeerId from, const Principal& sender, const Header& header) {
  metrics_->errors[monitoring::NetworkError::kRefused].Add();
  const std::string what = HasKey(sender.role) ? WhatItSaid(sender, header) : "";
  if (HasKey(sender.role) && on_refused_) on_refused_(sender, what);
  if (!replies_.Take(std::chrono::steady_clock::now())) return;
  Error error;
  error.code = Code::kInvalid;
  error.message = "this process does not take such a message from its sender; check which address it was meant for";
  if (HasKey(sender.role)) {
    error.code = Code::kRefused;
    error.message = "the allow list has its key as that of a " + std::string(NameOf(sender.role)) +
                    (sender.name.empty() ? "" : " named \"" + sender.name + "\"") + ", which may not do this: it " +
                    what + "; check its key file, and its name or --index";
  }
  (void)transport_->Send(from, {std::move(error), {}});  // a peer that does not read gets no answer
}

std::uint64_t LoopSocket::TakeBytesReceived() {
  const std::uint64_t bytes = counters_.header_bytes_in + counters_.payload_bytes_in;
  return bytes - std::exchange(bytes_taken_, bytes);
}

void LoopSocket::PublishCounts() { monitoring::MirrorTransport(counters_, metrics_.get()); }

}  // namespace capstan::server
