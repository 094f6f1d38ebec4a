// ShardConnections: a transport's connections to shards, at most one per endpoint.
//
// Kind:   owned by the transport's thread.
#pragma once

#include <map>
#include <string>

#include "common/wire/transport.h"

namespace capstan::session {

class ShardConnections {
 public:
  // `transport` outlives this.
  explicit ShardConnections(Transport* transport) : transport_(transport) {}

  Result<PeerId> PeerOf(const std::string& endpoint) {
    const auto known = peers_.find(endpoint);
    if (known != peers_.end()) return known->second;
    CAPSTAN_ASSIGN_OR_RETURN(const PeerId peer, transport_->Connect(endpoint, Role::kServer));
    return peers_[endpoint] = peer;
  }
  void Forget(PeerId peer) {
    transport_->Disconnect(peer);
    std::erase_if(peers_, [&](const auto& entry) { return entry.second == peer; });
  }

 private:
  Transport* const transport_;
  std::map<std::string, PeerId> peers_;
};

}  // namespace capstan::session
