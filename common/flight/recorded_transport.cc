#include "common/flight/recorded_transport.h"

#include <chrono>
#include <utility>

#include "common/base/process_address.h"

namespace capstan {
namespace {

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class RecordedTransport final : public Transport {
 public:
  RecordedTransport(std::unique_ptr<Transport> transport, FlightLane* lane, Receiver receiver,
                    std::uint32_t shards_per_server)
      : transport_(std::move(transport)), lane_(lane), receiver_(receiver), shards_per_server_(shards_per_server) {}

  Result<std::string> Bind(const std::string& endpoint) override { return transport_->Bind(endpoint); }

  Result<PeerId> Connect(const std::string& endpoint, Role role) override {
    Result<PeerId> peer = transport_->Connect(endpoint, role);
    const std::string name =
        role == Role::kCoordinator ? std::string(kFlightCoordinator) : std::string(WithoutKey(AddressOf(endpoint)));
    if (peer.ok()) lane_->Connected(*peer, endpoint, name, Now());
    return peer;
  }

  void Disconnect(PeerId peer) override {
    lane_->Disconnected(peer, Now());
    transport_->Disconnect(peer);
  }

  Status Send(PeerId to, const Message& message) override {
    const Instant now = Now();  // before another process can have the message
    Status status = transport_->Send(to, message);
    lane_->Sent(to, message.header, status.code(), now);
    return status;
  }

  int Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) override {
    return transport_->Poll(timeout, [&](PeerId from, const Principal& sender, Message message) {
      const bool allowed = MaySend(sender, message.header, receiver_, shards_per_server_);
      allowed ? lane_->Received(from, message.header, Now()) : lane_->Refused(from, Now());
      on_message(from, sender, std::move(message));
    });
  }

  void Wake() override { transport_->Wake(); }

 private:
  const std::unique_ptr<Transport> transport_;
  FlightLane* const lane_;
  const Receiver receiver_;
  const std::uint32_t shards_per_server_;
};

}  // namespace

std::unique_ptr<Transport> RecordTransport(std::unique_ptr<Transport> transport, FlightLane* lane, Receiver receiver,
                                           std::uint32_t shards_per_server) {
  if (lane == nullptr) return transport;
  return std::make_unique<RecordedTransport>(std::move(transport), lane, receiver, shards_per_server);
}

}  // namespace capstan
