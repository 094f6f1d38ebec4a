#include "server/shard/neighbours.h"

namespace capstan::server {

PeerId Neighbours::Connect(const std::string& endpoint) {
  const auto known = peers_.find(endpoint);
  if (known != peers_.end()) return known->second;
  const Result<PeerId> peer = transport_->Connect(endpoint, Role::kServer);
  if (!peer.ok()) return {};
  peers_[endpoint] = *peer;
  return *peer;
}

void Neighbours::DisconnectAll() {
  for (const auto& [endpoint, peer] : peers_) transport_->Disconnect(peer);
  peers_.clear();
}

}  // namespace capstan::server
