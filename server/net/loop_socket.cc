#include "server/net/loop_socket.h"

#include <utility>

#include "common/base/process_address.h"
#include "monitoring/mirror_transport.h"
#include "monitoring/registry.h"
#include "server/net/advertised_endpoint.h"

namespace capstan::server {
namespace {

constexpr Instant kRetryEvery = std::chrono::milliseconds(1);

}  // namespace

Result<std::unique_ptr<LoopSocket>> LoopSocket::Open(Options options, monitoring::Registry* registry) {
  std::unique_ptr<LoopSocket> socket(new LoopSocket);
  socket->transport_ = CreateZmqTransport(options.transport, &socket->counters_);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bound, socket->transport_->Bind(options.listen));
  CAPSTAN_ASSIGN_OR_RETURN(socket->endpoint_, AdvertisedEndpoint(bound, options.advertise, options.listen_key));
  socket->metrics_ = registry->Create<monitoring::TransportMetrics>();
  socket->metrics_->plaintext.Set(CanBeExposed(AddressOf(bound)) ? 1 : 0);
  socket->outgoing_ =
      std::make_unique<Outgoing>(socket->transport_.get(), socket->metrics_.get(), std::move(options.on_notice));
  return socket;
}

int LoopSocket::Poll(Instant timeout, const Transport::OnMessage& on_message) {
  outgoing_->payloads().TakeReleased();
  const int delivered = transport_->Poll(outgoing_->waiting() ? kRetryEvery : timeout, on_message);
  if (outgoing_->waiting()) outgoing_->Retry();
  return delivered;
}

std::uint64_t LoopSocket::TakeBytesReceived() {
  const std::uint64_t bytes = counters_.header_bytes_in + counters_.payload_bytes_in;
  return bytes - std::exchange(bytes_taken_, bytes);
}

void LoopSocket::PublishCounts() { monitoring::MirrorTransport(counters_, metrics_.get()); }

}  // namespace capstan::server
