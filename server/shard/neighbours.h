// Neighbours: the connections to other shards from which a shard fetches parts of a snapshot while it loads one.
//
// Kind:   part of ShardLoop, owned by its thread.
// Why:    an open connection costs sockets, even if its process is gone, so the loop closes all when the snapshot is
//         loaded.
#pragma once

#include <map>
#include <string>

#include "common/wire/transport.h"

namespace capstan::server {

class Neighbours {
 public:
  // `transport` outlives this object.
  explicit Neighbours(Transport* transport) : transport_(transport) {}

  // Returns the connection to the shard at this endpoint, and makes it if there is none. No peer: the endpoint is not
  // valid.
  PeerId Connect(const std::string& endpoint);
  void DisconnectAll();

 private:
  Transport* const transport_;
  std::map<std::string, PeerId> peers_;  // by endpoint
};

}  // namespace capstan::server
